"""When facts hold, for all of a run at once: the rule of domain.facts, over columns.

Most facts come in the order in which they held, or are the only ones of their place. Those are worked out side by side;
the rest place by place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mn_engine.domain.facts import FOREVER, Said, Span, heads, successor, timeline
from mn_engine.recall.columns import NO_END

_NONE: Final = np.zeros(0, np.int64)

MEMO_MAX: Final = 20_000
"""Places whose timelines are kept: some kilobyte each."""


class Timeline(NamedTuple):
    """The facts of one place, when each holds, and its heads; see domain.facts."""

    said: list[Said]
    spans: list[Span]
    heads: list[int]


Memo = dict[bytes, Timeline]
"""Timelines by the cards of their place, which never change: what was worked out for one view serves those after it.
Threads may share it."""


class Timelines:
    """Facts by column, in the order in which they were recorded: the card of each, the hashes of its place and triple,
    whether it is singular, and the times that it gives. Cards go in and come out as places in the index."""

    def __init__(
        self,
        cards: NDArray[np.int64],
        *,
        places: NDArray[np.uint64],
        triples: NDArray[np.uint64],
        singular: NDArray[np.bool_],
        since: NDArray[np.int64],
        until: NDArray[np.int64],
        memo: Memo,
    ) -> None:
        order = np.argsort(places, kind="stable")
        self._cards, self._triples, self._singular = cards[order], triples[order], singular[order]
        self._since, self._until = since[order], np.where(until[order] == NO_END, FOREVER, until[order])
        self._grouped = grouped = places[order]
        self._starts = np.flatnonzero(np.append(True, grouped[1:] != grouped[:-1])) if len(cards) else _NONE
        """Where each place begins."""
        self._ends = np.append(self._starts[1:], len(cards)) if len(cards) else _NONE
        self._memo = memo

    @cached_property
    def heads(self) -> NDArray[np.int64]:
        """The cards that are the newest of their places."""
        return self._cards[self._worked_out[3]]

    def holding(self, time: int) -> NDArray[np.int64]:
        """The cards that hold at a time."""
        rows, since, until, _ = self._worked_out
        return self._cards[rows[(since <= time) & (time < until)]]

    def spans(self, card: int) -> list[tuple[int, int]]:
        """When a card's fact holds, ascending; the end is FOREVER where it has none. Empty where it is not here."""
        start, row = self._found(card)
        if row is None:
            return []
        return [(span.since, span.until) for span in self._timeline(start).spans if span.fact == row - start]

    def successor(self, card: int) -> int | None:
        """The card that stands where this one ends; see domain.facts."""
        start, row = self._found(card)
        if row is None:
            return None
        known = self._timeline(start)
        after = successor(known.said, known.spans, row - start)
        return None if after is None else int(self._cards[start + after])

    def places(self) -> Iterator[tuple[list[int], list[Said]]]:
        """The cards and facts of each place that has several, in the order in which they were recorded."""
        for start, end in zip(self._starts.tolist(), self._ends.tolist(), strict=True):
            if end - start > 1:
                yield self._cards[start:end].tolist(), self._said(slice(start, end))

    def said(self, place: int) -> list[int]:
        """The cards of the facts of a place, by its hash."""
        first, last = (int(np.searchsorted(self._grouped, np.uint64(place), side)) for side in ("left", "right"))
        cards: list[int] = self._cards[first:last].tolist()
        return cards

    def triple(self, card: int) -> int:
        """The hash of a card's triple; the card must be here."""
        row = self._row(card)
        assert row is not None, "the card says no fact that is here"
        return int(self._triples[row])

    def beside(self, card: int) -> tuple[list[int], list[Said]]:
        """The cards and facts of a card's place; empty where it is not here."""
        start, row = self._found(card)
        if row is None:
            return [], []
        said = self._timeline(start).said
        return self._cards[start : start + len(said)].tolist(), said

    @cached_property
    def _worked_out(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Row, since and until of each span; and the rows of heads."""
        if not len(self._cards):
            return _NONE, _NONE, _NONE, _NONE
        plain = self._plain()
        inside = np.repeat(plain, self._ends - self._starts)
        until = self._until.copy()
        next_one = self._singular[:-1] & ~self._first[1:]
        until[:-1][next_one] = np.minimum(until[:-1], self._since[1:])[next_one]
        last = ~self._singular
        last[self._ends - 1] = True
        rows, newest = [np.flatnonzero(inside)], [np.flatnonzero(inside & last)]
        begins, ends = [self._since[rows[0]]], [until[rows[0]]]
        others = [(start, self._timeline(start)) for start in self._starts[~plain].tolist()]
        rows.append(_whole(start + span.fact for start, one in others for span in one.spans))
        begins.append(_whole(span.since for _, one in others for span in one.spans))
        ends.append(_whole(span.until for _, one in others for span in one.spans))
        newest.append(_whole(start + fact for start, one in others for fact in one.heads))
        return np.concatenate(rows), np.concatenate(begins), np.concatenate(ends), np.concatenate(newest)

    @cached_property
    def _first(self) -> NDArray[np.bool_]:
        """Whether a row is the first of its place."""
        first = np.zeros(len(self._cards), np.bool_)
        first[self._starts] = True
        return first

    def _plain(self) -> NDArray[np.bool_]:
        """For each place, whether each fact only closes the one before it, or all are plural and each is said once."""
        since, until, singular = self._since, self._until, self._singular
        follows = singular[1:] & singular[:-1] & (since[:-1] < since[1:])
        follows &= (until[:-1] <= since[1:]) | (until[1:] == FOREVER) | (until[1:] >= until[:-1])
        follows |= ~singular[1:] & ~singular[:-1] & ~self._again[1:]
        return np.logical_and.reduceat(np.append(True, follows) | self._first, self._starts)

    @cached_property
    def _again(self) -> NDArray[np.bool_]:
        """Whether a row says what another of its place says, from the same time on; for all but one of them."""
        order = np.lexsort((self._since, self._triples, np.cumsum(self._first)))
        same = np.zeros(len(order), np.bool_)
        one, other = order[:-1], order[1:]
        same[1:] = (self._triples[one] == self._triples[other]) & (self._since[one] == self._since[other])
        same[1:] &= np.cumsum(self._first)[one] == np.cumsum(self._first)[other]
        again = np.zeros(len(order), np.bool_)
        again[order] = same
        return again

    def _timeline(self, start: int) -> Timeline:
        """Of the place that begins in a row."""
        rows = slice(start, int(self._ends[np.searchsorted(self._starts, start)]))
        cards = self._cards[rows].tobytes()
        known = self._memo.get(cards)
        if known is None:
            said = self._said(rows)
            spans = timeline(said)
            known = Timeline(said, spans, heads(said, spans))
            if len(self._memo) >= MEMO_MAX:
                self._memo.clear()
            self._memo[cards] = known
        return known

    def _said(self, rows: slice) -> list[Said]:
        columns = (self._triples[rows], self._since[rows], self._until[rows], self._singular[rows])
        return [Said(*one) for one in zip(*(column.tolist() for column in columns), strict=True)]

    def _found(self, card: int) -> tuple[int, int | None]:
        """The first row of a card's place, and its own."""
        row = self._row(card)
        return 0 if row is None else int(self._starts[np.searchsorted(self._starts, row, "right") - 1]), row

    def _row(self, card: int) -> int | None:
        """Where a card's fact is; None where it is not here."""
        at = int(np.searchsorted(self._cards, card, sorter=self._by_card))
        row = int(self._by_card[at]) if at < len(self._by_card) else None
        return row if row is not None and self._cards[row] == card else None

    @cached_property
    def _by_card(self) -> NDArray[np.int64]:
        """The rows in the order of their cards."""
        return np.argsort(self._cards)


def _whole(numbers: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(numbers, np.int64)
