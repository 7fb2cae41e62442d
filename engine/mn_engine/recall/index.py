"""The derived index of one run: persistent snapshots, one a revision, built from stored columns and never from text.

`extended` answers a longer snapshot that shares what it can; it changes nothing of this one, so a reader keeps one
revision for as long as it holds its snapshot (invariant 4). Cards are named by their place, 0 to len - 1, ascending by
ordinal. An index built at once and one built revision by revision answer alike (invariant 5).

The index is blind to readers: it holds everything, and what a reader may see is a View's business (invariant 7).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mn_contract.errors import ContextBudgetExceeded
from mn_engine.domain.cards import CardKey
from mn_engine.recall.bm25 import WEIGHT_MAX, weights
from mn_engine.recall.columns import UNKNOWN_TIME, IndexRows, Ragged
from mn_engine.recall.growing import Growing
from mn_engine.recall.lookup import Lookup
from mn_engine.recall.postings import Postings
from mn_engine.recall.segments import CARDS_MAX
from mn_engine.recall.timelines import Memo
from mn_engine.recall.vectors import DIMENSIONS

SKETCH: Final = 16
"""Term hashes kept of each card to weigh redundancy: hashes are uniform, so the smallest are a fair sample."""
NO_TERM: Final = 0xFFFFFFFF
TOPIC, ENTITY, CLAIM = 0x9E3779B9, 0x7F4A7C15, 0x85EBCA6B
"""Label hashes are told apart by these masks, so that all labels share one set of postings."""
NO_CARD: Final = -1
_LABELLED: Final = MappingProxyType({"topics": TOPIC, "entities": ENTITY, "claims": CLAIM})
_COLUMNS: Final[Mapping[str, type[np.generic]]] = MappingProxyType(
    {
        # One item a card.
        "ordinals": np.int64,
        "kinds": np.uint8,
        "stances": np.uint8,
        "text_hashes": np.uint64,
        "document_bytes": np.uint32,
        "document_tokens": np.uint32,
        "body_hashes": np.uint64,
        "occurred": np.int64,  # microseconds; UNKNOWN_TIME where it does not say
        "valid_from": np.int64,  # the same
        "valid_until": np.int64,  # microseconds; NO_END where it does not say
        "reader_codes": np.int32,  # which (owner, acl) of `readers` it has
        "bound": np.bool_,  # whether it names topics or claims
        "id_ends": np.int64,  # where its id ends in id_bytes
        "label_ends": np.int64,  # where its topics and entities end in label_hashes
        # SKETCH items a card; as many as ids have bytes.
        "sketches": np.uint32,
        "id_bytes": np.uint8,
        # As many as it has topics and entities: masked hashes, as in `labels`.
        "label_hashes": np.uint32,
        # DIMENSIONS items a card.
        "vectors": np.int8,
        # One item a fact that says a triple: which card, and what a timeline needs of it.
        "fact_cards": np.uint32,
        "fact_places": np.uint64,
        "fact_triples": np.uint64,
        "fact_singular": np.bool_,
        # One item a relation: the card that says so, the other, and whether it is `contradicts`.
        "link_ones": np.uint32,
        "link_others": np.uint32,
        "link_contradicts": np.bool_,
        # One item an ending: which card, when, SUPERSEDED or RESOLVED, and by which card (NO_CARD: by an event alone).
        "ended_places": np.uint32,
        "ended_revisions": np.int64,
        "ended_kinds": np.uint8,
        "ended_by": np.int64,
    }
)


def _no_columns() -> dict[str, Growing]:
    return {name: Growing.empty(item) for name, item in _COLUMNS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIndex:
    """A snapshot of a run's index at `revision`."""

    revision: int = 0
    columns: Mapping[str, Growing] = field(default_factory=_no_columns)
    """See _COLUMNS."""
    terms: Postings = field(default_factory=Postings)
    """Weights as in bm25."""
    labels: Postings = field(default_factory=Postings)
    """Topics, entities and claims; a claim's weight is the card's stance toward it."""
    keys: Lookup = field(default_factory=Lookup)
    ids: Lookup = field(default_factory=Lookup)
    readers: tuple[tuple[str, str], ...] = ()
    """(owner, acl column) of each reader code."""
    timelines: Memo = field(default_factory=dict)
    """Of places of facts; every snapshot of a run has the same."""

    @classmethod
    def empty(cls) -> RunIndex:
        """The index of a run without cards."""
        return cls()

    def __len__(self) -> int:
        return len(self.columns["ordinals"])

    @property
    def nbytes(self) -> int:
        """What the snapshot takes; what it shares with others is counted in each."""
        arrays = sum(column.nbytes for column in self.columns.values())
        return arrays + self.terms.nbytes + self.labels.nbytes + self.keys.nbytes + self.ids.nbytes

    def extended(self, rows: IndexRows, *, upto: int) -> RunIndex:
        """The index at revision `upto`, given what revisions after this one's added.

        Raises ContextBudgetExceeded where a run outgrows its index.
        """
        assert upto >= self.revision, "an index does not go back"
        assert (rows.ordinals[1:] > rows.ordinals[:-1]).all(), "cards come by ordinal"
        first, count = len(self), len(rows.ordinals)
        if first + count > CARDS_MAX:
            raise ContextBudgetExceeded(
                f"a run's index holds at most {CARDS_MAX} cards; split the run", budget="cards", limit=CARDS_MAX
            )
        places = np.arange(first, first + count, dtype=np.uint32)
        readers, codes = self._reader_codes(rows)
        keys = self.keys.extended(rows.key_hashes, places)
        ordinals = self.columns["ordinals"].extended(rows.ordinals).array
        new = {**self._new_cards(rows, codes), **_new_links(rows, ordinals, keys), **_new_endings(rows, keys)}
        return RunIndex(
            revision=upto,
            columns={name: column.extended(new[name]) for name, column in self.columns.items()},
            terms=self.terms.extended(
                rows.terms.values,
                rows.terms.owners() + np.uint32(first),
                weights(rows.counts, rows.lengths, rows.terms),
            ),
            labels=self._grown_labels(rows, first),
            keys=keys,
            ids=self.ids.extended(rows.id_hashes, places),
            readers=readers,
            timelines=self.timelines,
        )

    def array(self, name: str) -> NDArray[Any]:
        """A column, whole. Not to be written to."""
        return self.columns[name].array

    def place_at(self, ordinal: int) -> int:
        """The card with this ordinal, which must be there."""
        return int(np.searchsorted(self.array("ordinals"), ordinal))

    def settled(self, time: int) -> int:
        """The latest time up to this one at which anything begins or ceases to hold: what holds then holds still."""
        latest = UNKNOWN_TIME
        for name in ("valid_from", "valid_until"):
            passed = self.array(name)[self.array(name) <= time]
            latest = max(latest, int(passed.max())) if len(passed) else latest
        return latest

    def sketches(self, places: NDArray[Any]) -> NDArray[np.uint32]:
        """The cards' smallest term hashes: a row of SKETCH a card, ascending, padded with NO_TERM."""
        rows: NDArray[np.uint32] = self.array("sketches").reshape(-1, SKETCH).take(places, axis=0)
        return rows

    def vectors(self, places: NDArray[Any]) -> NDArray[np.int8]:
        """The cards' vectors, a row each."""
        rows: NDArray[np.int8] = self.array("vectors").reshape(-1, DIMENSIONS).take(places, axis=0)
        return rows

    @property
    def labelled(self) -> bool:
        """Whether any card has a topic or an entity."""
        return bool(len(self.array("label_hashes")))

    def labels_of(self, place: int) -> list[int]:
        """A card's topics and entities, as masked hashes."""
        ends = self.array("label_ends")
        start = int(ends[place - 1]) if place else 0
        labels: list[int] = self.array("label_hashes")[start : int(ends[place])].tolist()
        return labels

    def id_lengths(self, places: NDArray[Any]) -> NDArray[np.int64]:
        """Bytes of the cards' ids."""
        ends = self.array("id_ends")
        starts = np.where(places > 0, ends[places.astype(np.int64) - 1], 0)
        lengths: NDArray[np.int64] = ends[places] - starts
        return lengths

    def key(self, place: int) -> CardKey:
        """The card's name."""
        ends = self.array("id_ends")
        start = int(ends[place - 1]) if place else 0
        card_id = self.array("id_bytes")[start : int(ends[place])].tobytes().decode("ascii")
        return CardKey(self.readers[int(self.array("reader_codes")[place])][0], card_id)

    def _reader_codes(self, rows: IndexRows) -> tuple[tuple[tuple[str, str], ...], NDArray[np.int32]]:
        known = {pair: code for code, pair in enumerate(self.readers)}
        width = max(len(rows.acls), 1)
        pairs, first, inverse = np.unique(
            rows.owner_codes * width + rows.acl_codes, return_index=True, return_inverse=True
        )
        table = np.zeros(len(pairs), np.int32)
        for at in np.argsort(first, kind="stable").tolist():  # as they come, so that any catching up numbers them alike
            owner, acl = divmod(int(pairs[at]), width)
            table[at] = known.setdefault((rows.owners[owner], rows.acls[acl]), len(known))
        return tuple(known), table[inverse]

    def _new_cards(self, rows: IndexRows, codes: NDArray[np.int32]) -> dict[str, NDArray[Any]]:
        labels = _joined(rows.topics, TOPIC, rows.entities, ENTITY)
        return {
            "ordinals": rows.ordinals,
            "kinds": rows.kinds,
            "stances": rows.stances,
            "text_hashes": rows.text_hashes,
            "document_bytes": rows.document_bytes,
            "document_tokens": rows.document_tokens,
            "body_hashes": rows.body_hashes,
            "occurred": rows.occurred,
            "valid_from": rows.valid_from,
            "valid_until": rows.valid_until,
            "reader_codes": codes,
            "bound": (rows.topics.lengths() + rows.claims.lengths()) > 0,
            "id_ends": rows.ids.offsets[1:] + len(self.columns["id_bytes"]),
            "sketches": _sketches(rows.terms),
            "id_bytes": rows.ids.values,
            "label_ends": labels.offsets[1:] + len(self.columns["label_hashes"]),
            "label_hashes": labels.values,
            "vectors": rows.vectors,
            **_new_facts(rows, len(self)),
        }

    def _grown_labels(self, rows: IndexRows, first: int) -> Postings:
        hashes, cards, told = [], [], []
        for name, mask in _LABELLED.items():
            ragged: Ragged = getattr(rows, name)
            hashes.append(ragged.values ^ np.uint32(mask))
            cards.append(ragged.owners() + np.uint32(first))
            full = np.full(len(ragged.values), WEIGHT_MAX, np.uint8)
            told.append(rows.claim_stances if name == "claims" else full)
        joined = np.concatenate(cards)
        order = np.argsort(joined, kind="stable")
        return self.labels.extended(np.concatenate(hashes)[order], joined[order], np.concatenate(told)[order])


