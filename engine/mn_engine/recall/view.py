"""What one asker sees of a run at one revision. Everything that ranks, selects or names a card goes through a view.

A hidden card has no effect on any answer: it is in no mask, no count and no list, and looking for it says the same as
looking for what is not there (invariant 7).
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mn_contract.errors import InvalidInput, NotFound
from mn_contract.names import format_ref, parse_ref
from mn_engine.domain.access import OPEN, Acl
from mn_engine.domain.cards import CardKey, Kind, Stance, ordinal_of
from mn_engine.domain.scope import Scope
from mn_engine.recall.analysis import card_hash, id_hash
from mn_engine.recall.index import RunIndex


class View:
    """An index through one reader's eyes, at `revision` (which the index must cover). Cards go by place or ordinal."""

    def __init__(self, index: RunIndex, reader: Scope, revision: int) -> None:
        assert revision <= index.revision, "the index does not cover this revision yet"
        self.index = index
        self.reader = reader
        self.revision = revision
        self.count = int(np.searchsorted(index.columns["ordinals"].array, ordinal_of(revision + 1, 0)))
        """Cards that were there at the revision, hidden ones included; their places are 0 to count - 1."""

    def column(self, name: str) -> NDArray[Any]:
        """A column of the index, as far as the revision goes."""
        return self.index.columns[name].array[: self.count]

    @cached_property
    def readable(self) -> NDArray[np.bool_]:
        """Cards that the reader may read, live or not."""
        permits = [
            (OPEN if not acl else Acl.from_json(json.loads(acl))).permits(self.reader, owner=owner)
            for owner, acl in self.index.readers
        ]
        if all(permits):
            return np.ones(self.count, np.bool_)
        masks: NDArray[np.bool_] = np.asarray(permits, np.bool_)[self.column("reader_codes")]
        return masks

    @cached_property
    def visible(self) -> NDArray[np.bool_]:
        """Cards that the reader may read and that are live at the revision."""
        return self.readable & ~_by(self.index.superseded_at[: self.count], self.revision)

    @cached_property
    def visible_count(self) -> int:
        """How many cards are visible."""
        return int(np.count_nonzero(self.visible))

    def resolve(self, ref: str, *, live: bool = True) -> int:
        """The ordinal of the card that the reader calls `ref`.

        A bare id is the reader's own card, else the only visible one with that id. Raises NotFound, in the same words
        for hidden, superseded (where `live`) and absent cards; InvalidInput where other principals' cards share the
        id.
        """
        owner, card_id = parse_ref(ref, "ref")
        seen = self.visible if live else self.readable
        if owner is not None:
            places = [place for place in (self._place(card_hash(owner, card_id)),) if place is not None]
        else:
            places = [place for place in self.index.places_of_id(id_hash(card_id)) if place < self.count]
        places = [place for place in places if seen[place]]
        own = [place for place in places if self.index.key(place).owner == self.reader.principal]
        chosen = own or places
        if not chosen:
            raise NotFound(f"there is no card {ref!r} that you can read" + (" and that is live" if live else ""))
        if len(chosen) > 1:
            names = ", ".join(self._ref(place) for place in chosen)
            raise InvalidInput(f"{ref!r} is ambiguous: say which of {names}", field="ref")
        return self.ordinal(chosen[0])

    def can_read(self, key: CardKey) -> bool:
        """Whether the reader may know of the card, live or not."""
        place = self._place(card_hash(key.owner, key.id))
        return place is not None and bool(self.readable[place])

    def conflicts(self, ordinal: int) -> list[int]:
        """Ordinals of visible cards that contradict the card, or that it contradicts, ascending."""
        return [self.ordinal(place) for place in self.conflict_places(self.place(ordinal))]

    def conflict_places(self, place: int) -> list[int]:
        """The same, by place."""
        linked = self.index.contradictions.get(place, ())
        return [other for other in linked if other < self.count and self.visible[other]]

    def key(self, ordinal: int) -> CardKey:
        """The card's name."""
        return self.index.key(self.place(ordinal))

    def kind(self, ordinal: int) -> Kind:
        """What the card is."""
        return Kind(int(self.column("kinds")[self.place(ordinal)]))

    def stance(self, place: int) -> Stance:
        """What the card says toward the thing it is about."""
        return Stance(int(self.column("stances")[place]))

    def place(self, ordinal: int) -> int:
        """The place of a card that is there."""
        return self.index.place_at(ordinal)

    def ordinal(self, place: int) -> int:
        """The ordinal of a place."""
        return int(self.column("ordinals")[place])

    def open_obligations(self) -> NDArray[np.bool_]:
        """Visible obligations that nothing has resolved by the revision."""
        resolved = _by(self.index.resolved_at[: self.count], self.revision)
        return self._of_kind(Kind.OBLIGATION) & ~resolved

    def constraints(self) -> NDArray[np.bool_]:
        """Visible constraints."""
        return self._of_kind(Kind.CONSTRAINT)

    def with_label(self, hashed: int, mask: int) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
        """(places, weights) of visible cards that carry a label; `mask` is TOPIC, ENTITY or CLAIM of the index."""
        return self._seen(*self.index.labels.find(hashed ^ mask))

    def with_term(self, hashed: int) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
        """(places, weights) of visible cards that have a term."""
        return self._seen(*self.index.terms.find(hashed))

    def _of_kind(self, kind: Kind) -> NDArray[np.bool_]:
        kinds: NDArray[np.bool_] = self.column("kinds") == kind
        return self.visible & kinds

    def _seen(
        self, places: NDArray[np.uint32], weights: NDArray[np.uint8]
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
        if len(places) and int(places[-1]) >= self.count:
            there = int(np.searchsorted(places, self.count))
            places, weights = places[:there], weights[:there]
        seen = self.visible[places]
        return (places, weights) if seen.all() else (places[seen], weights[seen])

    def _place(self, key_hash: int) -> int | None:
        place = self.index.place_of(key_hash)
        return place if place is not None and place < self.count else None

    def _ref(self, place: int) -> str:
        key = self.index.key(place)
        return format_ref(key.owner, key.id, self.reader.principal)


def _by(revisions: NDArray[np.int64], revision: int) -> NDArray[np.bool_]:
    """Which of these endings had come by `revision` (0: none at all)."""
    return (revisions > 0) & (revisions <= revision)
