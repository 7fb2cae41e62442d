"""What became of a call, and what may follow: proved failures are free, unknown ones are settled (invariant 10)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from mn_contract.errors import (
    AmbiguousInvocation,
    ContextBudgetExceeded,
    DependencyUnavailable,
    IdempotencyConflict,
    InvalidInput,
    InvocationInFlight,
    NotFound,
    RunClosed,
    SourceMismatch,
    UnusableResponse,
)
from mn_contract.invocations import State
from mn_sdk.context_session import ContextSession, provider
from mn_sdk.context_session.journal import keeping
from mn_sdk.context_session.journal.notes import Notes
from mn_sdk.context_session.journal.sqlite import SqliteInvocations
from mn_sdk.context_session.wiretap import Exchange, recording
from tests.scenario.session.upstream import Upstream, completion

litellm = provider.load()
MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": json.dumps({"goal": "g"})}]


def call(session: ContextSession, upstream: Upstream, name: str = "d", **more: Any) -> Any:
    return session.complete(name, **{"messages": MESSAGES, **upstream.arguments, **more})


def _acomplete(session: ContextSession, name: str, **arguments: Any) -> Any:
    return asyncio.run(session.acomplete(name, **arguments))


def state(session: ContextSession, name: str = "d") -> State:
    newest = session.journal.invocations.newest(name)
    assert newest is not None
    return newest.state


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 429])
def test_a_provider_that_declines_billed_nothing(session: ContextSession, upstream: Upstream, status: int) -> None:
    upstream.status, upstream.body = status, b'{"error": {"message": "no"}}'
    with pytest.raises(openai.OpenAIError):  # litellm's own errors are subclasses
        call(session, upstream)
    assert state(session) is State.FAILED_DEFINITE
    upstream.status, upstream.body = 200, completion("now")
    assert call(session, upstream).choices[0].message.content == "now"
    assert len(upstream.requests) == 2


@pytest.mark.parametrize("status", [408, 409, 500, 502, 503])
def test_any_other_failure_after_sending_is_ambiguous_and_is_not_repeated(
    session: ContextSession, upstream: Upstream, status: int
) -> None:
    upstream.status, upstream.body = status, b'{"error": {"message": "no"}}'
    for _ in range(2):
        with pytest.raises(AmbiguousInvocation):
            call(session, upstream)
    assert state(session) is State.AMBIGUOUS
    assert len(upstream.requests) == 1


def test_a_connection_that_breaks_is_ambiguous(session: ContextSession, upstream: Upstream) -> None:
    upstream.reset = True
    with pytest.raises(AmbiguousInvocation):
        call(session, upstream)
    assert state(session) is State.AMBIGUOUS
    assert len(upstream.requests) == 1


def test_a_timeout_is_ambiguous(session: ContextSession, upstream: Upstream) -> None:
    answered = threading.Event()
    upstream.hold = lambda: answered.wait(30) and None
    with pytest.raises(AmbiguousInvocation):
        call(session, upstream, timeout=0.3)
    answered.set()
    assert state(session) is State.AMBIGUOUS


@pytest.mark.parametrize("part", ["head", "body"])
@pytest.mark.parametrize("complete", [ContextSession.complete, _acomplete])
def test_an_answer_that_trickles_is_ambiguous_when_the_time_is_up(
    session: ContextSession, upstream: Upstream, part: str, complete: Callable[..., Any]
) -> None:
    """A call's time limit is for all of it, not for each read."""
    upstream.trickle = part
    begun = time.monotonic()
    asked = {**upstream.arguments, "timeout": 0.5}
    with pytest.raises(AmbiguousInvocation):
        complete(session, "d", messages=MESSAGES, **asked)
    assert time.monotonic() - begun < 5
    assert state(session) is State.AMBIGUOUS
    assert len(upstream.requests) == 1


def test_what_comes_after_the_time_is_up_is_not_read(session: ContextSession, upstream: Upstream) -> None:
    upstream.trickle = "body"
    with pytest.raises(AmbiguousInvocation):
        call(session, upstream, timeout=0.5)
    until = time.monotonic() + 10
    while any(thread.name == "mn-send" for thread in threading.enumerate()):
        assert time.monotonic() < until, "the answer is still being read"
        time.sleep(0.05)


def test_a_trickling_answer_is_waited_for_until_the_sessions_deadline(
    open_session: Callable[..., ContextSession], upstream: Upstream
) -> None:
    deadline = time.time() + 2
    session = open_session(deadline=deadline)
    upstream.trickle = "body"
    with pytest.raises(AmbiguousInvocation):
        call(session, upstream)
    assert time.time() < deadline + 3


