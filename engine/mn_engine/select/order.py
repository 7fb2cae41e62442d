"""The one order in which optional cards are offered, whatever the budget (invariant 5).

Ranked cards are weighed in windows. Within a window, a card's utility is its score less its redundancy with what was
picked before it (maximal marginal relevance); the window is then ordered by utility per byte, newest first among
equals. Windows do not know of each other, so a page deep in the order costs no more than the first. Integers
throughout.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mn_contract.limits import DIVERSITY_WINDOW
from mn_engine.recall.index import NO_TERM
from mn_engine.recall.view import View

_REDUNDANCY_ONE: Final = 1024
"""Redundancy of a card all of whose sketched terms were picked before."""
_PENALTY_DEN: Final = 2
"""A fully redundant card keeps 1 - 1/2 of its score; one with the very same text keeps nothing."""
_REDUNDANCY_SAME: Final = _PENALTY_DEN * _REDUNDANCY_ONE
_DENSITY_BITS: Final = 12
_WORD_BITS: Final = 64
_ROW_BITS: Final = np.uint64(16)
_ROW_MASK: Final = np.uint64((1 << 16) - 1)
_PICKED: Final = -1
"""A score below any card's."""


class Order:
    """The order of ranked cards, worked out window by window as far as it is asked for."""

    def __init__(self, view: View, places: NDArray[Any], scores: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
        self._view = view
        self._places = places
        self._scores = scores
        self._sizes = sizes
        self._windows: dict[int, list[int]] = {}

    def window(self, number: int) -> list[int]:
        """The ranks (0 is the best) of a window, in the order in which they are offered."""
        if number not in self._windows:
            self._windows[number] = self._ordered(number * DIVERSITY_WINDOW)
        return self._windows[number]

    def _ordered(self, first: int) -> list[int]:
        part = slice(first, first + DIVERSITY_WINDOW)
        places = self._places[part]
        utilities = marginal_utilities(
            self._scores[part], self._view.index.sketches(places), self._view.column("text_hashes")[places]
        )
        density = (utilities << _DENSITY_BITS) // self._sizes[part]
        ranks: list[int] = (first + np.lexsort((-places.astype(np.int64), -density))).tolist()
        return ranks


def marginal_utilities(
    scores: NDArray[np.int64], sketches: NDArray[np.uint32], text_hashes: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """What each card adds to those picked before it, greedily by what it adds; ties go to the better rank.

    `scores` are not negative; `sketches` has a row of distinct term hashes a card, padded with NO_TERM.
    """
    utilities = np.zeros(len(scores), np.int64)
    distinct = _REDUNDANCY_SAME - similarities(sketches)
    if len(np.unique(text_hashes)) < len(text_hashes):
        distinct[text_hashes[:, None] == text_hashes] = 0
    waiting = scores.astype(np.int64)
    kept = np.full(len(scores), _REDUNDANCY_SAME, np.int64)
    adds = waiting * kept
    for _ in range(len(scores)):
        picked = int(adds.argmax())
        most = adds[picked]
        if most <= 0:  # what is left adds nothing
            break
        utilities[picked] = most
        waiting[picked] = _PICKED
        np.minimum(kept, distinct[picked], out=kept)
        np.multiply(waiting, kept, out=adds)
    return utilities // _REDUNDANCY_SAME


def similarities(sketches: NDArray[np.uint32]) -> NDArray[np.int64]:
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
    return quotients.astype(np.int64)


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
