"""What a session counts by, and what it learns from what was billed (invariant 11)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import mn_tokens
from mn_contract.errors import ContextBudgetExceeded, InvalidInput
from mn_sdk.context_session import ContextPolicy, ContextSession, available_text_bytes
from mn_sdk.scope import SessionScope
from tests.scenario.session.upstream import Upstream, completion, events

Opener = Callable[..., ContextSession]
MESSAGES = [{"role": "user", "content": "how much is it?"}]
ASKED: list[dict[str, Any]] = []


def billed(tokens: Any) -> bytes:
    answer = json.loads(completion())
    answer["usage"] = {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens}
    return json.dumps(answer).encode()


def report(session: ContextSession, upstream: Upstream, name: str, **more: Any) -> Any:
    with session.turn(name) as turn:
        answer = turn.call({"messages": MESSAGES, **upstream.arguments, **more})
        if more.get("stream"):
            list(answer)
    assert turn.report is not None
    return turn.report


def test_a_model_that_bills_more_is_told_and_gets_a_wider_margin(
    open_session: Opener, upstream: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    session = open_session()
    first = report(session, upstream, "fits")
    assert (first.usage["prompt_tokens"], first.drift) == (10, "")
    upstream.body = billed(first.tokens + first.margin + 1000)
    drifted = report(session, upstream, "drifts")
    assert "openai/gpt-4o billed" in drifted.drift
    assert drifted.drift in caplog.text
    session.close()
    session = open_session()
    upstream.body = billed(10)
    wider = report(session, upstream, "later")
    assert wider.margin >= first.margin + 1000
    assert (wider.exact, wider.drift) == (False, "")
    assert "billed more than was reckoned with" in wider.reasons[-1]
    with pytest.raises(InvalidInput):
        session.forget_drift("")
    session.forget_drift("openai/gpt-4o")
    assert report(session, upstream, "forgotten").margin < 10
    session.close()
    assert report(open_session(), upstream, "forgotten-for-good").margin < 10


@pytest.mark.parametrize("usage", [-10, True, "10", 2**39, 10**17, None])
def test_odd_usage_costs_no_answer_and_teaches_nothing(session: ContextSession, upstream: Upstream, usage: Any) -> None:
    upstream.body = billed(usage)
    first = report(session, upstream, "odd")
    upstream.body = billed(10)
    assert report(session, upstream, "after").margin < first.margin + 10


def test_a_stream_teaches_by_what_was_reported_only(session: ContextSession, upstream: Upstream) -> None:
    upstream.events = events("one", usage=False)
    unreported = report(session, upstream, "unreported", stream=True)
    assert (unreported.usage, unreported.drift) == ({}, "")
    upstream.events = [event.replace(b'"prompt_tokens": 10', b'"prompt_tokens": 9000') for event in events("one")]
    assert "billed 9000 tokens" in report(session, upstream, "reported", stream=True).drift


def test_a_replay_teaches_nothing(session: ContextSession, upstream: Upstream) -> None:
    upstream.body = billed(9000)
    first = report(session, upstream, "d")
    upstream.body = billed(10)
    margin = report(session, upstream, "e").margin
    again = report(session, upstream, "d")
    assert (again.usage["prompt_tokens"], again.drift) == (9000, first.drift)
    assert report(session, upstream, "f").margin == margin


def make() -> Callable[..., int]:
    def count(*, request: Mapping[str, Any], scope: Mapping[str, str], principal: str) -> int:
        ASKED.append({"request": request, "scope": scope, "principal": principal})
        return 42

    return count


def broken() -> Callable[..., int]:
    def count(**asked: Any) -> int:
        raise ConnectionError("nobody there")

    return count


def none() -> None:
    raise RuntimeError("cannot be made")


def test_a_configured_counter_counts(
    session: ContextSession, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    ASKED.clear()
    monkeypatch.setenv("MN_CONTEXT_TOKEN_COUNTER_FACTORY", f"{__name__}:make")
    told = report(session, upstream, "d")
    assert (told.tokens, told.margin, told.exact, told.tokenizer) == (42, 0, True, f"{__name__}:make")
    assert sum(part["tokens"] for part in told.parts) == 42
    assert ASKED[-1]["scope"] == {"job_id": "job", "run_id": "run"}
    assert ASKED[-1]["principal"] == "alice"
    assert ASKED[-1]["request"]["model"] == "openai/gpt-4o"


def test_a_counter_that_fails_leaves_ours_and_says_so(
    session: ContextSession, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MN_CONTEXT_TOKEN_COUNTER_FACTORY", f"{__name__}:broken")
    told = report(session, upstream, "d")
    assert (told.exact, told.tokens > 5) == (False, True)
    assert "failed: ConnectionError" in told.reasons[-1]


@pytest.mark.parametrize("factory", ["nowhere", "json:nothing", f"{__name__}:none", f"{__name__}:MESSAGES"])
def test_a_counter_that_cannot_be_made_is_refused_by_name(
    session: ContextSession, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, factory: str
) -> None:
    monkeypatch.setenv("MN_CONTEXT_TOKEN_COUNTER_FACTORY", factory)
    with pytest.raises(InvalidInput) as refused:
        session.complete("d", messages=MESSAGES, **upstream.arguments)
    assert refused.value.field == "MN_CONTEXT_TOKEN_COUNTER_FACTORY"
    assert upstream.requests == []


def test_sessions_under_one_root_learn_from_each_other(open_session: Opener, upstream: Upstream) -> None:
    one, other = open_session(), open_session()
    margins = {}
    for session, model in ((one, "openai/gpt-4o"), (other, "openai/gpt-4.1")):
        session.capacity({"messages": MESSAGES, "model": model})
    upstream.body = billed(500)
    for session, model in ((one, "openai/gpt-4o"), (other, "openai/gpt-4.1")):
        assert report(session, upstream, f"drifts-{model[-1]}", model=model).drift
    upstream.body = billed(10)
    for number, session in enumerate((one, other, open_session())):
        for model in ("openai/gpt-4o", "openai/gpt-4.1"):
            told = report(session, upstream, f"{number}-{model[-1]}", model=model)
            margins[number, model] = told.margin
    assert min(margins.values()) > 400
    one.forget_drift("openai/gpt-4o")
    assert report(other, upstream, "forgotten").margin < 10
    assert report(other, upstream, "kept", model="openai/gpt-4.1").margin > 400


def slow() -> Callable[..., int]:
    def count(**asked: Any) -> int:
        time.sleep(20)
        return 5

    return count


def test_a_counter_that_blocks_does_not_outlive_the_deadline(
    open_session: Opener, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MN_CONTEXT_TOKEN_COUNTER_FACTORY", f"{__name__}:slow")
    session = open_session(deadline=time.time() + 1.5)
    started = time.monotonic()
    with pytest.raises(ContextBudgetExceeded):
        session.complete("d", messages=MESSAGES, **upstream.arguments)
    assert time.monotonic() - started < 10
    assert upstream.requests == []


def thrice() -> Callable[..., int]:
    def count(*, request: Mapping[str, Any], scope: Mapping[str, str], principal: str) -> int:
        ASKED.append({"request": request})
        return 3 * mn_tokens.count({"messages": request["messages"]}, model="gpt-4o").tokens

    return count


def test_capacity_asks_a_configured_counter_a_few_times_and_holds(
    session: ContextSession, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = available_text_bytes(session.policy, model="openai/gpt-4o")
    monkeypatch.setenv("MN_CONTEXT_TOKEN_COUNTER_FACTORY", f"{__name__}:thrice")
    ASKED.clear()
    room = session.capacity({"messages": MESSAGES, "model": "openai/gpt-4o"}).room_bytes
    assert len(ASKED) < 10
    for text in ("7\n" * (room // 2), '"\x7f' * (room // 2), "𝕏" * (room // 4)):
        assert session.capacity({"messages": [{"role": "user", "content": text}], "model": "openai/gpt-4o"}).fits
    assert available_text_bytes(session.policy, model="openai/gpt-4o") <= ours // 2


def test_available_text_knows_what_was_learned(session: ContextSession, upstream: Upstream, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"model": "openai/gpt-4o", "request": {"messages": MESSAGES}}
    before = available_text_bytes(session.policy, **asked)
    upstream.body = billed(3000)
    assert report(session, upstream, "drifts").drift
    scope = SessionScope(job_id="job", run_id="run", principal="alice")
    assert available_text_bytes(session.policy, **asked) == before
    assert available_text_bytes(session.policy, root=tmp_path / "run", scope=scope, **asked) < before - 1000
    nothing = tmp_path / "nothing"
    assert available_text_bytes(session.policy, root=nothing, scope=scope, **asked) == before
    assert not (nothing / "journal.sqlite").exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [("policy", {}), ("model", None), ("model", 5), ("sample", 5), ("request", [1]), ("request", {}), ("root", ".")],
)
def test_what_no_room_can_be_told_of_is_refused(field: str, value: Any) -> None:
    asked: dict[str, Any] = {"policy": ContextPolicy(), "model": "m", field: value}
    with pytest.raises(InvalidInput):
        available_text_bytes(asked.pop("policy"), **asked)
