"""What one asker sees of a run at one revision. Everything that ranks, selects or names a card goes through a view.

A hidden card has no effect on any answer: it is in no mask, no count and no list, and looking for it says the same as
looking for what is not there (invariant 7). That holds for what it does to others, too: a card that a hidden card
superseded or resolved is, to those who cannot read that card, as it was. An event that resolves without a card does so
for everybody.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mn_contract.errors import InvalidInput, NotFound
from mn_contract.limits import TOKEN_BYTES
from mn_contract.names import format_ref, parse_ref
from mn_engine.domain.access import OPEN, Acl
from mn_engine.domain.cards import CardKey, Kind, ordinal_of, revision_of
from mn_engine.domain.hashes import hash64
from mn_engine.domain.scope import Scope
from mn_engine.recall.columns import RESOLVED, SUPERSEDED, UNKNOWN_TIME
from mn_engine.recall.index import NO_CARD, RunIndex
from mn_engine.recall.timelines import Timelines

_PAUSE_MICROSECONDS: Final = 30 * 60 * 1_000_000
"""A conversation ends where nothing more happens for half an hour."""
_DAY_MICROSECONDS: Final = 24 * 60 * 60 * 1_000_000
"""Two cards at the very beginning of one day (UTC) tell its date, and no time of theirs: a date joins nothing."""
_CONFLICTS: Final = len('"conflicts":[],') - 1  # the first reference has no comma before it
_CONFLICT: Final = len('"",')
THREAD_GAP: Final = 2
"""How far neighbours in a conversation are heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """Conversations of at least two visible cards, laid out in one row: members ascending, and THREAD_GAP empty slots
    before, between and behind conversations, so that nobody within that distance is of another one."""

    slots: NDArray[np.int32]
    """The slot of each card; NO_CARD where it is in no conversation."""
    places: NDArray[np.int32]
    """The card in each slot; NO_CARD in the gaps."""
    numbers: NDArray[np.int32]
    """The conversation of each slot, from 0 up, ascending; those of the gaps say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Having:
    """Cards that have what was looked for: places and weights of one thing after another, ascending, and how many cards
    have each."""

    places: NDArray[np.int64]
    weights: NDArray[np.uint8]
    counts: list[int]

    def split(self, count: int) -> tuple[Having, Having]:
        """The first `count` things that were looked for, and the others."""
        end = sum(self.counts[:count])
        return (
            Having(places=self.places[:end], weights=self.weights[:end], counts=self.counts[:count]),
            Having(places=self.places[end:], weights=self.weights[end:], counts=self.counts[count:]),
        )

    def spread(self, values: Sequence[int]) -> NDArray[np.int64]:
        """A value for each place, given one for each thing that was looked for."""
        return np.repeat(np.asarray(values, np.int64), np.asarray(self.counts, np.int64))


Links = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Joined cards, each pair once, ascending: places of readable cards, and of the visible others."""

Ending = tuple[int, CardKey | None]
"""The revision at which a card ended, and the card that ended it (None: an event did, without a card)."""


