"""The hooks themselves, over an embedded record: what the proxy does between them, and what it leaves out."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import HTTPException

from mn_contract.errors import DependencyUnavailable, InvalidInput, UnmanagedCall
from mn_contract.invocations import State
from mn_sdk.context_session import ContextSession, provider
from mn_sdk.context_session.receipt import Receipt
from mn_sdk.litellm_context import calls, gateway, models, routes, sessions, settings
from mn_sdk.litellm_context.refusals import refusal
from mn_sdk.scope import SessionScope

KEY = SimpleNamespace(
    metadata={"membrane_principal": "alice", "membrane_jobs": "pricing"}, team_metadata=None, team_id=None
)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MN_CONTEXT_ADDR", raising=False)
    monkeypatch.setattr(gateway, "_deployments", lambda model, team_id: ())


@pytest.fixture
def hooks(tmp_path: Path) -> Iterator[gateway.Gateway]:
    made = gateway.Gateway(settings.read_settings({"root": str(tmp_path / "root")}))
    yield made
    made.close()


def request(**membrane: Any) -> dict[str, Any]:
    asked = {"job_id": "pricing", "run_id": "run", "name": "d", **membrane}
    return {
        "model": "gpt-4o",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": '{"goal": "g"}'}],
        "metadata": {"membrane": asked},
    }


def answer() -> Any:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes"}}
    return provider.load().ModelResponse(choices=[choice], usage={"prompt_tokens": 10, "completion_tokens": 1})


class Streamed:
    """A stream of litellm's, with its usage at the end: `chunks` are what the provider sent."""

    def __init__(self) -> None:
        self.chunks = provider.chunks_of(answer())

    async def __aiter__(self) -> AsyncIterator[Any]:
        (end,) = self.chunks
        yield end.model_copy(update={"choices": [end.choices[0].model_copy(update={"finish_reason": None})]})
        yield end
        yield end.model_copy(update={"choices": []})


async def admitted(hooks: gateway.Gateway, data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = await hooks.async_pre_call_hook(KEY, None, data, "acompletion")
    return found


def receipt(hooks: gateway.Gateway, root: Path, name: str = "d") -> Receipt:
    with ContextSession(root / "root", job_id="pricing", run_id="run", principal="alice") as session:
        return session.receipt(name)


async def test_the_record_may_lie_under_the_root(hooks: gateway.Gateway, tmp_path: Path) -> None:
    with ContextSession(tmp_path / "root", job_id="pricing", run_id="run", principal="alice") as session:
        session.observe("never sell below cost", event_id="rule", kind="constraint")
    data = await admitted(hooks, request())
    assert "never sell below cost" in data["messages"][1]["content"]
    await hooks.async_pre_call_deployment_hook({**data, "model": "openai/gpt-4o"}, "acompletion")
    assert await hooks.async_post_call_success_hook(data, KEY, answer()) is None
    assert receipt(hooks, tmp_path).state is State.COMPLETED


async def test_without_a_root_no_run_is_served() -> None:
    with pytest.raises(HTTPException) as refused:
        await admitted(gateway.Gateway(settings.read_settings({})), request())
    assert refused.value.status_code == 503


def _said(data: dict[str, Any]) -> None:
    data["messages"] = [*data["messages"], {"role": "user", "content": "and ignore the rest"}]


def _appended(data: dict[str, Any]) -> None:
    data["messages"].append({"role": "user", "content": "and ignore the rest"})


def _rewritten(data: dict[str, Any]) -> None:
    data["messages"][-1]["content"] += " and ignore the rest"


def _armed(data: dict[str, Any]) -> None:
    data["tools"] = [{"type": "function", "function": {"name": "f"}}]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (_said, "messages"),
        (_appended, "messages"),
        (_rewritten, "messages"),
        (_armed, "tools"),
        (lambda data: data.update(temperature=0.9), "temperature"),
        (lambda data: data.update(max_tokens=400), "max_tokens"),
        (lambda data: data.pop("top_p"), "top_p"),
    ],
)
async def test_what_is_changed_after_it_was_admitted_is_not_sent(
    hooks: gateway.Gateway, tmp_path: Path, change: Callable[[dict[str, Any]], None], name: str
) -> None:
    """By another callback, in place or not; whatever a provider would get of it."""
    data = await admitted(hooks, {**request(), "top_p": 0.5})
    change(data)
    with pytest.raises(HTTPException, match=f"{name} was changed") as refused:
        await hooks.async_pre_call_deployment_hook(data, "acompletion")
    assert refused.value.status_code == 409
    assert await hooks.async_post_call_failure_hook(data, refused.value, KEY) is None
    assert receipt(hooks, tmp_path).state is State.FAILED_DEFINITE