def test_nothing_is_sent_when_the_time_is_up(upstream: Upstream) -> None:
    import httpx

    exchange = Exchange(-1)
    with recording(exchange), httpx.Client() as client, pytest.raises(ContextBudgetExceeded) as late:
        client.post(f"{upstream.base}/chat/completions", json={})
    assert late.value.detail["budget"] == "deadline"
    assert (exchange.sent, upstream.requests) == (0, [])


def test_a_refused_connection_sent_nothing(session: ContextSession, upstream: Upstream) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
    with pytest.raises(openai.OpenAIError):
        call(session, upstream, api_base=address)
    assert state(session) is State.FAILED_DEFINITE


def test_what_litellm_refuses_itself_sent_nothing(session: ContextSession, upstream: Upstream) -> None:
    with pytest.raises(litellm.exceptions.BadRequestError):
        call(session, upstream, model="nobody-knows-this/model")
    assert state(session) is State.FAILED_DEFINITE


def check_kept_unusable(session: ContextSession, upstream: Upstream, body: bytes) -> None:
    """The answer is raised as unusable each time, sent for once, and stored as it came."""
    upstream.body = body
    for _ in range(2):
        with pytest.raises(UnusableResponse):
            call(session, upstream)
    newest = session.journal.invocations.newest("d")
    assert newest is not None
    assert (newest.state, newest.response, newest.usable) == (State.RESPONDED, body, False)
    assert len(upstream.requests) == 1


@pytest.mark.parametrize(
    "body", [b"<html>busy</html>", b"{}", b'{"choices": []}', b"[1]", b'{"error": {"message": "x"}}']
)
def test_a_paid_response_that_cannot_be_used_is_kept_exactly_and_replayed_as_such(
    session: ContextSession, upstream: Upstream, body: bytes
) -> None:
    check_kept_unusable(session, upstream, body)


@pytest.mark.parametrize(
    "body",
    [
        completion("half \ud83d of an emoji"),
        completion(
            None, tool_calls=[{"id": "a", "type": "function", "function": {"name": "f", "arguments": "\ud800"}}]
        ),
        completion("x").replace(
            b'"index": 0',
            b'"index": 0, "logprobs": {"content": [{"token": "a", "logprob": NaN, "bytes": null, "top_logprobs": []}]}',
        ),
        completion("x").replace(b'"created"', b'"extra": ' + b"[" * 300 + b"]" * 300 + b', "created"'),
        completion("x").replace(b'"created"', b'"extra": ' + b"[" * 20_000 + b"]" * 20_000 + b', "created"'),
        completion("x").replace(b'"index": 0', b'"index": ' + b"9" * 5000),
        completion({"a": 1}),  # type: ignore[arg-type]
        completion("x", tool_calls=[5]),
    ],
    ids=["surrogate", "surrogate in a call", "nan", "deep", "too deep", "digits", "no text", "no call"],
)
def test_an_answer_that_cannot_be_read_or_kept_is_a_paid_response_all_the_same(
    session: ContextSession, upstream: Upstream, body: bytes
) -> None:
    check_kept_unusable(session, upstream, body)


def test_a_response_larger_than_the_limit_is_known_to_have_come(session: ContextSession, upstream: Upstream) -> None:
    upstream.body = completion("y" * 5_000_000)
    with pytest.raises(UnusableResponse) as first:
        call(session, upstream)
    assert first.value.detail["response"]["choices"][0]["message"]["content"] == "y" * 5_000_000
    with pytest.raises(UnusableResponse):
        call(session, upstream)
    newest = session.journal.invocations.newest("d")
    assert newest is not None
    assert newest.state is State.RESPONDED
    assert json.loads(newest.response or b"")["bytes"] > 5_000_000
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_is_not_followed(session: ContextSession, upstream: Upstream, status: int) -> None:
    upstream.status, upstream.headers = status, {"location": f"{upstream.base}/elsewhere"}
    with pytest.raises(openai.OpenAIError):
        call(session, upstream)
    assert state(session) is State.FAILED_DEFINITE
    assert len(upstream.requests) == 1


