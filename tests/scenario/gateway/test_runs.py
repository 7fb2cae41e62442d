"""Requests for a run: packets, scopes, at most one send, and receipts that are durable before the answer is whole."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from mn_contract.invocations import State
from mn_sdk.context_session import ContextSession
from tests.scenario.gateway.conftest import Asker, told
from tests.scenario.session.test_remote import Served
from tests.scenario.session.upstream import Upstream, completion, events

PIECES = ("one ", "two ", "three")

SCHEMA = {
    "type": "json_schema",
    "json_schema": {"name": "n", "schema": {"type": "object", "properties": {"a": {"type": "string"}}}},
}


def test_a_request_gets_what_its_run_recalls(session: ContextSession, upstream: Upstream, ask: Asker) -> None:
    """Invariant 14: in the data channel, with where it comes from."""
    session.observe("never sell below cost", event_id="rule", kind="constraint")
    session.observe("the price of nails is 11.80", event_id="offer", topics=["pricing"])
    answer = ask('{"goal": "set the price"}', membrane={"focus": "price of nails", "required_fields": ["goal"]})
    assert answer.parse().choices[0].message.content == "yes"
    said = upstream.said()
    assert said["current"] == {"goal": "set the price"}
    assert {record["id"] for record in said["recalled"]["records"]} == {"rule", "offer"}
    assert all(record["source"] for record in said["recalled"]["records"])
    assert len(upstream.requests) == 1
    receipt = session.receipt(answer.headers["x-membrane-invocation"])
    assert receipt.state is State.RESPONDED
    assert receipt.report.exact
    assert receipt.report.packet_digest == answer.headers["x-membrane-packet"]
    assert (receipt.usage_source, receipt.usage["prompt_tokens"]) == ("reported", 10)


def test_without_inject_a_request_stays_as_it_is(session: ContextSession, upstream: Upstream, ask: Asker) -> None:
    session.observe("never sell below cost", event_id="rule", kind="constraint")
    answer = ask('{"goal":  1.50}', membrane={"focus": "price", "inject": False})
    assert upstream.requests[0]["messages"][1]["content"] == '{"goal":  1.50}'
    receipt = session.receipt(answer.headers["x-membrane-invocation"])
    assert (receipt.state, receipt.report.items) == (State.RESPONDED, ())


def test_a_named_request_is_sent_once_and_replayed(session: ContextSession, upstream: Upstream, ask: Asker) -> None:
    upstream.body = completion("paid for")
    for replayed in ("False", "True"):
        answer = ask(membrane={"name": "decision-1"})
        assert answer.parse().choices[0].message.content == "paid for"
        assert answer.headers["x-membrane-replayed"] == replayed
    chunks = list(ask(membrane={"name": "decision-1"}, stream=True).parse())
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "paid for"
    assert len(upstream.requests) == 1
    assert session.receipt("decision-1").state is State.COMPLETED
    with pytest.raises(openai.ConflictError) as other:
        ask("something else", membrane={"name": "decision-1"})
    assert told(other)["reason"] == "IDEMPOTENCY_CONFLICT"
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("model", ["wide", "foreign"])
@pytest.mark.parametrize("usage", [True, False])
def test_a_stream_is_durable_at_its_end(
    session: ContextSession, upstream: Upstream, ask: Asker, usage: bool, model: str
) -> None:
    upstream.events = events(*PIECES, usage=usage)
    answer = ask(model=model, membrane={"name": "streamed"}, stream=True)
    chunks = []
    for chunk in answer.parse():
        if chunk.choices and chunk.choices[0].finish_reason:
            assert session.receipt("streamed").state is State.COMPLETED
        chunks.append(chunk)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "one two three"
    assert upstream.requests[0]["stream_options"] == {"include_usage": True}
    receipt = session.receipt("streamed")
    expected = ("reported", 10) if usage else ("estimated", receipt.report.tokens)
    assert (receipt.usage_source, receipt.usage["prompt_tokens"]) == expected


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize(("model", "done"), [("wide", False), ("wide", True), ("foreign", False)])
def test_a_cut_stream_is_ambiguous(
    session: ContextSession, upstream: Upstream, ask: Asker, reset: bool, done: bool, model: str
) -> None:
    """Invariant 10: something was billed, and nobody holds all of it. Of others than OpenAI litellm takes `[DONE]` for
    the provider's word that the answer is complete."""
    upstream.events, upstream.cut = events(*PIECES, finish=None, usage=False, done=done), reset
    with pytest.raises(openai.APIError) as cut:
        list(ask(model=model, membrane={"name": "cut"}, stream=True).parse())
    assert told(cut)["reason"] == "AMBIGUOUS_INVOCATION"
    receipt = session.receipt("cut")
    assert (receipt.state, receipt.usage_source) == (State.AMBIGUOUS, "estimated")
    upstream.events = []
    with pytest.raises(openai.ConflictError) as again:
        ask(model=model, membrane={"name": "cut"})
    assert told(again)["reason"] == "AMBIGUOUS_INVOCATION"
    assert len(upstream.requests) == 1
    assert ask(model=model, membrane={"name": "cut", "retry": "second-try"}).parse().choices
    assert len(upstream.requests) == 2


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("status", "reset", "state"),
    [
        (500, False, State.AMBIGUOUS),
        (429, False, State.FAILED_DEFINITE),
        (400, False, State.FAILED_DEFINITE),
        (200, True, State.AMBIGUOUS),
    ],
)
def test_a_call_is_sent_once_whatever_becomes_of_it(
    session: ContextSession, upstream: Upstream, ask: Asker, stream: bool, status: int, reset: bool, state: State
) -> None:
    """With retries and a fallback configured in the proxy, and a client that retries what the proxy says nothing of."""
    upstream.status, upstream.reset, upstream.body = status, reset, b'{"error": {"message": "no"}}'
    with pytest.raises(openai.APIStatusError) as failed:
        ask(membrane={"name": "once"}, stream=stream, retries=2 if state is State.AMBIGUOUS else 0)
    assert len(upstream.requests) == 1
    if state is State.AMBIGUOUS:
        assert failed.value.status_code == 409
        assert told(failed)["detail"]["name"] == "once"
    else:
        assert failed.value.status_code == status
    assert session.receipt("once").state is state