async def test_what_the_operator_sets_is_no_change(hooks: gateway.Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the request does not say: what it says itself stands."""
    monkeypatch.setattr(gateway, "_set_for", lambda request: {"temperature": 0.2, "top_p": 0.1, "api_base": "http://x"})
    data = await admitted(hooks, {**request(), "top_p": 0.5})
    sent = await hooks.async_pre_call_deployment_hook({**data, "temperature": 0.2}, "acompletion")
    assert sent is not None
    assert (sent["temperature"], sent["top_p"]) == (0.2, 0.5)
    data = await admitted(hooks, {**request(name="e"), "top_p": 0.5})
    with pytest.raises(HTTPException, match="top_p was changed"):
        await hooks.async_pre_call_deployment_hook({**data, "temperature": 0.2, "top_p": 0.1}, "acompletion")


async def test_one_call_is_one_send(hooks: gateway.Gateway) -> None:
    data = await admitted(hooks, request())
    await hooks.async_pre_call_deployment_hook(data, "acompletion")
    with pytest.raises(HTTPException) as refused:
        await hooks.async_pre_call_deployment_hook(data, "acompletion")
    assert refused.value.detail["membrane"]["reason"] == "UNMANAGED_CALL"


@pytest.mark.parametrize(
    "more",
    [
        {"vector_store_ids": ["v"]},
        {"web_search_options": {"search_context_size": "high"}},
        {"mcp_servers": [{"type": "url", "url": "https://x", "name": "m"}]},
        {"extra_body": {"previous_response_id": "r"}},
        {"truncation": "auto"},
    ],
)
async def test_what_would_be_added_or_cut_after_it_was_counted_is_refused_at_the_send(
    hooks: gateway.Gateway, more: dict[str, Any]
) -> None:
    """By litellm or by the provider, also without a run."""
    plain = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}]}
    assert await hooks.async_pre_call_deployment_hook({**plain, "truncation": "disabled"}, "acompletion") is None
    plain |= more
    with pytest.raises(HTTPException) as refused:
        await hooks.async_pre_call_deployment_hook(plain, "acompletion")
    assert refused.value.status_code == 422


@pytest.mark.parametrize("more", [{"model": "gpt-4o,gpt-4o-mini"}, {"user_config": {"model_list": []}}])
async def test_a_run_is_for_one_model(hooks: gateway.Gateway, more: dict[str, Any]) -> None:
    with pytest.raises(HTTPException) as refused:
        await admitted(hooks, {**request(), **more})
    assert refused.value.status_code == 422


async def test_a_refusal_by_another_callback_was_not_executed(hooks: gateway.Gateway, tmp_path: Path) -> None:
    data = await admitted(hooks, request())
    assert await hooks.async_post_call_failure_hook(data, HTTPException(status_code=400), KEY) is None
    assert receipt(hooks, tmp_path).state is State.FAILED_DEFINITE


async def test_a_reader_that_leaves_before_the_end_leaves_an_unknown_call(
    hooks: gateway.Gateway, tmp_path: Path
) -> None:
    data = await admitted(hooks, request())
    await hooks.async_pre_call_deployment_hook(data, "acompletion")
    hooks.log_pre_api_call("gpt-4o", [], {})
    stream = hooks.async_post_call_streaming_iterator_hook(KEY, Streamed(), data)
    await anext(stream)
    await stream.aclose()
    assert receipt(hooks, tmp_path).state is State.AMBIGUOUS


async def test_the_end_of_a_stream_waits_for_the_journal(hooks: gateway.Gateway, tmp_path: Path) -> None:
    data = await admitted(hooks, request())
    stream = hooks.async_post_call_streaming_iterator_hook(KEY, Streamed(), data)
    await anext(stream)
    ending = await anext(stream)
    assert ending.choices[0].finish_reason == "stop"
    assert receipt(hooks, tmp_path).state is State.COMPLETED


async def test_a_call_that_the_proxy_forgets_is_unknown(
    hooks: gateway.Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await admitted(hooks, request())
    later = time.monotonic() + 3600
    monkeypatch.setattr(calls, "monotonic", lambda: later)
    await admitted(hooks, request(name="e"))
    assert receipt(hooks, tmp_path).state is State.AMBIGUOUS
    assert receipt(hooks, tmp_path, "e").state is State.DISPATCHED


async def test_a_stored_answer_is_never_sent_as_a_request(hooks: gateway.Gateway) -> None:
    data = await admitted(hooks, request())
    await hooks.async_post_call_success_hook(data, KEY, answer())
    again = await admitted(hooks, request())
    assert again["mock_response"].usage.total_tokens == 0
    with pytest.raises(HTTPException):
        await hooks.async_pre_call_deployment_hook({**again, "mock_response": None}, "acompletion")
    replayed = await hooks.async_post_call_success_hook(again, KEY, answer())
    assert replayed.usage.prompt_tokens == 10


async def test_what_was_sent_is_not_worth_a_retry() -> None:
    """Invariant 10: the same request again would be another call."""
    away = DependencyUnavailable("the journal cannot be written", dependency="journal")
    assert refusal(away).headers == {"x-should-retry": "true"}
    assert refusal(away, sent=True).headers == {"x-should-retry": "false"}


async def test_after_the_answer_nothing_is_worth_a_retry_either(hooks: gateway.Gateway) -> None:
    """Whatever other callbacks raise then: the answer is paid for."""
    data = await admitted(hooks, request())
    await hooks.async_pre_call_deployment_hook(data, "acompletion")
    await hooks.async_post_call_success_hook(data, KEY, answer())
    assert await hooks.async_post_call_failure_hook(data, ValueError("a guardrail"), KEY) is None
    headers = await hooks.async_post_call_response_headers_hook(data, KEY, None)
    assert headers is not None
    assert headers["x-should-retry"] == "false"


async def test_a_stream_asks_for_its_usage_and_shows_it_to_those_who_do(hooks: gateway.Gateway) -> None:
    for shown, options in ((False, {}), (True, {"stream_options": {"include_usage": True}})):
        data = await admitted(hooks, {**request(name=f"shown-{shown}"), "stream": True, **options})
        sent = await hooks.async_pre_call_deployment_hook({**data, "model": "openai/gpt-4o"}, "acompletion")
        assert sent is not None
        assert sent["stream_options"] == {"include_usage": True}
        stream = hooks.async_post_call_streaming_iterator_hook(KEY, Streamed(), data)
        assert [bool(chunk.choices) async for chunk in stream] == [True, True, False][: 3 if shown else 2]


async def test_many_requests_of_one_name_are_one_send(hooks: gateway.Gateway) -> None:
    tried = await asyncio.gather(*(admitted(hooks, request()) for _ in range(4)), return_exceptions=True)
    refused = [error.detail["membrane"]["reason"] for error in tried if isinstance(error, HTTPException)]
    assert refused == ["IN_FLIGHT"] * 3


@pytest.mark.parametrize(
    ("asked", "settled", "set_", "expected"),
    [
        ({}, {}, 6000, 600),
        ({}, {}, 4, 4),
        ({}, {"timeout": 3}, 4, 3),
        ({"timeout": 2}, {"timeout": 3}, 4, 2),
        ({"request_timeout": 2}, {"timeout": 3}, 4, 2),
        ({"stream_timeout": 2, "timeout": 9}, {"timeout": 3, "stream_timeout": 5}, 4, 2),
        ({"timeout": 9}, {"timeout": "3"}, 4, 3),
    ],
)
async def test_the_smallest_time_limit_is_sent(
    hooks: gateway.Gateway, monkeypatch: pytest.MonkeyPatch, asked: Any, settled: Any, set_: float, expected: float
) -> None:
    monkeypatch.setattr(provider.load(), "request_timeout", float(set_))
    data = await admitted(hooks, {**request(), **asked})
    sent = await hooks.async_pre_call_deployment_hook({**data, **settled, "model": "openai/gpt-4o"}, "acompletion")
    assert sent is not None
    limits = [sent["timeout"], sent.get("stream_timeout", sent["timeout"])]
    assert limits == pytest.approx([expected, expected], abs=0.1)


async def test_the_proxy_is_told_to_send_once_and_to_use_no_cache(hooks: gateway.Gateway) -> None:
    """What it is set to would send again, elsewhere, or answer from another call."""
    data = await admitted(hooks, {**request(), "num_retries": 5, "max_retries": 5, "disable_fallbacks": False})
    assert (data["num_retries"], data["max_retries"], data["disable_fallbacks"]) == (0, 0, True)
    assert data["cache"] == {"no-cache": True, "no-store": True}


@pytest.mark.parametrize("told", [False, True])
async def test_litellms_word_that_it_sends_is_believed(hooks: gateway.Gateway, tmp_path: Path, told: bool) -> None:
    """By a client that is not watched, such as a provider's own, it may have been executed."""
    data = await admitted(hooks, request())
    await hooks.async_pre_call_deployment_hook({**data, "model": "openai/gpt-4o"}, "acompletion")
    if told:
        hooks.log_pre_api_call("gpt-4o", [], {})
    await hooks.async_post_call_failure_hook(data, RuntimeError("the client's own"), KEY)
    assert receipt(hooks, tmp_path).state is (State.AMBIGUOUS if told else State.FAILED_DEFINITE)


async def test_a_client_that_leaves_while_its_call_is_claimed_leaves_no_claim(
    hooks: gateway.Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = threading.Event(), threading.Event()
    begin = gateway.begin

    def slow(*args: Any) -> Any:
        call = begin(*args)
        began.set()
        assert go_on.wait(30)
        return call

    monkeypatch.setattr(gateway, "begin", slow)
    task = asyncio.create_task(admitted(hooks, request()))
    assert await asyncio.to_thread(began.wait, 30)
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert receipt(hooks, tmp_path).state is State.FAILED_DEFINITE


def test_a_teams_own_deployments_are_the_ones_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    class Registry:
        def deployments(self, model: str, *, team_id: str | None = None) -> list[Any]:
            return [(model, team_id)]

    monkeypatch.undo()
    proxy = SimpleNamespace(llm_router=SimpleNamespace(registry=Registry))
    monkeypatch.setitem(sys.modules, "litellm.proxy.proxy_server", proxy)  # loading the proxy takes long, and warns
    assert gateway._deployments("m", "team-1") == [("m", "team-1")]


def test_sessions_that_make_room_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 1)
    kept = sessions.Sessions(tmp_path)
    first, second = (
        kept.of(SessionScope(job_id="pricing", run_id=run, principal="alice", roles=())) for run in ("1", "2")
    )
    with pytest.raises(DependencyUnavailable):
        first.receipt("d")
    assert second.attempts("d") == ()
    kept.close()


async def test_an_engine_that_hangs_holds_up_only_runs(hooks: gateway.Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain requests need no engine, the proxy's own threads stay free, and what would wait without end is refused."""
    answering, started = threading.Event(), []
    begin = gateway.begin

    def hanging(*args: Any) -> Any:
        started.append(args)
        assert answering.wait(60)
        return begin(*args)

    monkeypatch.setattr(gateway, "begin", hanging)
    most = gateway.THREADS + gateway.WAITING_MAX
    waiting = [asyncio.create_task(admitted(hooks, request(name=f"d{number}"))) for number in range(most)]
    try:
        async with asyncio.timeout(50):
            plain = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}]}
            assert await admitted(hooks, plain) == plain
            await asyncio.to_thread(time.monotonic)
            while len(started) < gateway.THREADS:
                await asyncio.sleep(0.01)
            with pytest.raises(HTTPException) as refused:
                await admitted(hooks, request(name="late"))
    finally:
        answering.set()
        await asyncio.gather(*waiting)
    assert refused.value.status_code == 503
    assert refused.value.headers == {"x-should-retry": "true", "retry-after": "1"}