def test_a_journal_that_cannot_be_written_after_the_answer_does_not_lose_it(
    open_session: Callable[..., ContextSession], upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session(deadline=time.time() + 600)

    def away(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise DependencyUnavailable("locked", dependency="journal")

    with monkeypatch.context() as patched:
        patched.setattr(SqliteInvocations, "respond", away)
        patched.setattr(keeping, "PATIENCE_SECONDS", 0.3)
        with pytest.raises(DependencyUnavailable) as lost:
            call(session, upstream)
        assert lost.value.detail["response"]["choices"][0]["message"]["content"] == "yes"
        with pytest.raises(DependencyUnavailable):
            call(session, upstream)
    with session.turn("d") as turn:
        answer = litellm.completion(messages=MESSAGES, **upstream.arguments)
    assert (turn.replayed, answer.choices[0].message.content) == (True, "yes")
    assert state(session) is State.COMPLETED
    assert len(upstream.requests) == 1


def test_configured_retries_do_not_send_again(session: ContextSession, upstream: Upstream) -> None:
    upstream.status, upstream.body = 500, b"{}"
    with pytest.raises(AmbiguousInvocation):
        call(session, upstream, num_retries=3, max_retries=3)
    assert len(upstream.requests) == 1


def test_a_response_is_replayed_after_a_restart(
    open_session: Callable[..., ContextSession], upstream: Upstream
) -> None:
    first = open_session()
    answer = call(first, upstream)
    assert first.has_durable_response("d")
    first.close()
    again = open_session()
    with again.turn("d") as turn:
        replay = litellm.completion(messages=MESSAGES, **upstream.arguments)
    assert turn.replayed
    assert replay.model_dump() == answer.model_dump()
    assert turn.report is not None
    assert turn.report.request_sha256
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("answer", ["yes", "a long answer " * 2000])
def test_a_call_that_the_journal_has_lost_is_not_made_again(
    open_session: Callable[..., ContextSession], upstream: Upstream, tmp_path: Path, answer: str
) -> None:
    """Invariant 10: the record has its response."""
    upstream.body = completion(answer)
    session = open_session()
    call(session, upstream)
    root = session.journal.rows._database._path.parent
    session.close()
    for file in root.glob("journal.*"):
        file.unlink()
    again = open_session()
    for _ in range(2):
        with pytest.raises(SourceMismatch, match="lost") as lost:
            call(again, upstream)
        assert lost.value.detail["name"] == "d"
    assert len(upstream.requests) == 1
    assert call(again, upstream, "e").choices


def test_the_same_name_for_another_request_is_a_conflict(session: ContextSession, upstream: Upstream) -> None:
    call(session, upstream)
    with pytest.raises(IdempotencyConflict):
        call(session, upstream, messages=[{"role": "user", "content": "else"}])
    assert len(upstream.requests) == 1


def test_an_unknown_outcome_is_retried_under_a_name_of_its_own(session: ContextSession, upstream: Upstream) -> None:
    upstream.status = 500
    with pytest.raises(AmbiguousInvocation):
        call(session, upstream)
    upstream.status = 200
    assert call(session, upstream, retry="again-1").choices[0].message.content == "yes"
    assert call(session, upstream, retry="again-1").choices[0].message.content == "yes"
    newest = session.journal.invocations.newest("d")
    assert newest is not None
    assert (newest.attempt, newest.state) == (2, State.COMPLETED)
    assert len(upstream.requests) == 2


def test_an_unknown_outcome_is_settled_with_the_response_that_was_found(
    session: ContextSession, upstream: Upstream
) -> None:
    upstream.status = 500
    with pytest.raises(AmbiguousInvocation):
        call(session, upstream)
    session.reconcile("d", response=json.loads(completion("found")), evidence="the provider's log")
    assert call(session, upstream).choices[0].message.content == "found"
    assert session.memory_action("recall_memory", {"query": "found"})["records"][0]["text"] == "found"
    assert len(upstream.requests) == 1


def test_an_unknown_outcome_is_settled_as_not_executed(session: ContextSession, upstream: Upstream) -> None:
    upstream.status = 500
    with pytest.raises(AmbiguousInvocation):
        call(session, upstream)
    session.reconcile("d", not_executed=True, evidence="the provider's log has no such call")
    assert state(session) is State.FAILED_DEFINITE
    upstream.status = 200
    assert call(session, upstream).choices[0].message.content == "yes"


@pytest.mark.parametrize(
    "response",
    [
        {"choices": "abc"},
        {"choices": {"a": 1}},
        {"choices": []},
        {"choices": [{}]},
        {"choices": [5]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {}}]},
        {"choices": [{"message": {"content": {"a": 1}}}]},
        {"choices": [{"message": {"content": "x", "tool_calls": 5}}]},
        {"choices": [{"message": {"content": "x", "tool_calls": [5]}}]},
        [1],
        5,
        b"\xff",
        b"{}",
        b"[" * 20_000,
        "\ud800",
        {"choices": [{"message": {"content": "x"}, "logprobs": float("nan")}]},
    ],
)
def test_what_is_no_chat_completion_settles_nothing(session: ContextSession, upstream: Upstream, response: Any) -> None:
    upstream.status = 500
    with pytest.raises(AmbiguousInvocation):
        call(session, upstream)
    with pytest.raises(InvalidInput) as refused:
        session.reconcile("d", response=response, evidence="e")
    assert refused.value.field == "response"
    assert state(session) is State.AMBIGUOUS


