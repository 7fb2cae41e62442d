"""The one order in which optional cards are offered, whatever the budget (invariant 5).

Ranked cards are weighed in windows. Within a window, a card's utility is its score less its redundancy with what ranks
above it (marginal relevance); the window is then ordered by utility per byte, newest first among equals. Windows do not
know of each other, so a page deep in the order costs no more than the first. Integers throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mn_contract.limits import DIVERSITY_WINDOW
from mn_engine.recall.index import NO_TERM
from mn_engine.recall.view import Links, View

_ONE_BITS: Final = 10
_REDUNDANCY_ONE: Final = 1 << _ONE_BITS
"""Redundancy of a card all of whose sketched terms a better one has."""
_REDUNDANCY_SAME: Final = 2 * _REDUNDANCY_ONE
"""Of a card with the very same text as a better one."""
_PENALTY: Final = 512
"""What a fully redundant card loses of its score, in 1024ths; one with the very same text loses all of it."""
_DENSITY_BITS: Final = 12
_WORD_BITS: Final = 64
_ROW_BITS: Final = np.uint64(16)
_ROW_MASK: Final = np.uint64((1 << 16) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A card's utility, its redundancy with those that rank above it in 1024ths (2048: the very same text), and its
    place in the order in which cards are offered, from 1."""

    utility: int
    redundancy: int
    offered: int


class Order:
    """The order of ranked cards, worked out window by window as far as it is asked for.

    Cards at `preferred` places come first in their window, in that order. `penalty` is what a fully redundant card
    loses of its score, in 1024ths.
    """

    def __init__(
        self,
        view: View,
        places: NDArray[Any],
        scores: NDArray[np.int64],
        sizes: NDArray[np.int64],
        preferred: Sequence[int] = (),
        *,
        penalty: int = _PENALTY,
    ) -> None:
        self._penalty = penalty
        self._preferred = {place: turn for turn, place in enumerate(preferred)}
        self._view = view
        self._places = places
        self._scores = scores
        self._sizes = sizes
        self._windows: dict[int, list[int]] = {}
        self._utilities: dict[int, NDArray[np.int64]] = {}

    def window(self, number: int) -> list[int]:
        """The ranks (0 is the best) of a window, in the order in which they are offered."""
        if number not in self._windows:
            self._windows[number] = self._ordered(number * DIVERSITY_WINDOW)
        return self._windows[number]

    def utilities(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """What each card adds to those that rank above it in its window."""
        found = np.zeros(len(ranks), np.int64)
        windows = ranks // DIVERSITY_WINDOW
        for number in np.unique(windows).tolist():
            self.window(number)
            inside = windows == number
            found[inside] = self._utilities[number][ranks[inside] % DIVERSITY_WINDOW]
        return found

    def weighed(self, rank: int) -> Weighed:
        """How a card was weighed."""
        number = rank // DIVERSITY_WINDOW
        place = self.window(number).index(rank)
        utility, score = int(self.utilities(np.asarray([rank]))[0]), int(self._scores[rank])
        kept = -(-utility * _REDUNDANCY_SAME // score) if score else _REDUNDANCY_SAME
        return Weighed(
            utility=utility, redundancy=_REDUNDANCY_SAME - kept, offered=number * DIVERSITY_WINDOW + place + 1
        )

    def _ordered(self, first: int) -> list[int]:
        part = slice(first, first + DIVERSITY_WINDOW)
        places = self._places[part]
        utilities = marginal_utilities(
            self._scores[part],
            self._view.index.sketches(places),
            self._view.column("text_hashes")[places],
            opposed=_among(places, self._view.links),
            penalty=self._penalty,
        )
        self._utilities[first // DIVERSITY_WINDOW] = utilities
        density = (utilities << _DENSITY_BITS) // self._sizes[part]
        ranks: list[int] = (first + np.lexsort((-places.astype(np.int64), -density))).tolist()
        if self._preferred:
            last = len(self._preferred)
            ranks.sort(key=lambda rank: self._preferred.get(int(self._places[rank]), last))
        return ranks


def marginal_utilities(
    scores: NDArray[np.int64],
    sketches: NDArray[np.uint32],
    text_hashes: NDArray[np.uint64],
    *,
    opposed: tuple[NDArray[np.int64], NDArray[np.int64]],
    penalty: int = _PENALTY,
) -> NDArray[np.int64]:
    """What each card adds to those that stand before it, the best first.

    `scores` are not negative; `sketches` has a row of distinct term hashes a card, padded with NO_TERM. `opposed` pairs
    cards that contradict each other: whatever words they share, neither says what the other does (invariant 3).
    """
    redundancy = similarities(sketches)
    if len(np.unique(text_hashes)) < len(text_hashes):
        redundancy[text_hashes[:, None] == text_hashes] = _REDUNDANCY_SAME
    redundancy[opposed] = 0
    most = np.tril(redundancy, -1).max(axis=1, initial=0)
    lost = np.where(most == _REDUNDANCY_SAME, 1 << 2 * _ONE_BITS, most.astype(np.int64) * penalty)
    utilities: NDArray[np.int64] = scores.astype(np.int64) * ((1 << 2 * _ONE_BITS) - lost) >> 2 * _ONE_BITS
    return utilities


def _among(places: NDArray[np.uint32], links: Links) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of these cards are linked with each other, both ways, as places in `places`."""
    ones, others = links
    if not len(ones):
        return links
    inside = np.isin(ones, places) & np.isin(others, places)
    order = np.argsort(places)
    at, beside = (order[np.searchsorted(places[order], side[inside])] for side in links)
    return at, beside


def similarities(sketches: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Jaccard similarity of every two sketches, in 1024ths; of a sketch with itself it says nothing."""
    shared = np.zeros((len(sketches), len(sketches)), np.uint8)
    for column in np.ascontiguousarray(_bit_rows(sketches).T):
        shared += np.bitwise_count(column[:, None] & column)
    filled = np.count_nonzero(sketches != NO_TERM, axis=1).astype(np.float32)
    joined = filled[:, None] + filled
    joined -= shared
    np.maximum(joined, 1, out=joined)
    # Single precision is exact here: the numbers are small, and a quotient that is not whole is far from one that is.
    quotients = np.float32(_REDUNDANCY_ONE) * shared
    quotients /= joined
    return quotients.astype(np.int32)


def _bit_rows(sketches: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """A row of words a sketch, with a bit for each term that several sketches hold."""
    keys = sketches.astype(np.uint64) << _ROW_BITS | np.arange(len(sketches), dtype=np.uint64)[:, None]
    keys = np.sort(keys[sketches != NO_TERM])
    hashes = keys >> _ROW_BITS
    again = np.zeros(len(hashes), np.bool_)
    np.equal(hashes[1:], hashes[:-1], out=again[1:])
    common = again.copy()
    common[:-1] |= again[1:]
    rows = (keys[common] & _ROW_MASK).astype(np.int64)
    columns = np.cumsum(~again[common]) - 1
    width = (int(columns[-1]) // _WORD_BITS + 1) * _WORD_BITS if len(columns) else _WORD_BITS
    bits = np.zeros((len(sketches), width), np.bool_)
    bits[rows, columns] = True
    return np.packbits(bits, axis=1).view(np.uint64)
