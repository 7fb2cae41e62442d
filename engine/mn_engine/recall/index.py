"""The derived index of one run: persistent snapshots, one a revision, built from stored columns and never from text.

`extended` answers a longer snapshot that shares what it can; it changes nothing of this one, so a reader keeps one
revision for as long as it holds its snapshot (invariant 4). Cards are named by their place, 0 to len - 1, ascending by
ordinal. An index built at once and one built revision by revision answer alike (invariant 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mn_engine.domain.cards import CardKey
from mn_engine.recall.bm25 import WEIGHT_MAX, weights
from mn_engine.recall.columns import SUPERSEDED, IndexRows, Ragged
from mn_engine.recall.growing import Growing
from mn_engine.recall.postings import Postings

SKETCH: Final = 16
"""Term hashes kept of each card to weigh redundancy: hashes are uniform, so the smallest are a fair sample."""
NO_TERM: Final = 0xFFFFFFFF
TOPIC, ENTITY, CLAIM = 0x9E3779B9, 0x7F4A7C15, 0x85EBCA6B
"""Label hashes are told apart by these masks, so that all labels share one set of postings."""
_PLAIN: Final[Mapping[str, type[np.generic]]] = MappingProxyType(
    {
        "ordinals": np.int64,
        "kinds": np.uint8,
        "stances": np.uint8,
        "id_hashes": np.uint64,
        "key_hashes": np.uint64,
        "text_hashes": np.uint64,
        "document_bytes": np.uint32,
    }
)
_LABELLED: Final = MappingProxyType({"topics": TOPIC, "entities": ENTITY, "claims": CLAIM})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIndex:
    """A snapshot of a run's index at `revision`."""

    revision: int
    columns: dict[str, Growing]
    """One item a card: _PLAIN, `reader_codes` (which (owner, acl) it has), `bound` (whether it names topics or claims),
    `sketches` (SKETCH items a card), `id_ends` and `id_bytes` (its id)."""
    terms: Postings
    labels: Postings
    by_key: Postings
    by_id: Postings
    """Cards by the low 32 bits of their key's and id's hash; a hit is checked against all 64."""
    readers: tuple[tuple[str, str], ...]
    """(owner, acl column) of each reader code."""
    superseded_at: NDArray[np.int64]
    resolved_at: NDArray[np.int64]
    """The revision at which each card ended; 0 while it has not."""
    contradictions: dict[int, tuple[int, ...]]
    """Cards that contradict each other, both ways."""

    @classmethod
    def empty(cls) -> RunIndex:
        """The index of a run without cards."""
        columns = {name: Growing.empty(item) for name, item in _PLAIN.items()}
        columns |= {
            "reader_codes": Growing.empty(np.int32),
            "bound": Growing.empty(np.bool_),
            "sketches": Growing.empty(np.uint32),
            "id_ends": Growing.empty(np.int64),
            "id_bytes": Growing.empty(np.uint8),
        }
        none = np.zeros(0, np.int64)
        return cls(
            revision=0,
            columns=columns,
            terms=Postings(),
            labels=Postings(),
            by_key=Postings(),
            by_id=Postings(),
            readers=(),
            superseded_at=none,
            resolved_at=none,
            contradictions={},
        )

    def __len__(self) -> int:
        return len(self.columns["ordinals"])

    @property
    def nbytes(self) -> int:
        """What the snapshot takes; what it shares with others is counted in each."""
        arrays = sum(column.nbytes for column in self.columns.values())
        postings = self.terms.nbytes + self.labels.nbytes + self.by_key.nbytes + self.by_id.nbytes
        return arrays + postings + int(self.superseded_at.nbytes + self.resolved_at.nbytes)

    def extended(self, rows: IndexRows, *, upto: int) -> RunIndex:
        """The index at revision `upto`, given what revisions after this one's added."""
        first, count = len(self), len(rows.ordinals)
        places = np.arange(first, first + count, dtype=np.uint32)
        readers, codes = self._reader_codes(rows)
        grown = replace(
            self,
            revision=upto,
            columns=self._grown_columns(rows, codes),
            terms=self.terms.extended(
                rows.terms.values,
                rows.terms.owners() + np.uint32(first),
                weights(rows.counts, np.repeat(rows.lengths, np.diff(rows.terms.offsets))),
            ),
            labels=self._grown_labels(rows, first),
            by_key=self.by_key.extended(_low(rows.key_hashes), places, np.zeros(count, np.uint8)),
            by_id=self.by_id.extended(_low(rows.id_hashes), places, np.zeros(count, np.uint8)),
            readers=readers,
            superseded_at=_padded(self.superseded_at, count),
            resolved_at=_padded(self.resolved_at, count),
        )
        return grown._ended(rows)._contradicted(rows)

    def place_of(self, key_hash: int) -> int | None:
        """The card with this key hash."""
        cards, _ = self.by_key.find(key_hash & 0xFFFFFFFF)
        hashes = self.columns["key_hashes"].array
        return next((int(card) for card in cards if int(hashes[card]) == key_hash), None)

    def places_of_id(self, id_hash: int) -> list[int]:
        """The cards with this id, of every owner, ascending."""
        cards, _ = self.by_id.find(id_hash & 0xFFFFFFFF)
        hashes = self.columns["id_hashes"].array
        return [int(card) for card in cards if int(hashes[card]) == id_hash]

    def place_at(self, ordinal: int) -> int:
        """The card with this ordinal, which must be there."""
        return int(np.searchsorted(self.columns["ordinals"].array, ordinal))

    def sketches(self, places: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """The cards' smallest term hashes: a row of SKETCH a card, ascending, padded with NO_TERM."""
        return self.columns["sketches"].array.reshape(-1, SKETCH)[places]

    def key(self, place: int) -> CardKey:
        """The card's name."""
        ends = self.columns["id_ends"].array
        start = int(ends[place - 1]) if place else 0
        card_id = self.columns["id_bytes"].array[start : int(ends[place])].tobytes().decode("ascii")
        return CardKey(self.readers[int(self.columns["reader_codes"].array[place])][0], card_id)

    def _reader_codes(self, rows: IndexRows) -> tuple[tuple[tuple[str, str], ...], NDArray[np.int32]]:
        known = {pair: code for code, pair in enumerate(self.readers)}
        width = max(len(rows.acls), 1)
        pairs, inverse = np.unique(rows.owner_codes * width + rows.acl_codes, return_inverse=True)
        table = np.zeros(len(pairs), np.int32)
        for at, pair in enumerate(pairs.tolist()):
            table[at] = known.setdefault((rows.owners[pair // width], rows.acls[pair % width]), len(known))
        return tuple(known), table[inverse]

    def _grown_columns(self, rows: IndexRows, codes: NDArray[np.int32]) -> dict[str, Growing]:
        new: dict[str, NDArray[Any]] = {name: getattr(rows, name) for name in _PLAIN}
        new["reader_codes"] = codes
        new["bound"] = (np.diff(rows.topics.offsets) + np.diff(rows.claims.offsets)) > 0
        new["sketches"] = _sketches(rows.terms)
        new["id_ends"] = rows.ids.offsets[1:] + len(self.columns["id_bytes"])
        new["id_bytes"] = rows.ids.values
        return {name: column.extended(new[name]) for name, column in self.columns.items()}

    def _grown_labels(self, rows: IndexRows, first: int) -> Postings:
        hashes, cards, label_weights = [], [], []
        for name, mask in _LABELLED.items():
            ragged: Ragged = getattr(rows, name)
            hashes.append(ragged.values ^ np.uint32(mask))
            cards.append(ragged.owners() + np.uint32(first))
            full = np.full(len(ragged.values), WEIGHT_MAX, np.uint8)
            label_weights.append(rows.claim_stances if name == "claims" else full)
        joined = np.concatenate(cards)
        order = np.argsort(joined, kind="stable")
        return self.labels.extended(np.concatenate(hashes)[order], joined[order], np.concatenate(label_weights)[order])

    def _ended(self, rows: IndexRows) -> RunIndex:
        if not rows.endings:
            return self
        superseded, resolved = self.superseded_at.copy(), self.resolved_at.copy()
        for revision, key_hash, kind in rows.endings:
            place = self.place_of(key_hash)
            column = superseded if kind == SUPERSEDED else resolved
            if place is not None and not column[place]:
                column[place] = revision
        return replace(self, superseded_at=superseded, resolved_at=resolved)

    def _contradicted(self, rows: IndexRows) -> RunIndex:
        if not rows.contradictions:
            return self
        linked = dict(self.contradictions)
        for ordinal, key_hash in rows.contradictions:
            one, other = self.place_at(ordinal), self.place_of(key_hash)
            if other is not None:
                linked[one] = tuple(sorted({*linked.get(one, ()), other}))
                linked[other] = tuple(sorted({*linked.get(other, ()), one}))
        return replace(self, contradictions=linked)


def _low(hashes: NDArray[np.uint64]) -> NDArray[np.uint32]:
    return hashes.astype(np.uint32)


def _padded(array: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    return np.concatenate((array, np.zeros(count, np.int64))) if count else array


def _sketches(terms: Ragged) -> NDArray[np.uint32]:
    """The SKETCH smallest term hashes of each card (they are stored ascending), padded with NO_TERM."""
    count = len(terms.offsets) - 1
    at = terms.offsets[:-1, None] + np.arange(SKETCH)
    inside = at < terms.offsets[1:, None]
    if not len(terms.values):
        return np.full(count * SKETCH, NO_TERM, np.uint32)
    taken = terms.values[np.minimum(at, len(terms.values) - 1)]
    return np.where(inside, taken, np.uint32(NO_TERM)).astype(np.uint32).ravel()