def test_a_late_response_stays_with_its_attempt_and_what_it_rests_on(
    session: ContextSession, upstream: Upstream
) -> None:
    upstream.status = 500
    with pytest.raises(AmbiguousInvocation):
        call(session, upstream)
    upstream.status = 200
    call(session, upstream, retry="again-1")
    with pytest.raises(IdempotencyConflict, match="may have been billed"):
        session.reconcile("d", not_executed=True, evidence="nothing in the log", attempt=1)
    session.reconcile("d", response="late", evidence="the provider's log", attempt=1)
    first, second = session.attempts("d")
    assert (first.state, first.evidence) == (State.SUPERSEDED, "the provider's log")
    assert b"late" in (first.response or b"")
    assert second.state is State.COMPLETED


def test_a_settlement_says_what_it_settles_and_why(session: ContextSession) -> None:
    for evidence in ("", "\0", "a\0b"):
        with pytest.raises(InvalidInput, match="evidence"):
            session.reconcile("d", not_executed=True, evidence=evidence)
    with pytest.raises(InvalidInput):
        session.reconcile("d", evidence="e")
    with pytest.raises(InvalidInput):
        session.reconcile("d", response="text", not_executed=True, evidence="e")
    with pytest.raises(InvalidInput):
        session.reconcile("d", response="text")
    with pytest.raises(NotFound):
        session.reconcile("d", response="text", evidence="e")


def test_a_call_that_another_thread_holds_is_in_flight(session: ContextSession, upstream: Upstream) -> None:
    arrived, go = threading.Event(), threading.Event()

    def hold() -> None:
        arrived.set()
        go.wait(30)

    upstream.hold = hold
    worker = threading.Thread(target=call, args=(session, upstream))
    worker.start()
    assert arrived.wait(30)
    with pytest.raises(InvocationInFlight):
        call(session, upstream)
    go.set()
    worker.join(30)
    assert call(session, upstream).choices[0].message.content == "yes"
    assert len(upstream.requests) == 1


def test_calls_are_budgeted_and_some_are_kept_for_the_end(
    open_session: Callable[..., ContextSession], upstream: Upstream
) -> None:
    session = open_session(policy={"max_calls": 3, "final_call_reserve": 1})
    call(session, upstream, "a")
    call(session, upstream, "b")
    with pytest.raises(ContextBudgetExceeded) as over:
        call(session, upstream, "c")
    assert (over.value.detail["budget"], over.value.detail["limit"], over.value.detail["used"]) == ("calls", 2, 2)
    call(session, upstream, "d", final=True)
    with pytest.raises(ContextBudgetExceeded):
        call(session, upstream, "e", final=True)
    assert call(session, upstream, "a").choices
    assert len(upstream.requests) == 3


def test_a_cancelled_run_starts_nothing_more(open_session: Callable[..., ContextSession], upstream: Upstream) -> None:
    stop = threading.Event()
    session = open_session(cancelled=stop.is_set)
    stop.set()
    for act in (
        lambda: call(session, upstream),
        lambda: session.observe("x", event_id="x"),
        lambda: session.memory_action("recall_memory", {}),
        lambda: session.put_artifact(b"x"),
        lambda: session.turn("d").__enter__(),
    ):
        with pytest.raises(RunClosed):
            act()
    assert upstream.requests == []


def test_a_run_that_is_cancelled_during_a_call_keeps_the_paid_response(
    open_session: Callable[..., ContextSession], upstream: Upstream
) -> None:
    stop = threading.Event()
    session = open_session(cancelled=stop.is_set)
    upstream.hold = stop.set
    with pytest.raises(RunClosed):
        call(session, upstream)
    stop.clear()
    assert session.has_durable_response("d")


def test_a_deadline_in_the_past_opens_nothing(open_session: Callable[..., ContextSession]) -> None:
    with pytest.raises(ContextBudgetExceeded) as over:
        open_session(deadline=1.0)
    assert over.value.detail["budget"] == "deadline"


