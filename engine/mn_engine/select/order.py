"""The one order in which optional cards are offered, whatever the budget (invariant 5).

Ranked cards are weighed in windows. Within a window, a card's utility is its score less its redundancy with what stands
before it (maximal marginal relevance); the window is then ordered by utility per byte, newest first among equals.
Integers throughout.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mn_contract.limits import DIVERSITY_WINDOW
from mn_engine.recall.index import NO_TERM
from mn_engine.recall.view import View

_REDUNDANCY_MAX: Final = 1024
_PENALTY_NUM, _PENALTY_DEN = 1, 2
"""A fully redundant card keeps half of its score; one with the very same text keeps nothing."""
_DENSITY_BITS: Final = 12


class Order:
    """The order of ranked places, worked out window by window as far as it is asked for."""

    def __init__(
        self, view: View, places: NDArray[np.uint32], scores: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> None:
        self._view = view
        self._places = places
        self._scores = scores
        self._sizes = sizes
        self._windows: list[NDArray[np.int64]] = []

    def rank_at(self, position: int) -> int:
        """Which ranked card (0 is the best) stands at `position` of the order."""
        window, inside = divmod(position, DIVERSITY_WINDOW)
        self._reach(window)
        return int(self._windows[window][inside])

    def head(self, positions: int) -> NDArray[np.int64]:
        """The ranked cards at the first `positions` of the order."""
        if not positions:
            return np.zeros(0, np.int64)
        self._reach((positions - 1) // DIVERSITY_WINDOW)
        return np.concatenate(self._windows)[:positions]

    def _reach(self, window: int) -> None:
        while len(self._windows) <= window:
            self._windows.append(self._ordered(len(self._windows) * DIVERSITY_WINDOW))

    def __len__(self) -> int:
        return len(self._places)

    def _ordered(self, first: int) -> NDArray[np.int64]:
        part = slice(first, min(first + DIVERSITY_WINDOW, len(self._places)))
        places, sizes = self._places[part], self._sizes[part]
        utilities = marginal_utilities(
            self._scores[part],
            self._view.index.sketches(places),
            self._view.column("text_hashes")[places],
        )
        density = (utilities << _DENSITY_BITS) // sizes
        return first + np.lexsort((-places.astype(np.int64), -density))


def marginal_utilities(
    scores: NDArray[np.int64], sketches: NDArray[np.uint32], text_hashes: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """What each card adds to those picked before it, greedily by what it adds; ties go to the better rank.

    `scores` are non-increasing; `sketches` has a row of term hashes a card.
    """
    count = len(scores)
    filled = np.count_nonzero(sketches != NO_TERM, axis=1)
    redundancy = np.zeros(count, np.int64)
    utilities = np.zeros(count, np.int64)
    waiting = np.ones(count, np.bool_)
    for _ in range(count):
        adds = np.where(waiting, _less(scores, redundancy), -1)
        picked = int(np.argmax(adds))
        utilities[picked] = adds[picked]
        waiting[picked] = False
        redundancy = np.maximum(redundancy, _redundancy(picked, sketches, filled))
        redundancy[text_hashes == text_hashes[picked]] = 2 * _REDUNDANCY_MAX
    return utilities


def _less(scores: NDArray[np.int64], redundancy: NDArray[np.int64]) -> NDArray[np.int64]:
    kept = np.maximum(_REDUNDANCY_MAX * _PENALTY_DEN - redundancy * _PENALTY_NUM, 0)
    return scores * kept // (_REDUNDANCY_MAX * _PENALTY_DEN)


def _redundancy(picked: int, sketches: NDArray[np.uint32], filled: NDArray[np.int64]) -> NDArray[np.int64]:
    """Jaccard similarity of every sketch with the picked one, in 1024ths."""
    mine = sketches[picked, : filled[picked]]
    if not len(mine):
        return np.zeros(len(sketches), np.int64)
    at = np.minimum(np.searchsorted(mine, sketches), len(mine) - 1)
    shared = np.count_nonzero(mine[at] == sketches, axis=1)
    similar: NDArray[np.int64] = _REDUNDANCY_MAX * shared // np.maximum(filled + len(mine) - shared, 1)
    return similar