class View:
    """An index through one reader's eyes, at `revision` (which the index must cover). Cards go by place or ordinal.

    With `as_of` (microseconds) it shows what held at that time: a card whose validity covers it, even where a card that
    began to hold later has superseded it since. With `history` superseded cards are seen, too. `beside` is a view of
    the same reader, index and revision, of another time perhaps: when facts hold is worked out once for both.
    """

    def __init__(
        self,
        index: RunIndex,
        reader: Scope,
        revision: int,
        as_of: int | None = None,
        *,
        history: bool = False,
        beside: View | None = None,
    ) -> None:
        assert revision <= index.revision, "the index does not cover this revision yet"
        self.index = index
        self.reader = reader
        self.revision = revision
        self.as_of = as_of
        self.history = history
        self._beside: View | None = beside if beside is None else beside._beside or beside
        self.count = int(np.searchsorted(index.array("ordinals"), ordinal_of(revision + 1, 0)))
        """Cards that were there at the revision, hidden ones included; their places are 0 to count - 1."""
        self._ending_rows: dict[int, NDArray[np.int64]] = {}
        self._sharing: dict[tuple[int, int], NDArray[np.int64] | None] = {}

    def column(self, name: str) -> NDArray[Any]:
        """A column of the index that has one item a card, as far as the revision goes."""
        return self.index.array(name)[: self.count]

    @cached_property
    def permitted(self) -> NDArray[np.bool_]:
        """For each reader code of the index, whether this reader is permitted."""
        masks = [
            (OPEN if not acl else Acl.from_json(json.loads(acl))).permits(self.reader, owner=owner)
            for owner, acl in self.index.readers
        ]
        return np.asarray(masks, np.bool_)

    @cached_property
    def readable(self) -> NDArray[np.bool_]:
        """Cards that the reader may read, live or not."""
        if self.permitted.all():
            return np.ones(self.count, np.bool_)
        mask: NDArray[np.bool_] = self.permitted[self.column("reader_codes")]
        return mask

    @cached_property
    def visible(self) -> NDArray[np.bool_]:
        """Cards that the reader may read and that are live at the revision, and that hold at `as_of`."""
        live = self.readable if self.history else self.readable & ~self._ended(SUPERSEDED)
        if self.as_of is not None:
            live = live & self.valid(self.as_of)
        if not self.history and len(self.index.array("fact_cards")):
            facts = self.facts
            held = np.zeros(self.count, np.bool_)
            held[facts.heads if self.as_of is None else facts.holding(self.as_of)] = True
            said = self.index.array("fact_cards")
            said = said[said < self.count]
            live[said] = held[said]
        return live

    @cached_property
    def facts(self) -> Timelines:
        """Facts that the reader may read and that no card has superseded by name, and when they hold."""
        if self._beside is not None:
            return self._beside.facts
        cards = self.index.array("fact_cards").astype(np.int64)
        kept = cards < self.count
        kept[kept] &= (self.readable & ~self._ended(SUPERSEDED))[cards[kept]]
        cards = cards[kept]
        return Timelines(
            cards,
            places=self.index.array("fact_places")[kept],
            triples=self.index.array("fact_triples")[kept],
            singular=self.index.array("fact_singular")[kept],
            since=self.column("valid_from")[cards],
            until=self.column("valid_until")[cards],
            memo=self.index.timelines,
        )

    def valid(self, time: int) -> NDArray[np.bool_]:
        """Cards that hold at a time, as far as they say."""
        valid: NDArray[np.bool_] = (self.column("valid_from") <= time) & (time < self.column("valid_until"))
        return valid

    @cached_property
    def _shown(self) -> NDArray[np.bool_]:
        """`visible`, as far as the index goes: it may be ahead of the revision."""
        shown = np.zeros(len(self.index), np.bool_)
        shown[: self.count] = self.visible
        return shown

    @cached_property
    def visible_count(self) -> int:
        """How many cards are visible."""
        return int(np.count_nonzero(self.visible))

    @cached_property
    def threads(self) -> Threads:
        """Conversations: cards recorded one after another, as far as the reader sees, that tell of times close
        together, and not of a date alone, or whose texts are parts of one source. What says a triple is in none: it
        stands for itself, whatever was recorded with it."""
        told = self.visible.copy()
        facts = self.index.array("fact_cards")
        told[facts[facts < self.count]] = False
        places = np.flatnonzero(told)
        times, bodies, texts = (self.column(name)[places] for name in ("occurred", "body_hashes", "text_hashes"))
        known = times != UNKNOWN_TIME
        joined = np.zeros(len(places), np.bool_)
        joined[1:] = (np.abs(np.diff(times)) <= _PAUSE_MICROSECONDS) & known[1:] & known[:-1]
        dates = times % _DAY_MICROSECONDS == 0
        joined[1:] &= ~(dates[1:] & dates[:-1])
        joined[1:] |= (bodies[1:] == bodies[:-1]) & (texts[1:] != texts[:-1])
        inside = joined.copy()
        inside[:-1] |= joined[1:]
        members = places[inside]
        numbers = np.cumsum(~joined[inside]) - 1
        at = np.arange(len(members)) + THREAD_GAP * (numbers + 1)
        length = int(at[-1]) + 1 + THREAD_GAP if len(at) else 0
        slots = np.full(self.count, NO_CARD, np.int32)
        slots[members] = at
        in_slot = np.full(length, NO_CARD, np.int32)
        in_slot[at] = members
        of_slot = np.zeros(length, np.int32)
        of_slot[at] = numbers
        return Threads(slots=slots, places=in_slot, numbers=of_slot)

    def resolve(self, ref: str, *, live: bool = True) -> int:
        """The ordinal of the card that the reader calls `ref`.

        A bare id is the reader's own card where there is one, else the only card of another owner that is seen and has
        this id. Raises NotFound, in the same words for hidden, superseded (where `live`) and absent cards; InvalidInput
        where several others' cards share the id.
        """
        owner, card_id = parse_ref(ref, "ref")
        own = self._place(owner or self.reader.principal, card_id)
        seen = self.visible if live else self.readable
        if owner is not None or own is not None:
            places = [] if own is None else [own]
        else:
            places = [place for place in self.index.ids.find(hash64(card_id)) if place < self.count]
        places = [place for place in places if seen[place] and self.index.key(place).id == card_id]
        if not places:
            raise NotFound(f"there is no card {ref!r} that you can read{self._live_at() if live else ''}")
        if len(places) > 1:
            names = ", ".join(self.ref(place) for place in places)
            raise InvalidInput(f"{ref!r} is ambiguous: say which of {names}", field="ref")
        return self.ordinal(places[0])

    def _live_at(self) -> str:
        """What a card must be that is called by a name here, and what to do where none is."""
        if self.as_of is None:
            return f" and that is live at revision {self.revision}; name another, or ask at a revision that has it live"
        return " and that held as of the time that was asked of; name another, or ask as of a time when it held"

    def can_read(self, key: CardKey) -> bool:
        """Whether the reader may know of the card, live or not."""
        return self._place(key.owner, key.id) is not None

    def superseded_by(self, ordinal: int) -> Ending | None:
        """What superseded the card by the revision, as far as the reader can tell; None while it is live. A fact that
        holds no more is superseded by the one that holds after it, as soon as both were there."""
        told, place = self._ending(ordinal, SUPERSEDED), self.place(ordinal)
        if told is not None or self.visible[place]:
            return told
        after = self.facts.successor(place)
        if after is None:
            return None
        return revision_of(max(ordinal, self.ordinal(after))), self.index.key(after)

    def head(self, ordinal: int) -> int | None:
        """The visible card that has taken a superseded one's place, in however many steps; None where none has."""
        rows = self._endings(SUPERSEDED)
        ended, by = self.index.array("ended_places")[rows], self.index.array("ended_by")[rows]
        place = self.place(ordinal)
        while True:  # a card ends only what came before it, and a fact is followed by what holds later: this ends
            at = np.flatnonzero(ended == place)
            after = int(by[at[0]]) if len(at) else self.facts.successor(place)
            if after is None:
                return self.ordinal(place) if self.visible[place] else None
            if after == NO_CARD:
                return None
            place = after

    def resolved_by(self, ordinal: int) -> Ending | None:
        """What resolved the card by the revision, as far as the reader can tell; None while it is open."""
        return self._ending(ordinal, RESOLVED)

    def conflicts(self, ordinal: int) -> list[int]:
        """Ordinals of visible cards that contradict the card, or that it contradicts, ascending."""
        ones, others = self.links
        if not len(ones):
            return []
        return [self.ordinal(place) for place in others[ones == self.place(ordinal)].tolist()]

    @cached_property
    def links(self) -> Links:
        """Contradictions both ways."""
        return self._links(self.index.array("link_contradicts"))

    @cached_property
    def relations(self) -> Links:
        """Relations of other types both ways."""
        return self._links(~self.index.array("link_contradicts"))

    def _links(self, kept: NDArray[np.bool_]) -> Links:
        ones, others = (self.index.array(name)[kept].astype(np.int64) for name in ("link_ones", "link_others"))
        there = (ones < self.count) & (others < self.count)
        ones, others = ones[there], others[there]
        pairs = np.unique(np.concatenate((ones, others)) * max(self.count, 1) + np.concatenate((others, ones)))
        ones, others = np.divmod(pairs, max(self.count, 1))
        seen = self.readable[ones] & self.visible[others]
        return ones[seen], others[seen]

    def key(self, ordinal: int) -> CardKey:
        """The card's name."""
        return self.index.key(self.place(ordinal))

    def ref(self, place: int) -> str:
        """The reference by which the reader names a card."""
        key = self.index.key(place)
        return format_ref(key.owner, key.id, self.reader.principal)

    @cached_property
    def item_sizes(self) -> NDArray[np.int32]:
        """Bytes that each card takes as an item of a packet that nothing requires.

        The record keeps the size of a card's document as its owner sees it; the reader's differs by what is known
        without reading it: the owner's name in references, and the conflicts. `PacketItem.document` is the truth; a
        test holds this to it.
        """
        own = self.reader.principal
        prefixes = np.asarray([0 if owner == own else len(owner) + 1 for owner, _ in self.index.readers], np.int64)
        names = prefixes[self.column("reader_codes")]
        sizes: NDArray[np.int32] = (names + self.column("document_bytes")).astype(np.int32)
        ones, others = self.links
        sizes[np.unique(ones)] += _CONFLICTS
        np.add.at(sizes, ones, self.index.id_lengths(others) + names[others] + _CONFLICT)
        return sizes

    @cached_property
    def item_tokens(self) -> NDArray[np.int32]:
        """Tokens of those items."""
        tokens: NDArray[np.int32] = self.tokens_of(slice(None), self.item_sizes).astype(np.int32)
        return tokens

    def tokens_of(self, places: Any, sizes: NDArray[Any]) -> NDArray[np.int64]:
        """Tokens of cards whose items have these sizes: the writers' estimates, and a token for every TOKEN_BYTES of
        what no writer knew of - an owner's name, conflicts, a label."""
        marks = sizes - self.column("document_bytes")[places]
        tokens: NDArray[np.int64] = self.column("document_tokens")[places] + -(-marks // TOKEN_BYTES)
        return tokens

    def kind(self, ordinal: int) -> Kind:
        """What the card is."""
        return Kind(int(self.column("kinds")[self.place(ordinal)]))

    def place(self, ordinal: int) -> int:
        """The place of a card that is there."""
        return self.index.place_at(ordinal)

    def ordinal(self, place: int) -> int:
        """The ordinal of a place."""
        return int(self.column("ordinals")[place])

    @cached_property
    def demanding(self) -> NDArray[np.int64]:
        """Places of open obligations and constraints, ascending."""
        return np.flatnonzero(self.open_obligations() | self.constraints())

    def open_obligations(self) -> NDArray[np.bool_]:
        """Visible obligations that nothing has resolved by the revision."""
        return self._of_kind(Kind.OBLIGATION) & ~self._ended(RESOLVED)

    def constraints(self) -> NDArray[np.bool_]:
        """Visible constraints."""
        return self._of_kind(Kind.CONSTRAINT)

    @cached_property
    def preferences(self) -> NDArray[np.int64]:
        """Places of visible preferences, ascending."""
        return np.flatnonzero(self._of_kind(Kind.PREFERENCE))

    def with_labels(self, hashes: Sequence[int], mask: int) -> Having:
        """Visible cards that carry these labels. `mask` is TOPIC, ENTITY or CLAIM of the index, or 0 where they are
        masked already."""
        return self._seen(*self.index.labels.find([hashed ^ mask for hashed in hashes]))

    def sharing(self, labels: Sequence[int], *, most: int) -> dict[int, NDArray[np.int64]]:
        """Places of the visible cards that carry each of these masked labels, where no more than `most` do."""
        new = [label for label in labels if (label, most) not in self._sharing]
        if new:
            having = self.with_labels(new, 0)
            ends = list(accumulate(having.counts, initial=0))
            for label, (start, end) in zip(new, pairwise(ends), strict=True):
                self._sharing[label, most] = having.places[start:end] if end - start <= most else None
        found = {label: self._sharing[label, most] for label in labels}
        return {label: places for label, places in found.items() if places is not None}

    def with_terms(self, hashes: Sequence[int]) -> Having:
        """Visible cards that have these terms."""
        return self._seen(*self.index.terms.find(hashes))

    def _of_kind(self, kind: Kind) -> NDArray[np.bool_]:
        kinds: NDArray[np.bool_] = self.column("kinds") == kind
        return self.visible & kinds

    def _endings(self, kind: int) -> NDArray[np.int64]:
        """Rows of the index's endings of a kind that have come by the revision and that the reader may know of."""
        rows = self._ending_rows.get(kind)
        if rows is None:
            rows = self._ending_rows[kind] = self._find_endings(kind)
        return rows

    def _find_endings(self, kind: int) -> NDArray[np.int64]:
        by = self.index.array("ended_by")
        told = self.index.array("ended_kinds") == kind
        told &= self.index.array("ended_revisions") <= self.revision
        rows = np.flatnonzero(told)
        if len(rows):
            rows = rows[(by[rows] == NO_CARD) | self.readable[by[rows]]]
        if len(rows) and self.as_of is not None:  # what ended it had not begun
            rows = rows[(by[rows] == NO_CARD) | (self.column("valid_from")[by[rows]] <= self.as_of)]
        return rows

    def _ended(self, kind: int) -> NDArray[np.bool_]:
        ended = np.zeros(self.count, np.bool_)
        ended[self.index.array("ended_places")[self._endings(kind)]] = True
        return ended

    def _ending(self, ordinal: int, kind: int) -> Ending | None:
        rows = self._endings(kind)
        if len(rows):
            rows = rows[self.index.array("ended_places")[rows] == self.place(ordinal)]
        if not len(rows):
            return None
        by = int(self.index.array("ended_by")[rows[0]])
        return int(self.index.array("ended_revisions")[rows[0]]), None if by == NO_CARD else self.index.key(by)

    def _seen(self, cards: NDArray[np.uint32], weights: NDArray[np.uint8], counts: list[int]) -> Having:
        places = cards.astype(np.int64)
        seen = self._shown[places]
        if seen.all():
            return Having(places=places, weights=weights, counts=counts)
        ends = list(accumulate(counts, initial=0))
        shown = [int(np.count_nonzero(seen[start:end])) for start, end in pairwise(ends)]
        return Having(places=places[seen], weights=weights[seen], counts=shown)

    def _place(self, owner: str, card_id: str) -> int | None:
        """The card of this name, where it is there by the revision and readable."""
        for place in self.index.keys.find(CardKey(owner, card_id).hash):
            if place < self.count and self.readable[place] and self.index.key(place) == CardKey(owner, card_id):
                return place
        return None
