"""The whole trip: observe, turn, packet, verified sources, one request, a journaled response, a write-back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mn_contract.errors import DependencyUnavailable, IdempotencyConflict, InvalidInput, NeedsPartition, UnmanagedCall
from mn_contract.invocations import State
from mn_sdk.context_session import ContextSession, provider
from tests.scenario.session.upstream import Upstream, completion

litellm = provider.load()
SYSTEM = {"role": "system", "content": "You decide."}


def packet_messages(**current: Any) -> list[dict[str, Any]]:
    return [SYSTEM, {"role": "user", "content": json.dumps(current)}]


def test_a_turn_puts_recalled_records_beside_the_callers_object(session: ContextSession, upstream: Upstream) -> None:
    session.observe("The parser fails on nested brackets", event_id="o1", topics=["parser"])
    session.observe("Never touch the lexer", event_id="c1", kind="constraint")
    with session.turn("d1", focus="why do nested brackets fail?", topics=["parser"]) as turn:
        answer = litellm.completion(messages=packet_messages(goal="fix it"), **upstream.arguments)
    assert answer.choices[0].message.content == "yes"
    said = upstream.said()
    assert said["current"] == {"goal": "fix it"}
    assert {record["id"] for record in said["recalled"]["records"]} == {"o1", "c1"}
    assert upstream.requests[0]["messages"][0] == SYSTEM
    assert not turn.replayed
    assert turn.report is not None
    assert turn.report.ranges_verified == 2
    assert turn.report.tokens + turn.report.margin <= turn.report.input_budget
    assert turn.report.written_back == ""


def test_the_response_is_written_back_as_a_decision_of_its_own_principal(
    open_session: Callable[..., ContextSession], upstream: Upstream
) -> None:
    alice, bob = open_session("alice"), open_session("bob")
    upstream.body = completion("Bracket depth is the cause")
    alice.complete("d1", messages=packet_messages(goal="g"), topics=["parser"], **upstream.arguments)
    mine = alice.memory_action("recall_memory", {"query": "bracket depth"})
    assert [(r["kind"], r["text"]) for r in mine["records"]] == [("decision", "Bracket depth is the cause")]
    assert bob.memory_action("recall_memory", {"query": "bracket depth"})["records"] == []
    newest = alice.journal.invocations.newest("d1")
    assert newest is not None
    assert newest.state is State.COMPLETED


def test_what_roles_recalled_is_not_read_without_them(
    open_session: Callable[..., ContextSession], upstream: Upstream
) -> None:
    """Invariant 7: the same principal without the role gets neither the replay nor what was written back; with more
    roles it gets both."""
    open_session("bob").observe("The omega key is 123", event_id="o1", acl={"allow_roles": ["lead"]})
    lead, plain, more = (open_session("alice", roles=roles) for roles in (("lead",), (), ("clerk", "lead", "lead")))
    upstream.body = completion("the key is 123")
    asked = {"messages": packet_messages(goal="g"), "focus": "omega", **upstream.arguments}
    lead.complete("d1", **asked)
    assert upstream.said()["recalled"]["records"]
    with pytest.raises(IdempotencyConflict):
        plain.complete("d1", **asked)
    assert not plain.has_durable_response("d1")
    assert plain.memory_action("recall_memory", {"query": "omega key"})["records"] == []
    for session in (lead, more):
        assert len(session.memory_action("recall_memory", {"query": "omega key"})["records"]) == 2
        assert session.has_durable_response("d1")
        assert session.complete("d1", **asked).choices[0].message.content == "the key is 123"
    assert len(upstream.requests) == 1


def test_a_write_back_that_another_session_finishes_takes_the_roles_of_the_call(
    open_session: Callable[..., ContextSession], upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 7, and 9: whoever finishes it records the same event."""
    lead, more = open_session(roles="lead"), open_session(roles=("clerk", "lead"))
    asked = {"messages": packet_messages(goal="g"), **upstream.arguments}

    def away(*event: Any) -> None:
        raise DependencyUnavailable("away", dependency="engine")

    with monkeypatch.context() as patched:
        patched.setattr(lead._recorder, "record", away)
        lead.complete("d1", **asked)
    assert lead.journal.invocations.newest("d1").state is State.RESPONDED  # type: ignore[union-attr]
    more.complete("d1", **asked)
    assert more.journal.invocations.newest("d1").state is State.COMPLETED  # type: ignore[union-attr]
    assert lead.memory_action("read_memory", {"item_id": "@response/d1/1"})["text"] == "yes"


def test_the_same_question_under_two_names_keeps_two_reports(session: ContextSession, upstream: Upstream) -> None:
    for name in ("d1", "d2", "d1"):
        with session.turn(name) as turn:
            litellm.completion(messages=packet_messages(goal="g"), **upstream.arguments)
        assert turn.report is not None
        assert turn.report.name == name


def test_a_history_of_another_form_is_kept_whole(session: ContextSession, upstream: Upstream) -> None:
    session.observe("The parser fails on nested brackets", event_id="o1")
    history = [
        SYSTEM,
        {"role": "user", "content": "look"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "seen"},
        {"role": "user", "content": "why do brackets fail?"},
    ]
    session.complete("d1", messages=history, focus="brackets", **upstream.arguments)
    sent = upstream.requests[0]["messages"]
    assert [m["role"] for m in sent] == ["system", "user", "assistant", "tool", "user", "user"]
    assert [{"content": None, **message} for message in sent if message != sent[4]] == history
    assert json.loads(sent[4]["content"])["recalled"]["records"][0]["id"] == "o1"