def test_a_name_that_is_in_flight_is_not_sent_again(upstream: Upstream, ask: Asker) -> None:
    received, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        received.set()
        go_on.wait(30)

    upstream.hold = hold
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, membrane={"name": "raced"})
        assert received.wait(30)
        with pytest.raises(openai.ConflictError) as refused:
            ask(membrane={"name": "raced"}, retries=0)
        go_on.set()
        assert first.result(30).parse().choices[0].message.content == "yes"
    assert told(refused)["reason"] == "IN_FLIGHT"
    assert len(upstream.requests) == 1


def test_a_client_that_leaves_a_stream_leaves_an_unknown_call(
    session: ContextSession, upstream: Upstream, ask: Asker
) -> None:
    go_on = threading.Event()
    at_once = iter([True] * 3)
    upstream.events = events(*PIECES)
    upstream.between = lambda: None if next(at_once, False) else go_on.wait(30) and None
    stream = ask(membrane={"name": "left"}, stream=True).parse()
    next(stream)
    stream.close()
    until = time.monotonic() + 30
    while session.receipt("left").state is State.DISPATCHED and time.monotonic() < until:
        time.sleep(0.05)
    go_on.set()
    assert session.receipt("left").state is State.AMBIGUOUS


def test_calls_of_a_run_are_counted(upstream: Upstream, ask: Asker) -> None:
    ask(model="rationed", membrane={})
    with pytest.raises(openai.RateLimitError) as spent:
        ask(model="rationed", membrane={})
    assert told(spent)["reason"] == "BUDGET_EXCEEDED"
    assert told(spent)["detail"]["budget"] == "calls"
    assert len(upstream.requests) == 1


