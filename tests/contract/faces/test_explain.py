"""Explain over every face: for any card and packet, why it is in or out, and nothing of what is hidden."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mn.context.working.v1 import card_pb2, packet_pb2
from mn_contract.errors import InvalidInput, NeedsPartition, NotFound
from mn_sdk.transport import Transport
from tests.contract.faces.conftest import Faces
from tests.contract.faces.messages import (
    acl,
    asking,
    card,
    compiled,
    event,
    explained,
    observe,
    opened,
    record,
    refs,
)

CAPTURED = 1_000_000_000


def _record(alice: Transport) -> None:
    """A little of everything: c0 to c29 about doors, every third opposing, and cards that stand out."""
    opened(alice)
    for n in range(30):
        stance = ("supports", "neutral", "opposes")[n % 3]
        observe(alice, f"c{n}", f"door number {n} " + "wood " * (n % 5), stance=stance, tokens=5 * n)
    observe(alice, "rule", "close the door", "constraint")
    observe(alice, "taste", "blue, please", "preference")
    observe(alice, "elsewhere", "rain in the hills")
    observe(alice, "old", "door is red", valid_until=Timestamp(seconds=CAPTURED))
    observe(alice, "older", "door is white")
    observe(alice, "newer", "door is black", relations=[("supersedes", "older")])
    observe(alice, "clash", "rain again", relations=[("contradicts", "c1")])
    observe(alice, "huge", "door " * 1600)


def test_every_card_is_explained_as_the_packet_has_it(faces: Faces) -> None:
    alice = faces.of()
    _record(alice)
    names = [*(f"c{n}" for n in range(30)), "rule", "taste", "elsewhere", "old", "newer", "clash", "huge"]
    for options in ({}, {"budget_tokens": 200}, {"rotation": 0}, {"topics": ["x"]}, {"required": ["c9"]}):
        request = asking("which door", 2500, at={"revision": 37}, **options)  # type: ignore[arg-type]
        packet = alice.call("Compile", request).packet
        held = {item.card.ref: item for item in packet.items}
        for name in names[:36]:
            told = explained(alice, name, request)
            assert (told.packet_digest, told.revision) == (packet.digest, 37)
            assert told.selected == (name in held)
            assert bool(told.reason) != told.selected
            if name in held:
                item = held[name]
                assert told.role == item.role
                assert told.why == item.why
                assert (told.size_bytes, told.tokens) == (item.size_bytes, item.tokens)
            if told.why.rank:
                assert sum(part.score for part in told.parts) == told.why.score
                assert told.offered >= 1
                assert told.utility <= told.why.score


def test_each_reason_is_told(faces: Faces) -> None:
    alice = faces.of()
    _record(alice)

    def reason(ref: str, focus: str = "which door", budget: int = 2500, **fields: Any) -> str:
        return explained(alice, ref, asking(focus, budget, **fields)).reason

    assert reason("older") == "superseded"
    assert reason("elsewhere") == "irrelevant"
    assert reason("huge") == "oversize"
    assert reason("c0", at={"revision": 0}) == "later"
    assert reason("c0", kinds=["CARD_KIND_FACT"]) == "kind"
    assert reason("old", as_of=Timestamp(seconds=CAPTURED)) == "invalid"
    assert reason("old", budget=60_000, as_of=Timestamp(seconds=CAPTURED - 1)) == ""
    assert "budget" in {reason(f"c{n}", budget=900) for n in range(30)}
    first = compiled(alice, "which door", 900)
    served = next(item.card.ref for item in first.items if item.why.rank)
    assert reason(served, budget=900, cursor=first.cursor) == "served"
    assert explained(alice, "rule", asking("which door", 2500)).role == packet_pb2.ITEM_ROLE_CONSTRAINT
    assert explained(alice, "taste", asking("which door", 2500)).role == packet_pb2.ITEM_ROLE_STANDING
    assert "linked" in explained(alice, "clash", asking("which door number 1", 60_000)).why.retrievers


def test_quotas_say_what_was_offered_and_taken(faces: Faces) -> None:
    alice = faces.of()
    _record(alice)
    request = asking("which door", 2500, counter_evidence_share=0.4, budget_tokens=300)
    packet = alice.call("Compile", request).packet
    told = explained(alice, "c2", request)
    (quota,) = (one for one in told.quotas if one.role == packet_pb2.ITEM_ROLE_OPPOSING_SHARE)
    taken = [item for item in packet.items if item.role == packet_pb2.ITEM_ROLE_OPPOSING_SHARE]
    assert taken
    assert quota.used_bytes == sum(item.size_bytes for item in taken) <= quota.bytes
    assert quota.used_tokens == sum(item.tokens for item in taken) <= quota.tokens


def test_what_is_hidden_is_not_found_and_leaves_no_trace(faces: Faces) -> None:
    """Invariant 7."""
    alice, bob = faces.of(), faces.of("bob")
    _record(alice)
    observe(alice, "secret", "door secret", acl=acl(["alice"]))
    request = asking("which door", 2500)
    for absent in ("alice:secret", "alice:nothing"):
        with pytest.raises(NotFound) as refused:
            explained(bob, absent, request)
        assert "secret" not in refused.value.message.replace(absent, "")
    before = explained(bob, "alice:c3", asking("which door", 2500, at={"revision": 38}))
    after = explained(bob, "alice:c3", request)
    before.revision, before.packet_digest = after.revision, after.packet_digest
    assert before == after


def test_a_question_about_no_packet_is_refused_like_the_packet(faces: Faces) -> None:
    alice = faces.of()
    _record(alice)
    with pytest.raises(InvalidInput):
        explained(alice, "c1", asking("which door", 1))
    with pytest.raises(InvalidInput):
        explained(alice, "not a ref", asking("which door", 500))


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rotation=st.integers(0, 1 << 40), tokens=st.one_of(st.none(), st.integers(1, 900)))
def test_a_packet_keeps_both_of_its_budgets(faces: Faces, rotation: int, tokens: int | None) -> None:
    """Invariant 1, in tokens as in bytes."""
    alice = faces.of(run="run")
    if not opened(alice).revision:
        _record(alice)
    options = {} if tokens is None else {"budget_tokens": tokens}
    (rule,) = compiled(alice, "door", kinds=["CARD_KIND_FACT"]).items
    if tokens is not None and tokens < rule.tokens:
        with pytest.raises(NeedsPartition) as refused:
            compiled(alice, "door wood", 2000, **options)
        assert refused.value.detail["tokens"] > refused.value.detail["budget_tokens"] == tokens
        return
    packet = compiled(alice, "door wood", 2000, rotation=rotation, kinds=["CARD_KIND_OBSERVATION"], **options)
    assert packet.size_bytes <= 2000
    assert packet.tokens == sum(item.tokens for item in packet.items)
    assert tokens is None or packet.tokens <= tokens


def test_rotation_brings_every_relevant_card_into_view(faces: Faces) -> None:
    """Across decisions, each with a budget for a few cards only, and without a cursor."""
    alice = faces.of()
    opened(alice)
    for n in range(60):
        observe(alice, f"c{n}", "door " * (1 + n % 3) + f"number {n}")
    seen: set[str] = set()
    rotation = 0
    for _ in range(60):
        packet = compiled(alice, "which door", 2000, rotation=rotation)
        assert packet.next_rotation != rotation
        assert packet_pb2.ITEM_ROLE_ROTATED in {item.role for item in packet.items}
        rotation = packet.next_rotation
        seen.update(refs(packet))
    assert seen == {f"c{n}" for n in range(60)}
    assert set(refs(compiled(alice, "which door", 2000))) == set(refs(compiled(alice, "which door", 2000)))


def test_a_rotation_tells_nothing_of_hidden_cards(faces: Faces) -> None:
    """Invariant 7: positions count what the asker may read, wherever hidden cards stand between."""
    told = []
    for hidden in (0, 7):
        alice, bob = faces.of(run=f"r{hidden}"), faces.of("bob", run=f"r{hidden}")
        opened(alice)
        secret = [card(f"door {n}", acl=acl(["bob"])) for n in range(hidden)]
        seen = [card(f"door number {n}") for n in range(20)]
        for part, cards in enumerate((seen[:5] + secret, seen[5:])):
            record(bob, event(f"e{part}", *[_named(one, at, part) for at, one in enumerate(cards)]))
        packets = [compiled(alice, "which door", 1500, rotation=position) for position in (0, 3, 12, 1 << 40)]
        told.append([(refs(packet), packet.digest, packet.next_rotation) for packet in packets])
    assert told[0] == told[1]


def _named(one: card_pb2.Card, at: int, part: int) -> card_pb2.Card:
    one.id = f"s{part}-{at}" if one.HasField("acl") else f"c{part}-{at}"
    one.captured_at.seconds = 1
    return one


def test_marks_that_the_engine_adds_are_charged_as_tokens_too(faces: Faces) -> None:
    alice = faces.of()
    opened(alice)
    observe(alice, "claim", "the door is red", tokens=5)
    for n in range(40):
        observe(alice, f"objection-{'x' * 100}-{n}", "no", tokens=1, relations=[("contradicts", "claim")])
    (item,) = (one for one in compiled(alice, "red").items if one.card.ref == "claim")
    assert item.tokens > 5 + 40 * 100 // 3
    small = compiled(alice, "red", budget_tokens=200)
    assert "claim" not in refs(small)
    assert small.tokens <= 200


@pytest.mark.parametrize("kind", ["obligation", "constraint", "preference", "observation"])
def test_an_objection_to_what_stands_in_the_packet_is_in_it_too(faces: Faces, kind: str) -> None:
    """Invariant 3, in whatever words, and an objection to the objection as well."""
    alice = faces.of()
    opened(alice)
    observe(alice, "z", "paint it", kind)
    observe(alice, "no", "hill", relations=[("contradicts", "z")])
    observe(alice, "yes", "rain", relations=[("contradicts", "no")])
    observe(alice, "else", "a door")
    required = ["z"] if kind == "observation" else []
    assert {"z", "no", "yes"} <= set(refs(compiled(alice, "which door", required=required)))


def test_a_preference_stands_in_packets_about_anything_but_those_it_is_not_for(faces: Faces) -> None:
    alice = faces.of()
    _record(alice)
    observe(alice, "narrow", "no gloss", "preference", topics=["paint"])
    assert "taste" in refs(compiled(alice, "rain", 1500))
    assert "narrow" not in refs(compiled(alice, "rain", 1500))
    assert "narrow" in refs(compiled(alice, "rain", 1500, topics=["paint"]))


def test_what_held_at_a_time_is_shown_as_it_was_then(faces: Faces) -> None:
    """A fact that another one ended later still held before; a correction without a beginning ends it outright."""
    alice = faces.of()
    opened(alice)
    observe(alice, "paris", "lives in Paris", "fact", valid_from=Timestamp(seconds=1000))
    observe(
        alice, "rome", "lives in Rome", "fact", valid_from=Timestamp(seconds=2000), relations=[("supersedes", "paris")]
    )
    observe(alice, "typo", "lives in Pariss", "fact")
    observe(alice, "fixed", "lived in Paris, indeed", "fact", relations=[("supersedes", "typo")])

    def then(seconds: int | None) -> set[str]:
        at = {} if seconds is None else {"as_of": Timestamp(seconds=seconds)}
        return set(refs(compiled(alice, "where lives lived", **at)))

    assert then(None) == {"rome", "fixed"}
    assert then(1500) == {"paris", "fixed"}
    assert then(2000) == {"rome", "fixed"}
    assert then(500) == {"fixed"}
    with pytest.raises(InvalidInput) as future:
        then(1 << 33)
    assert future.value.field == "decision.as_of"
    with pytest.raises(NotFound):
        compiled(alice, "where", as_of=Timestamp(seconds=500), required=["rome"])