def _new_facts(rows: IndexRows, first: int) -> dict[str, NDArray[Any]]:
    places = np.flatnonzero(rows.fact_places)
    return {
        "fact_cards": (places + first).astype(np.uint32),
        "fact_places": rows.fact_places[places],
        "fact_triples": rows.fact_triples[places],
        "fact_singular": rows.fact_singular[places],
    }


def _new_links(rows: IndexRows, ordinals: NDArray[np.int64], keys: Lookup) -> dict[str, NDArray[Any]]:
    ones = np.searchsorted(ordinals, rows.relation_ordinals)
    others = keys.find_each(rows.relation_targets)
    there = others != NO_CARD  # the record refuses links to nothing; an index must not turn one into a wrong card
    return {
        "link_ones": ones[there].astype(np.uint32),
        "link_others": others[there].astype(np.uint32),
        "link_contradicts": rows.relation_contradicts[there],
    }


def _new_endings(rows: IndexRows, keys: Lookup) -> dict[str, NDArray[Any]]:
    places = keys.find_each(rows.ending_targets)
    there = places != NO_CARD
    by = np.where(rows.ending_has_by, keys.find_each(rows.ending_by), NO_CARD)
    return {
        "ended_places": places[there].astype(np.uint32),
        "ended_revisions": rows.ending_revisions[there],
        "ended_kinds": rows.ending_kinds[there],
        "ended_by": by[there],
    }


def _joined(ones: Ragged, mask: int, others: Ragged, other_mask: int) -> Ragged:
    """The values of two, row by row, under their masks."""
    rows = np.concatenate((ones.owners(), others.owners()))
    values = np.concatenate((ones.values ^ np.uint32(mask), others.values ^ np.uint32(other_mask)))
    order = np.argsort(rows, kind="stable")
    return Ragged(offsets=ones.offsets + others.offsets, values=values[order])


def _sketches(terms: Ragged) -> NDArray[np.uint32]:
    """The SKETCH smallest term hashes of each card (they are stored ascending), padded with NO_TERM."""
    count = len(terms.offsets) - 1
    if not len(terms.values):
        return np.full(count * SKETCH, NO_TERM, np.uint32)
    at = terms.offsets[:-1, None] + np.arange(SKETCH)
    inside = at < terms.offsets[1:, None]
    taken = terms.values[np.minimum(at, len(terms.values) - 1)]
    return np.where(inside, taken, np.uint32(NO_TERM)).astype(np.uint32).ravel()