def test_a_deadline_that_has_passed_is_a_budget(upstream: Upstream, ask: Asker) -> None:
    with pytest.raises(openai.RateLimitError) as late:
        ask(membrane={"deadline": 1})
    assert told(late)["detail"]["budget"] == "deadline"
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("key", "membrane"),
    [
        ("sk-nothing", {}),
        ("sk-alice", {"job_id": "secret"}),
        ("sk-garbage", {}),
        ("sk-team", {}),
    ],
)
def test_a_scope_that_the_key_was_not_given_is_refused(
    upstream: Upstream, ask: Asker, key: str, membrane: dict[str, Any]
) -> None:
    """Invariant 7. A team's grant stands before what its members give their own keys."""
    with pytest.raises(openai.PermissionDeniedError) as refused:
        ask(key=key, membrane=membrane)
    assert told(refused)["reason"] == "PERMISSION_DENIED"
    assert upstream.requests == []


def test_the_key_names_the_principal(session: ContextSession, upstream: Upstream, ask: Asker) -> None:
    session.observe("only for alice", event_id="mine", acl={"allow_principals": ["alice"]})
    session.observe("for the boss", event_id="boss", acl={"require_roles": ["boss"]})
    seen = {}
    for key in ("sk-alice", "sk-bob", "sk-boss"):
        ask(key=key, membrane={"focus": "alice and the boss"})
        content = upstream.requests[-1]["messages"]
        seen[key] = [word for word in ("only for alice", "for the boss") if word in json.dumps(content)]
    assert seen == {"sk-alice": ["only for alice"], "sk-bob": [], "sk-boss": ["only for alice", "for the boss"]}


@pytest.mark.parametrize(
    "membrane",
    [
        "garbage",
        [],
        7,
        {"principal": "bob"},
        {"job_id": ""},
        {"run_id": "no such name!"},
        {"inject": "yes"},
        {"focus": 7},
        {"required_fields": {"a": 1}},
        {"deadline": "soon"},
        {"retry": "without a name"},
    ],
)
def test_garbage_is_refused(upstream: Upstream, ask: Asker, membrane: Any) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        ask(membrane=membrane)
    assert told(refused)["reason"] == "INVALID_ARGUMENT"
    assert upstream.requests == []


def test_a_cleared_run_is_gone(session: ContextSession, upstream: Upstream, ask: Asker) -> None:
    """Invariant 15."""
    ask(membrane={"name": "before"})
    session.clear("done with it")
    with pytest.raises(openai.APIStatusError) as gone:
        ask(membrane={"name": "before"})
    assert (gone.value.status_code, told(gone)["reason"]) == (410, "RUN_CLEARED")
    assert len(upstream.requests) == 1


def test_an_engine_that_is_away_is_unavailable(engine: Served, upstream: Upstream, ask: Asker) -> None:
    """Invariant 13: without its records a request is not sent."""
    engine.stop()
    try:
        with pytest.raises(openai.InternalServerError) as away:
            ask(membrane={}, retries=0)
    finally:
        engine.start()
    assert (away.value.status_code, told(away)["reason"]) == (503, "UNAVAILABLE")
    assert upstream.requests == []
    assert ask(membrane={}).parse().choices


@pytest.mark.parametrize("name", [{}, {"name": "named"}])
@pytest.mark.parametrize(
    "answered", [[b": hi\n\n"], [b"data: [DONE]\n\n"], []], ids=["nothing", "only the end", "no stream"]
)
def test_a_stream_that_breaks_at_once_is_sent_once(
    upstream: Upstream, ask: Asker, answered: list[bytes], name: dict[str, str]
) -> None:
    """Invariant 10: the client, which retries what answers with 409, is told not to, and why."""
    upstream.events = answered
    with pytest.raises(openai.ConflictError) as broken:
        list(ask(membrane=name, stream=True).parse())
    assert told(broken)["reason"] in ("AMBIGUOUS_INVOCATION", "UNUSABLE_RESPONSE")
    assert broken.value.response.headers["x-should-retry"] == "false"
    assert broken.value.response.headers["content-type"] == "application/json"
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("status", [429, 500])
def test_what_was_not_executed_may_be_sent_again(upstream: Upstream, ask: Asker, status: int) -> None:
    upstream.status, upstream.body = status, b'{"error": {"message": "no"}}'
    with pytest.raises(openai.APIStatusError) as failed:
        ask(membrane={"name": "again"}, retries=0)
    retry = failed.value.response.headers.get("x-should-retry")
    assert retry == (None if status == 429 else "false")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("model", "timeout"), [("hurried", None), ("hurried", 60), ("wide", 1)])
