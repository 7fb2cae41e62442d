"""Invariant 7 over every face: what a principal may not read has no effect on any answer that it gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.json_format import MessageToJson

from mn.context.working.v1 import card_pb2, packet_pb2
from mn_contract.errors import ContextError
from mn_sdk.transport import Transport
from tests.contract.faces.conftest import Faces
from tests.contract.faces.messages import acl, card, compiled, event, get, observe, opened, put, read, record

SECRET = "zebra-ledger-4711"


def _answers(bob: Transport) -> list[str]:
    """Everything that bob can ask, as text, errors included. Run-wide meters (revision, stored bytes) are shared."""

    def recall(cursor: str = "") -> packet_pb2.RecallResponse:
        request = packet_pb2.RecallRequest(
            decision=packet_pb2.Decision(focus="door ledger zebra", topics=["money"]), page_size=2, cursor=cursor
        )
        answer: packet_pb2.RecallResponse = bob.call("Recall", request)
        return answer

    asked: list[Callable[[], Any]] = [
        lambda: compiled(bob, "door ledger zebra", 700),
        lambda: compiled(bob, "door", 150),
        lambda: compiled(bob, ""),
        lambda: compiled(bob, "door", claims=["guilty"], topics=["money"]),
        lambda: compiled(bob, "door", required=["hidden"]),
        lambda: compiled(bob, "door", required=["alice:hidden"]),
        recall,
        lambda: recall(recall().cursor),
        lambda: get(bob, "hidden"),
        lambda: get(bob, "alice:hidden"),
        lambda: get(bob, "absent"),
        lambda: get(bob, "alice:o1"),
        lambda: get(bob, "alice:o2"),
        lambda: get(bob, "alice:owed"),
        lambda: read(bob, ("0" * 64, 0, 1)),
        lambda: record(bob, event("hidden", card("my own", id="hidden"))).receipts,
        lambda: record(bob, event("sup", card("x", relations=[("supersedes", "alice:hidden")]))),
        lambda: record(bob, card_pb2.Event(key="res", resolves=["alice:duty"])),
        lambda: compiled(bob, "own door", 700),
    ]
    return [_said(ask) for ask in asked]


def _said(ask: Callable[[], Any]) -> str:
    try:
        answer = ask()
    except ContextError as error:
        return f"{error.reason} {error.message} {error.detail}"
    if isinstance(answer, list):
        return str(answer)
    if hasattr(answer, "DESCRIPTOR"):
        return MessageToJson(answer)
    return "".join(MessageToJson(part) for part in answer)


def _build(alice: Transport, *, hidden: bool) -> None:
    """The same revisions either way: where nothing is hidden, a card that nobody asks about stands in its place."""
    opened(alice)

    def secretly(key: str, text: str, kind: str = "observation", **fields: Any) -> None:
        if hidden:
            observe(alice, key, text, kind, acl=acl(["alice"]), **fields)
        else:
            observe(alice, f"filler-{key}", "qqq", acl=acl(["alice"]))

    observe(alice, "o1", "the door is blue", topics=["money"], stance="supports")
    observe(alice, "o2", "the door is green", stance="opposes")
    secretly("hidden", f"door door door {SECRET}", stance="opposes", topics=["money"])
    secretly("duty", f"door duty {SECRET}", "obligation")
    secretly("rule", f"door rule {SECRET}", "constraint")
    secretly("clash", f"door clash {SECRET}", relations=[("contradicts", "o2")])
    secretly("claim", f"claimed {SECRET}", claims=[card_pb2.Claim(claim="guilty", stance=card_pb2.STANCE_OPPOSES)])
    secretly("newer", f"door newer {SECRET}", relations=[("supersedes", "o1")])
    observe(alice, "owed", "lock the door", "obligation")
    secretly("paid", f"door paid {SECRET}", relations=[("resolves", "owed")])
    observe(alice, "o3", "another door, a red one", relations=[("about", "hidden")] if hidden else [])
    put(alice, SECRET.encode(), acl=acl(["alice"]))


def test_hidden_cards_change_no_answer_in_any_way(faces: Faces) -> None:
    """Ids, counts, cursors, coverage, ranking, errors and digests are those of a run in which they never were."""
    told = []
    for hidden in (True, False):
        alice = faces.of(run=f"r{hidden}")
        _build(alice, hidden=hidden)
        bob = faces.of("bob", run=f"r{hidden}")
        answers = _answers(bob)
        assert not any(SECRET in answer for answer in answers)
        told.append([_without_run_names(answer) for answer in answers])
    for with_hidden, without in zip(*told, strict=True):
        assert with_hidden == without


def _without_run_names(answer: str) -> str:
    """Clock times differ between two runs, and cursors are bound to their run."""
    lines = [line for line in answer.splitlines() if '"capturedAt"' not in line and '"cursor"' not in line]
    return "\n".join(lines)


def test_its_owner_sees_a_restricted_card_and_others_with_the_role_too(faces: Faces) -> None:
    alice, auditor = faces.of(), faces.of("carol", roles=("auditor", "x"))
    opened(alice)
    observe(alice, "kept", "for auditors", acl=acl(roles=["auditor"]))
    assert list(get(alice, "kept").acl.allow_roles) == ["auditor"]
    assert get(auditor, "kept").ref == "alice:kept"
    assert not get(auditor, "kept").HasField("acl")
