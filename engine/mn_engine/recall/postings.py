"""Postings: for each term hash, the cards that have it and a byte of weight, in few immutable segments.

A posting is one 64-bit number, hash << 32 | card << 8 | weight, so that building and merging are plain sorts of
integers: fast, and the same on every machine. Segments are merged geometrically, so that there are never more than a
few.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mn_contract.errors import ContextBudgetExceeded

CARDS_MAX: Final = 1 << 24
"""Cards of one run's index: what a posting has room for."""


class _Segment:
    """Sorted postings: hashes[i] has cards[starts[i]:starts[i+1]] with weights beside them."""

    __slots__ = ("cards", "hashes", "starts", "weights")

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        hashes = (keys >> np.uint64(32)).astype(np.uint32)
        self.weights = keys.astype(np.uint8)
        self.cards = (keys >> np.uint64(8)).astype(np.uint32) & np.uint32(CARDS_MAX - 1)
        first = np.flatnonzero(np.concatenate(([True], hashes[1:] != hashes[:-1]))) if len(keys) else np.zeros(0, int)
        self.hashes = hashes[first]
        self.starts = np.append(first, len(keys)).astype(np.uint32)

    def keys(self) -> NDArray[np.uint64]:
        """The numbers that this segment was built of."""
        hashes = np.repeat(self.hashes, np.diff(self.starts)).astype(np.uint64)
        return hashes << np.uint64(32) | self.cards.astype(np.uint64) << np.uint64(8) | self.weights

    @property
    def nbytes(self) -> int:
        return int(self.weights.nbytes + self.cards.nbytes + self.hashes.nbytes + self.starts.nbytes)

    def __len__(self) -> int:
        return len(self.cards)


class Postings:
    """An immutable set of segments; adding answers another one that shares them."""

    __slots__ = ("_segments",)

    def __init__(self, segments: tuple[_Segment, ...] = ()) -> None:
        self._segments = segments

    def extended(self, hashes: NDArray[np.uint32], cards: NDArray[np.uint32], weights: NDArray[np.uint8]) -> Postings:
        """These postings and more. Raises ContextBudgetExceeded where a run outgrows its index."""
        if not len(hashes):
            return self
        if int(cards[-1]) >= CARDS_MAX:
            raise ContextBudgetExceeded(
                f"a run's index holds at most {CARDS_MAX} cards; split the run", budget="cards", limit=CARDS_MAX
            )
        keys = hashes.astype(np.uint64)
        keys <<= np.uint64(32)
        keys |= cards.astype(np.uint64) << np.uint64(8)
        keys |= weights
        kept = list(self._segments)
        while kept and len(kept[-1]) < 2 * len(keys):
            keys = np.concatenate((kept.pop().keys(), keys))
        keys.sort()
        return Postings((*kept, _Segment(keys)))

    def find(self, hashed: int) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
        """(cards ascending, weights) of a hash."""
        found: list[tuple[Any, Any]] = []
        for segment in self._segments:
            at = int(np.searchsorted(segment.hashes, np.uint32(hashed)))
            if at < len(segment.hashes) and segment.hashes[at] == hashed:
                part = slice(int(segment.starts[at]), int(segment.starts[at + 1]))
                found.append((segment.cards[part], segment.weights[part]))
        if len(found) == 1:
            return found[0]
        if not found:
            return np.zeros(0, np.uint32), np.zeros(0, np.uint8)
        return np.concatenate([cards for cards, _ in found]), np.concatenate([weights for _, weights in found])

    @property
    def nbytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.nbytes for segment in self._segments)
