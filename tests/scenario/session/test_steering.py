"""Whatever litellm is told beside the request, a dispatch is one send to the model that was counted (invariant 10)."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Iterator
from typing import Any

import pytest
from litellm.types.litellm_params import OWNED_KWARG_NAMES

from mn_contract.errors import IdempotencyConflict, InvalidInput
from mn_sdk.context_session import ContextSession, provider
from mn_sdk.context_session.call import read_call
from mn_sdk.context_session.steering import OFF, REFUSED, SETTINGS
from tests.scenario.session.upstream import Upstream

litellm = provider.load()
MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": json.dumps({"goal": "g"})}]
OTHER = "openai/gpt-3.5-turbo"
NAMES = sorted({*inspect.signature(litellm.completion).parameters, *OWNED_KWARG_NAMES, *REFUSED})
REACHING = {"model", "messages", "kwargs", "api_base", "base_url", "api_key", "timeout", "request_timeout", "client"}
"""What says where a call goes, and how long it waits."""


@pytest.fixture
def second() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.close()


def deployments(*servers: Upstream) -> list[dict[str, Any]]:
    """Other models under the called one's name, one on each server."""
    return [
        {"model_name": "openai/gpt-4o", "litellm_params": {"model": model, "api_base": server.base, "api_key": "none"}}
        for model, server in zip((OTHER, "openai/gpt-4"), servers, strict=True)
    ]


def steered(name: str, *servers: Upstream) -> list[Any]:
    """Values of an argument that could make more of a call."""
    known = {
        "model_list": [deployments(*servers)],
        "context_window_fallback_dict": [{"openai/gpt-4o": OTHER}],
        "retry_policy": [{"InternalServerErrorRetries": 2}],
        "retry_strategy": ["exponential_backoff_retry"],
        "tools": [[{"type": "mcp", "server_url": "litellm_proxy", "require_approval": "never"}]],
    }
    return known.get(name, [True, OTHER, {"openai/gpt-4o": OTHER}])


@pytest.mark.filterwarnings("ignore")  # litellm's own, where an argument makes no sense to it
@pytest.mark.parametrize("name", [name for name in NAMES if name not in REACHING])
def test_no_argument_makes_more_than_one_send_of_a_call(upstream: Upstream, second: Upstream, name: str) -> None:
    upstream.status, upstream.body = 500, b"{}"
    for value in steered(name, upstream, second):
        upstream.requests.clear()
        with contextlib.suppress(InvalidInput):
            call = read_call({**upstream.arguments, "messages": MESSAGES, name: value}, response_format=None)
            provider.send(call.arguments(timeout=5))
        # A provider may be named beside the model; then its name can stand before the model's.
        assert [request["model"].rpartition("/")[2] for request in upstream.requests] in ([], ["gpt-4o"]), value
    assert second.requests == []


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_would_send_again_or_something_else_is_refused_before_it_is_claimed(
    session: ContextSession, upstream: Upstream, name: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        session.complete("d", messages=MESSAGES, **{**upstream.arguments, name: ["x"]})
    assert refused.value.field == name
    assert session.journal.invocations.newest("d") is None
    session.complete("d", messages=MESSAGES, **{**upstream.arguments, name: False})
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("body", [False, True])
@pytest.mark.parametrize("name", sorted(OFF))
def test_that_a_provider_may_not_cut_is_sent(
    session: ContextSession, upstream: Upstream, name: str, body: bool
) -> None:
    """Invariant 1: left out, it might."""
    off = {name: OFF[name]}
    session.complete("d", messages=MESSAGES, **({"extra_body": off} if body else off), **upstream.arguments)
    assert upstream.requests[0][name] == OFF[name]
    with pytest.raises(InvalidInput):
        session.complete("e", messages=MESSAGES, extra_body={name: ["auto"]}, **upstream.arguments)


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_litellm_that_is_set_to_send_again_or_something_else_is_refused(
    session: ContextSession, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(litellm, name, {"gpt-4o": "x"}, raising=False)
    with pytest.raises(InvalidInput) as refused:
        session.complete("d", messages=MESSAGES, **upstream.arguments)
    assert refused.value.field == f"litellm.{name}"
    assert upstream.requests == []


def test_an_mcp_server_is_no_tool_of_a_managed_call(session: ContextSession, upstream: Upstream) -> None:
    with pytest.raises(InvalidInput) as refused:
        session.complete("d", messages=MESSAGES, tools=[{"type": "mcp", "server_url": "x"}], **upstream.arguments)
    assert refused.value.field == "tools[0]"


def test_a_mock_is_not_replayed_to_a_call_without_it(session: ContextSession, upstream: Upstream) -> None:
    made_up = session.complete("d", messages=MESSAGES, mock_response="made up", **upstream.arguments)
    assert made_up.choices[0].message.content == "made up"
    with pytest.raises(IdempotencyConflict):
        session.complete("d", messages=MESSAGES, **upstream.arguments)
    assert upstream.requests == []


@pytest.mark.parametrize("status", [200, 500])
def test_a_fan_out_of_litellms_sends_once_from_whatever_thread(
    upstream: Upstream, second: Upstream, status: int
) -> None:
    """At the tap, had such an argument passed: litellm's threads carry no context."""
    for server in (upstream, second):
        server.status = status
    more = {key: value for key, value in upstream.arguments.items() if key != "api_base"}
    provider.send({**more, "messages": MESSAGES, "model_list": deployments(upstream, second), "num_retries": 0})
    assert len(upstream.requests) + len(second.requests) == 1


@pytest.mark.parametrize("name", ["fallbacks", "context_window_fallback_dict"])
async def test_a_fallback_of_litellms_sends_nothing_more(upstream: Upstream, second: Upstream, name: str) -> None:
    upstream.status = 400
    upstream.body = b'{"error": {"message": "maximum context length", "code": "context_length_exceeded"}}'
    fallback = {"model": OTHER, "api_base": second.base}
    steering = {name: [fallback] if name == "fallbacks" else {"openai/gpt-4o": OTHER}, "max_retries": 0}
    provider.send({**upstream.arguments, "messages": MESSAGES, **steering})
    assert len(upstream.requests) == 1
    await provider.asend({**upstream.arguments, "messages": MESSAGES, **steering})
    assert len(upstream.requests) == 2
    assert second.requests == []
