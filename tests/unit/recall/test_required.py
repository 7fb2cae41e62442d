"""What must be in a packet (invariant 2): what is named, open obligations, hard constraints."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from mn_contract.errors import NotFound
from mn_engine.domain.access import Acl
from mn_engine.domain.cards import RESOLVES, SUPERSEDES, Card, CardKey, Kind, Relation, Stance
from mn_engine.domain.packets import Decision, Role
from mn_engine.recall.required import required
from mn_engine.recall.view import View
from tests.unit.recall.corpus import SAMPLE, batches_of_cards, card, decisions, recorded, scope
from tests.unit.recall.reference import required_cards, visible_cards


def demanded(view: View, decision: Decision) -> list[tuple[CardKey, Role]]:
    return [(view.key(ordinal), role) for ordinal, role in required(view, decision)]


@SAMPLE
@given(batches_of_cards(), decisions)
def test_what_the_record_demands_is_the_references(batches: list[list[Card]], decision: Decision) -> None:
    index = recorded(batches).index()
    for revision in range(index.revision + 1):
        expected = required_cards(batches, scope(), revision, decision)
        assert demanded(View(index, scope(), revision), decision) == expected


@SAMPLE
@given(batches_of_cards(), decisions)
def test_what_is_named_is_required_once_and_as_named(batches: list[list[Card]], decision: Decision) -> None:
    view = recorded(batches).view()
    named = [f"{card.owner}:{card.id}" for card in visible_cards(batches, scope(), len(batches))]
    found = demanded(view, replace(decision, required=tuple(named * 2)))
    assert [f"{key.owner}:{key.id}" for key, _ in found] == named
    assert {role for _, role in found} <= {Role.NAMED}


@pytest.mark.parametrize("kind", [Kind.OBLIGATION, Kind.CONSTRAINT])
def test_one_that_is_bound_to_topics_or_claims_is_required_where_it_shares_one(kind: Kind) -> None:
    bound = card("a", kind=kind, topics=("speed",), claims=(("it works", Stance.NEUTRAL),))
    view = recorded([[bound]]).view()
    assert demanded(view, Decision(focus="parser fails")) == []
    assert demanded(view, Decision(topics=("parsing",))) == []
    assert len(demanded(view, Decision(topics=("Speed",)))) == 1
    assert len(demanded(view, Decision(claims=("it works",)))) == 1
    assert demanded(view, Decision(topics=("it works",), claims=("speed",))) == [], "a topic is no claim"


def test_resolved_and_superseded_ones_are_required_no_more() -> None:
    tasks = [card(name, kind=Kind.OBLIGATION) for name in ("a", "b", "c")]
    ends = (Relation(RESOLVES, tasks[0].key), Relation(SUPERSEDES, tasks[1].key))
    record = recorded([tasks, [card("d", relations=ends)]])
    record.add(resolves=[tasks[2].key])
    assert len(demanded(record.view(revision=1), Decision())) == 3
    assert demanded(record.view(), Decision()) == []


def test_a_resolved_obligation_can_still_be_named() -> None:
    record = recorded([[card("a", kind=Kind.OBLIGATION)]])
    record.add(resolves=[CardKey("alice", "a")])
    assert demanded(record.view(), Decision(required=("a",))) == [(CardKey("alice", "a"), Role.NAMED)]


def test_what_does_not_stand_where_it_is_named_is_told_with_what_to_do() -> None:
    record = recorded([[card("spring", valid_from=10, valid_until=20)]])
    with pytest.raises(NotFound) as caught:
        required(record.view(as_of=30), Decision(required=("spring",)))
    assert caught.value.message == (
        "there is no card 'spring' that you can read and that held as of the time that was asked of; "
        "name another, or ask as of a time when it held"
    )
    with pytest.raises(NotFound) as caught:
        required(record.view(), Decision(required=("summer",)))
    assert caught.value.message == (
        "there is no card 'summer' that you can read and that is live at revision 1; "
        "name another, or ask at a revision that has it live"
    )


def test_what_is_named_and_hidden_superseded_or_absent_is_not_found_in_the_same_words() -> None:
    """Invariants 2 and 7: the call fails, and does not tell why."""
    old = card("old")
    hidden = card("hidden", owner="bob", acl=Acl(allow_principals=frozenset({"bob"})))
    view = recorded([[old, hidden], [card("new", relations=(Relation(SUPERSEDES, old.key),))]]).view()
    told = set()
    for ref in ("old", "hidden", "absent"):
        with pytest.raises(NotFound) as caught:
            required(view, Decision(required=(ref,)))
        told.add(caught.value.message.replace(ref, "REF"))
    assert len(told) == 1