@pytest.mark.parametrize(
    "given",
    [
        7,
        {"roots": "x"},
        {"root": ""},
        {"pass": "aresponses"},
        {"policy": {"window": 1}},
        {"policy": {"window_tokens": 10}},
        {"policy": {"max_storage_bytes": 10}},
    ],
)
def test_settings_that_are_wrong_are_refused(given: Any) -> None:
    with pytest.raises(InvalidInput):
        settings.read_settings(given)


def test_a_models_own_settings_come_before_those_for_all() -> None:
    info = {"membrane": {"output_tokens": 100}, "max_input_tokens": 5000}
    policy = models.target_of("openai/gpt-4o", info, {"output_tokens": 200, "safety_tokens": 300}).policy
    assert (policy.window_tokens, policy.output_tokens, policy.safety_tokens) == (5000, 100, 300)
    assert models.target_of("openai/gpt-4o", {}, {}).policy.window_tokens == 128_000
    assert models.target_of("nobody/knows-it", {}, {}).policy.window_tokens == 16384


@pytest.mark.parametrize("call_type", ["acompletion", "aembedding", "aresponses", "afile_content", "aget_responses"])
def test_each_call_of_the_proxy_is_admitted_passed_or_refused(call_type: str) -> None:
    expected = {"acompletion": True, "aresponses": None}.get(call_type, False)
    if expected is None:
        with pytest.raises(UnmanagedCall):
            routes.is_admitted(call_type, frozenset())
        assert not routes.is_admitted(call_type, frozenset({call_type}))
    else:
        assert routes.is_admitted(call_type, frozenset()) is expected


@pytest.mark.parametrize(
    "call_type",
    ["atext_completion", "anthropic_messages", "agenerate_content_stream", "acompact_responses", "acreate_batch",
     "acreate_run", "acreate_interaction", "asend_message", "_arealtime", "_aresponses_websocket",
     "pass_through_endpoint", "allm_passthrough_route", "arun_thread", "aingest", "something new"],
)  # fmt: skip
def test_what_has_a_model_write_text_is_refused(call_type: str) -> None:
    with pytest.raises(UnmanagedCall):
        routes.is_admitted(call_type, frozenset())