def test_a_write_back_that_fails_leaves_the_response_and_is_made_up_for(
    open_session: Callable[..., ContextSession], upstream: Upstream, tmp_path: Path
) -> None:
    upstream.body = completion("a long answer " * 20)
    session = open_session(policy={"max_storage_bytes": 100})
    with session.turn("d") as turn:
        litellm.completion(messages=MESSAGES, **upstream.arguments)
    assert turn.report is not None
    assert turn.report.written_back == "BUDGET_EXCEEDED"
    assert state(session) is State.RESPONDED
    richer = open_session(policy={"max_storage_bytes": 100_000})
    with richer.turn("d") as again:
        litellm.completion(messages=MESSAGES, **upstream.arguments)
    assert again.report is not None
    assert again.report.written_back == ""
    assert state(session) is State.COMPLETED


def test_a_run_whose_folder_vanishes_during_a_call_answers_it_all_the_same(
    session: ContextSession, upstream: Upstream
) -> None:
    """What was paid for reaches its caller; what comes then is refused."""
    upstream.hold = lambda: shutil.rmtree(session.journal.rows._database._path.parent)
    assert call(session, upstream).choices[0].message.content == "yes"
    with pytest.raises(DependencyUnavailable, match="is gone"):
        session.observe("x", event_id="x")
    assert len(upstream.requests) == 1


def test_a_run_that_is_cancelled_while_a_call_is_prepared_sends_nothing(
    open_session: Callable[..., ContextSession], upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelled after the last step of its admission, before it is dispatched."""
    cancelled = threading.Event()
    session = open_session(cancelled=cancelled.is_set)
    put_all = Notes.put_all

    def put_and_cancel(notes: Notes, kept: Any) -> None:
        put_all(notes, kept)
        cancelled.set()

    with monkeypatch.context() as patched:
        patched.setattr(Notes, "put_all", put_and_cancel)
        with pytest.raises(RunClosed):
            call(session, upstream)
    assert upstream.requests == []
    assert state(session) is State.FAILED_DEFINITE


def test_a_session_that_is_closed_during_a_call_keeps_the_paid_response(
    open_session: Callable[..., ContextSession], upstream: Upstream
) -> None:
    session = open_session()
    upstream.hold = session.close
    assert call(session, upstream).choices[0].message.content == "yes"
    again = open_session()
    assert state(again) is State.COMPLETED
    assert call(again, upstream).choices[0].message.content == "yes"
    assert len(upstream.requests) == 1


def test_a_call_that_is_not_sent_when_its_session_is_closed_is_given_up(
    open_session: Callable[..., ContextSession], upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session()
    put = session.journal.notes.put_all
    monkeypatch.setattr(session.journal.notes, "put_all", lambda notes: (put(notes), session.close()))
    with pytest.raises(DependencyUnavailable, match="the session is closed"):
        call(session, upstream)
    assert upstream.requests == []
    assert state(open_session()) is State.FAILED_DEFINITE


def test_a_closed_session_starts_nothing_more(session: ContextSession, upstream: Upstream) -> None:
    session.close()
    for act in (
        lambda: call(session, upstream),
        lambda: session.observe("x", event_id="x"),
        lambda: session.memory_action("recall_memory", {}),
        lambda: session.put_artifact(b"x"),
        lambda: session.has_durable_response("d"),
        lambda: session.reconcile("d", not_executed=True, evidence="e"),
    ):
        with pytest.raises(DependencyUnavailable, match="the session is closed"):
            act()
    assert upstream.requests == []


def test_an_answer_that_says_nothing_is_unusable(session: ContextSession, upstream: Upstream) -> None:
    """litellm makes a message up for it."""
    upstream.body = b'{"choices": [{"message": {}}]}'
    for _ in range(2):
        with pytest.raises(UnusableResponse):
            call(session, upstream)
    assert len(upstream.requests) == 1
    upstream.body = completion(None)  # a model that thought until its output was used up
    assert call(session, upstream, "said-nothing").choices[0].message.content is None


def test_the_programs_warning_filters_stay(session: ContextSession, upstream: Upstream) -> None:
    before = list(warnings.filters)
    seen: list[int] = []
    upstream.hold = lambda: seen.append(len(warnings.filters))
    call(session, upstream)
    assert seen[0] > len(before)
    assert list(warnings.filters) == before
    asyncio.run(session.acomplete("a", messages=MESSAGES, **upstream.arguments))
    assert list(warnings.filters) == before


def test_litellm_fetches_nothing_of_its_own() -> None:
    for name in ("LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS"):
        assert os.environ[name] == "True"
