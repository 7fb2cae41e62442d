"""Sizes are told before any body is read, and are those of the documents to the byte (invariant 1)."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mn_contract.canonical import encoded
from mn_engine.domain.access import Acl
from mn_engine.domain.cards import CONTRADICTS, Card, CardKey, Relation, document_size
from mn_engine.domain.packets import Decision, PacketItem, Role, Why, packet_size
from mn_engine.recall.view import View
from mn_engine.select.sizes import required_sizes
from tests.unit.recall.corpus import SAMPLE, Record, batches_of_cards, card, decisions, recorded, scope
from tests.unit.select.selecting import selected


def document_of(record: Record, view: View, ordinal: int, role: Role) -> dict[str, object]:
    """The document as a packet has it."""
    (stored,) = record.store.cards(scope().run_key, [ordinal], revision=view.revision)
    conflicts = tuple(view.key(other) for other in view.conflicts(ordinal))
    return PacketItem(stored=stored, role=role, why=Why(), conflicts=conflicts).document(view.reader.principal)


@SAMPLE
@given(batches_of_cards(), st.sampled_from(("alice", "bob", "carol")))
def test_every_size_is_that_of_the_document_for_its_asker(batches: list[list[Card]], asker: str) -> None:
    record = recorded(batches)
    for revision in range(record.revision + 1):
        view = record.view(scope(asker), revision)
        places = np.flatnonzero(view.visible)
        for place, size in zip(places.tolist(), view.item_sizes[places].tolist(), strict=True):
            assert size == document_size(document_of(record, view, view.ordinal(place), Role.RANKED))
        for role in (Role.NAMED, Role.OBLIGATION, Role.CONSTRAINT):
            sizes = required_sizes(view, places, [role] * len(places)).tolist()
            for place, size in zip(places.tolist(), sizes, strict=True):
                assert size == document_size(document_of(record, view, view.ordinal(place), role))


@SAMPLE
@given(batches_of_cards(), decisions)
def test_a_packet_is_as_large_as_its_items_say(batches: list[list[Card]], decision: Decision) -> None:
    record = recorded(batches)
    view = record.view()
    items = selected(view, decision).items
    documents = [document_of(record, view, item.ordinal, item.role) for item in items]
    assert len(encoded(documents)) == packet_size([item.size for item in items])


def test_a_hidden_contradiction_takes_no_byte() -> None:
    """Invariant 7."""
    one = CardKey("alice", "a")
    hidden = card(
        "h", owner="bob", acl=Acl(deny_principals=frozenset({"alice"})), relations=(Relation(CONTRADICTS, one),)
    )
    plain, linked = recorded([[card("a")]]).view(), recorded([[card("a"), hidden]]).view()
    assert plain.item_sizes[0] == linked.item_sizes[0]
    assert recorded([[card("a"), hidden]]).view(scope("bob")).item_sizes[0] > plain.item_sizes[0]