def test_the_smallest_time_limit_holds(
    session: ContextSession, upstream: Upstream, ask: Asker, model: str, timeout: float | None, stream: bool
) -> None:
    """The operator's as for any request, and the client's own."""
    answering = threading.Event()
    upstream.hold = lambda: answering.wait(30) and None
    begun = time.monotonic()
    body = {"metadata": {"membrane": {"job_id": "pricing", "run_id": session._scope.run_id, "name": "slow"}}}
    with pytest.raises(openai.APIStatusError) as late:
        ask(model=model, stream=stream, extra_body={**body, **({"timeout": timeout} if timeout else {})})
    answering.set()
    assert time.monotonic() - begun < 15
    assert told(late)["reason"] == "AMBIGUOUS_INVOCATION"
    assert session.receipt("slow").state is State.AMBIGUOUS
    assert len(upstream.requests) == 1


def test_what_litellm_adds_counts_in_the_proxy_too(session: ContextSession, upstream: Upstream, ask: Asker) -> None:
    """Of a request for a run: it is refused where that does not fit, and the next of its kind has the room for it."""
    asked = {"model": "adding", "response_format": SCHEMA, "retries": 0}
    for number in range(60):
        session.observe(f"The price of item {number} was set to {number * 7}. " * 8, event_id=f"e{number}")
    with pytest.raises(openai.ConflictError) as refused:
        ask(membrane={"name": "d", "focus": "price of item"}, **asked)
    assert told(refused)["reason"] == "UNMANAGED_CALL"
    assert told(refused)["detail"]["tokens"] > told(refused)["detail"]["input_budget"]
    assert upstream.requests == []
    assert session.receipt("d").state is State.FAILED_DEFINITE
    assert ask(membrane={"name": "d", "focus": "price of item"}, **asked).parse().choices
    (sent,) = upstream.requests
    receipt = session.receipt("d")
    assert [part["part"] for part in receipt.report.parts][-1] == "what litellm changes"
    assert receipt.report.tokens + receipt.report.margin <= receipt.report.input_budget
    assert "tools" in sent


def test_the_output_that_is_reserved_is_the_output_that_is_sent(upstream: Upstream, ask: Asker) -> None:
    """litellm itself sends all that a model of Anthropic's can write, whatever its window."""
    with pytest.raises(openai.APIStatusError):  # this server is no Anthropic
        ask(model="claude", membrane={"name": "d"})
    (sent,) = upstream.requests
    assert sent["max_tokens"] < 8000


def test_what_the_operator_sets_for_a_model_is_sent(upstream: Upstream, ask: Asker) -> None:
    ask(model="set", membrane={"name": "d"})
    ask(model="set", membrane={"name": "e"}, temperature=0.7)
    assert [sent["temperature"] for sent in upstream.requests] == [0.2, 0.7]


def test_a_streams_limit_in_the_proxy_is_for_each_piece_of_it(
    session: ContextSession, upstream: Upstream, ask: Asker
) -> None:
    upstream.events, upstream.between = events(*PIECES), lambda: time.sleep(0.4)
    chunks = list(ask(model="hurried", membrane={"name": "d"}, stream=True).parse())
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "".join(PIECES)
    assert session.receipt("d").state is State.COMPLETED


@pytest.mark.parametrize("stream", [False, True])
def test_a_time_limit_is_for_all_of_an_answer(
    session: ContextSession, upstream: Upstream, ask: Asker, stream: bool
) -> None:
    """The request's own, of an answer that comes piece by piece, each in time."""
    upstream.events, upstream.between = events(*PIECES * 20) if stream else [], lambda: time.sleep(0.3)
    upstream.trickle = "body"
    run = {"job_id": "pricing", "run_id": session._scope.run_id, "name": "slow"}
    with pytest.raises(openai.APIError):
        list(ask(stream=stream, retries=0, extra_body={"timeout": 1, "metadata": {"membrane": run}}).parse())
    assert session.receipt("slow").state is State.AMBIGUOUS
