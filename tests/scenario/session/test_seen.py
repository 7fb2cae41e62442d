"""What a model saw in a turn is told afterwards, exactly; and consecutive requests begin alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from mn_contract.canonical import digest
from mn_contract.errors import AmbiguousInvocation, DependencyUnavailable, InvalidInput, NotFound, SourceMismatch
from mn_contract.invocations import State
from mn_sdk.context_session import ContextSession
from mn_sdk.context_session.recording import Recorder
from tests.scenario.session.upstream import Upstream, completion

Opener = Callable[..., ContextSession]


def asked(upstream: Upstream, goal: str, **more: Any) -> dict[str, Any]:
    user = {"role": "user", "content": json.dumps({"goal": goal})}
    return {"messages": [{"role": "system", "content": "s"}, user], **upstream.arguments, **more}


def test_the_request_that_left_is_found_again_byte_for_byte(open_session: Opener, upstream: Upstream) -> None:
    session = open_session()
    session.observe("Brackets nest", event_id="o1")
    session.complete("d", focus="brackets", temperature=0.5, **asked(upstream, "g"))
    session.observe("Brackets nest no more", event_id="o2", supersedes=["o1"])
    session.close()
    seen = open_session().seen("d")
    assert seen.request["messages"] == upstream.requests[0]["messages"]
    assert (seen.request["temperature"], seen.state, seen.attempt) == (0.5, State.COMPLETED, 1)
    assert seen.report.request_sha256 == digest(seen.request)
    assert [item["id"] for item in seen.report.items] == ["o1"]
    assert json.loads(seen.response or b"")["choices"][0]["message"]["content"] == "yes"


def test_every_attempt_is_told_by_its_number(session: ContextSession, upstream: Upstream) -> None:
    """A retry is built anew, and hides nothing of what was sent before."""
    upstream.status = 500
    with pytest.raises(AmbiguousInvocation):
        session.complete("d", focus="brackets", **asked(upstream, "g"))
    session.observe("Brackets nest", event_id="o1")
    upstream.status, upstream.body = 200, completion()
    session.complete("d", focus="brackets", retry="again", **asked(upstream, "g"))
    first, second = session.seen("d", 1), session.seen("d", 2)
    assert [one.request["messages"] for one in (first, second)] == [one["messages"] for one in upstream.requests]
    assert first.request != second.request
    assert (first.state, first.response) == (State.SUPERSEDED, None)
    assert session.seen("d") == second
    for wrong in (0, -1, "1", True):
        with pytest.raises(InvalidInput):
            session.seen("d", wrong)  # type: ignore[arg-type]
    for absent in (("d", 3), ("other", None)):
        with pytest.raises(NotFound):
            session.seen(*absent)


def test_what_was_sent_is_known_when_nobody_knows_what_became_of_it(
    session: ContextSession, upstream: Upstream
) -> None:
    upstream.reset = True
    with pytest.raises(AmbiguousInvocation):
        session.complete("d", **asked(upstream, "g"))
    assert session.seen("d").request["messages"] == upstream.requests[0]["messages"]


def test_a_kept_request_that_is_not_what_was_sent_is_not_used(
    session: ContextSession, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.complete("d", **asked(upstream, "g"))
    other = session.seen("d")
    session.complete("e", **asked(upstream, "h"))
    sent = other.report.request_sha256
    kept = session.journal.notes.get("request", session.seen("e").report.request_sha256)
    session.journal.notes.put("request", sent, kept or b"")
    with pytest.raises(SourceMismatch):
        session.seen("d")


def test_requests_of_consecutive_turns_begin_alike(session: ContextSession, upstream: Upstream) -> None:
    """As far as they share records: providers bill a prefix that they know for less."""
    session.observe("Never guess.", event_id="rule", kind="constraint")
    for at in range(20):
        session.observe(f"Brackets of kind {at} nest deep in the parser", event_id=f"o{at}")
    for turn in range(4):
        session.complete(f"d{turn}", focus="brackets in the parser", **asked(upstream, f"goal {turn}"))
        session.observe(f"Unrelated weather {turn}", event_id=f"w{turn}")
    said = [request["messages"][-1]["content"] for request in upstream.requests]
    for one, other in pairwise(said):
        shared = next(at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
        assert shared > 0.8 * one.index('"coverage"')
        assert json.loads(one)["recalled"]["records"][0]["id"] == "rule"


def test_a_response_that_is_not_in_the_record_yet_is_told_so(
    session: ContextSession, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: Any) -> None:
        raise DependencyUnavailable("nobody there", dependency="engine")

    with monkeypatch.context() as away:
        away.setattr(Recorder, "record", unreachable)
        session.complete("d", **asked(upstream, "g"))
    assert session.seen("d").report.written_back == "outstanding"
    session.complete("d", **asked(upstream, "g"))
    assert session.seen("d").report.written_back == ""


def test_keys_come_back_in_their_order(session: ContextSession, upstream: Upstream) -> None:
    """A model is shown a schema in the order in which it is written."""
    properties = {"zeta": {"type": "string"}, "alpha": {"type": "string"}}
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": properties}}}
    session.complete("d", **asked(upstream, "g", tools=[tool]))
    found = session.seen("d").request["tools"][0]["function"]["parameters"]["properties"]
    assert list(found) == ["zeta", "alpha"]
    assert session.seen("d").report.usage["prompt_tokens"] == 10


def test_a_response_that_comes_late_is_kept_with_its_own_attempt(session: ContextSession, upstream: Upstream) -> None:
    upstream.reset = True
    with pytest.raises(AmbiguousInvocation):
        session.complete("d", **asked(upstream, "g"))
    upstream.reset, upstream.body = False, completion("second")
    session.complete("d", retry="again", **asked(upstream, "g"))
    session.reconcile("d", response="first", evidence="the provider's log", attempt=1)
    first, second = session.attempts("d")
    assert (first.state, second.state) == (State.SUPERSEDED, State.COMPLETED)
    assert json.loads(first.response or b"")["choices"][0]["message"]["content"] == "first"
    assert session.complete("d", **asked(upstream, "g")).choices[0].message.content == "second"
    assert len(upstream.requests) == 2
    with pytest.raises(NotFound):
        session.reconcile("d", response="x", evidence="e", attempt=7)
    assert session.attempts("other") == ()