def test_one_turn_is_one_dispatch(session: ContextSession, upstream: Upstream) -> None:
    """Invariant 10: a second call within the turn is refused before anything leaves."""
    with session.turn("d1"):
        litellm.completion(messages=packet_messages(a=1), **upstream.arguments)
        with pytest.raises(UnmanagedCall):
            litellm.completion(messages=packet_messages(a=1), **upstream.arguments)
    assert len(upstream.requests) == 1


def test_a_turn_within_a_turn_is_refused(session: ContextSession) -> None:
    with session.turn("outer"), pytest.raises(UnmanagedCall), session.turn("inner"):
        pass


@pytest.mark.filterwarnings("ignore::UserWarning")  # litellm's own, outside of what we manage
def test_outside_a_turn_litellm_is_untouched(session: ContextSession, upstream: Upstream) -> None:
    with session.turn("d1"):
        pass
    litellm.completion(messages=[{"role": "user", "content": "hello"}], **upstream.arguments)
    assert upstream.requests[0]["messages"] == [{"role": "user", "content": "hello"}]


async def test_a_coroutine_is_managed_too(session: ContextSession, upstream: Upstream) -> None:
    with session.turn("d1") as turn:
        answer = await litellm.acompletion(messages=packet_messages(a=1), **upstream.arguments)
    assert answer.choices[0].message.content == "yes"
    with session.turn("d1") as again:
        replay = await litellm.acompletion(messages=packet_messages(a=1), **upstream.arguments)
    assert replay.model_dump() == answer.model_dump()
    assert (turn.replayed, again.replayed, len(upstream.requests)) == (False, True, 1)


@pytest.mark.parametrize(("argument", "value"), [("fallbacks", ["openai/gpt-4"]), ("caching", True), ("model", "")])
def test_what_would_escape_the_journal_is_refused(
    session: ContextSession, upstream: Upstream, argument: str, value: Any
) -> None:
    with pytest.raises(InvalidInput) as refused:
        session.complete("d1", **{"messages": packet_messages(a=1), **upstream.arguments, argument: value})
    assert refused.value.field == argument
    assert session.journal.invocations.newest("d1") is None


def test_what_is_required_is_in_the_packet_or_the_decision_is_split(
    session: ContextSession, upstream: Upstream
) -> None:
    """Invariant 2: a required record that was split into pieces is required whole."""
    session.observe("\n".join(f"line {n} of the report" for n in range(1500)), event_id="report")
    session.complete("small", messages=packet_messages(goal="g"), required_refs=["report"], **upstream.arguments)
    texts = [record["text"] for record in upstream.said()["recalled"]["records"]]
    assert "".join(texts) == "\n".join(f"line {n} of the report" for n in range(1500))
    session.observe(" ".join(f"word{n}" for n in range(20_000)), event_id="huge")
    with pytest.raises(NeedsPartition) as split:
        session.complete("big", messages=packet_messages(goal="g"), required_refs=["huge"], **upstream.arguments)
    assert split.value.detail["reason"] == "required_over_budget"
    assert split.value.detail["input_budget"] == session.policy.input_budget
    assert len(split.value.detail["items"]) > 2
    assert len(upstream.requests) == 1


def test_keys_that_are_not_required_give_way_and_are_named(session: ContextSession, upstream: Upstream) -> None:
    session.observe("The parser fails on nested brackets", event_id="o1")
    big = " ".join(f"word{n}" for n in range(20_000))
    messages = packet_messages(goal="fix it", notes="short", history=big)
    with session.turn("d1", focus="parser", required_fields=("goal", "control")) as turn:
        litellm.completion(messages=messages, **upstream.arguments)
    said = upstream.said()
    assert said["current"] == {"goal": "fix it", "notes": "short"}
    assert said["left_out_of_current"] == ["history"]
    assert turn.report is not None
    assert turn.report.left_out_of_current == ("history",)
    with pytest.raises(NeedsPartition) as split:
        session.complete("d2", messages=messages, **upstream.arguments)
    assert split.value.detail["reason"] == "current_over_budget"
    assert max(split.value.detail["parts"], key=lambda part: part["tokens"])["part"] in (
        "messages[1]",
        "current.history",
    )


def test_turns_that_share_a_rotation_show_every_record_in_turn(
    open_session: Callable[..., ContextSession], upstream: Upstream
) -> None:
    """Across decisions, and over a restart: the position is a durable cursor."""
    policy = {"window_tokens": 4096, "output_tokens": 512, "packet_target": 0.5}
    session = open_session(policy=policy)
    records = [f"r{number}" for number in range(40)]
    for number, name in enumerate(records):
        session.observe("the river rose " * 20 + f"{number} times", event_id=name)
    shown: set[str] = set()
    for turn_number in range(40):
        if turn_number == 20:
            session.close()
            session = open_session(policy=policy)
        with session.turn(f"d{turn_number}", focus="why did the river rise?", rotation="round") as turn:
            turn.call({"messages": packet_messages(goal="g"), **upstream.arguments})
        assert turn.report is not None
        assert session.journal.cursor("round") == turn.report.next_rotation > 0
        shown.update(item["id"] for item in turn.report.items)
        if shown.issuperset(records):
            break
    assert shown.issuperset(records)
    with session.turn("plain", focus="why did the river rise?") as plain:
        plain.call({"messages": packet_messages(goal="g"), **upstream.arguments})
    assert plain.report is not None
    assert "rotated" not in {item["role"] for item in plain.report.items}
