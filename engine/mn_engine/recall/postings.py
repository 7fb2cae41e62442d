"""Postings: for each term hash, the cards that have it and a byte of weight, in few immutable segments.

A posting is one 64-bit number, hash << 32 | card << 8 | weight, so that building and merging are plain sorts of
integers: fast, and the same on every machine. Segments are merged geometrically, so there are never more than a few.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

CARDS_MAX: Final = 1 << 24
"""Cards of one run's index: what a posting has room for."""


@dataclass(frozen=True, slots=True)
class _Segment:
    """hashes[i] has cards[starts[i]:starts[i+1]], with weights beside them."""

    hashes: NDArray[np.uint32]
    starts: NDArray[np.uint32]
    cards: NDArray[np.uint32]
    weights: NDArray[np.uint8]

    @classmethod
    def of(cls, keys: NDArray[np.uint64]) -> _Segment:
        """The segment of sorted postings."""
        halves = keys.view(np.uint32).reshape(-1, 2)  # little-endian, as all that is stored: low half first
        hashes, low = halves[:, 1], halves[:, 0]
        new = np.empty(len(keys), np.bool_)
        new[:1] = True
        np.not_equal(hashes[1:], hashes[:-1], out=new[1:])
        first = np.flatnonzero(new)
        return cls(
            hashes[first], np.append(first, len(keys)).astype(np.uint32), low >> np.uint32(8), low.astype(np.uint8)
        )

    def packed(self) -> NDArray[np.uint64]:
        """The postings that this segment was built of."""
        hashes = np.repeat(self.hashes, np.diff(self.starts))
        return _keys(hashes, self.cards, self.weights)

    @property
    def nbytes(self) -> int:
        return int(self.weights.nbytes + self.cards.nbytes + self.hashes.nbytes + self.starts.nbytes)

    def __len__(self) -> int:
        return len(self.cards)


@dataclass(frozen=True, slots=True)
class Postings:
    """An immutable set of segments, older cards first; adding answers another one that shares them."""

    _segments: tuple[_Segment, ...] = ()

    def extended(self, hashes: NDArray[np.uint32], cards: NDArray[np.uint32], weights: NDArray[np.uint8]) -> Postings:
        """These postings and more, of cards from below CARDS_MAX and above all that are in them; in any order."""
        if not len(hashes):
            return self
        keys = _keys(hashes, cards, weights)
        kept = list(self._segments)
        while kept and len(kept[-1]) < 2 * len(keys):
            keys = np.concatenate((kept.pop().packed(), keys))
        keys.sort()
        return Postings((*kept, _Segment.of(keys)))

    def find(self, hashed: int) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
        """(cards ascending, weights) of a hash."""
        cards, weights = [_NO_CARDS], [_NO_WEIGHTS]
        for segment in self._segments:
            at = int(np.searchsorted(segment.hashes, np.uint32(hashed)))
            if at < len(segment.hashes) and segment.hashes[at] == hashed:
                part = slice(int(segment.starts[at]), int(segment.starts[at + 1]))
                cards.append(segment.cards[part])
                weights.append(segment.weights[part])
        if len(cards) <= 2:
            return cards[-1], weights[-1]
        return np.concatenate(cards), np.concatenate(weights)

    @property
    def nbytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.nbytes for segment in self._segments)


_NO_CARDS: Final[NDArray[np.uint32]] = np.zeros(0, np.uint32)
_NO_WEIGHTS: Final[NDArray[np.uint8]] = np.zeros(0, np.uint8)


def _keys(hashes: NDArray[np.uint32], cards: NDArray[np.uint32], weights: NDArray[np.uint8]) -> NDArray[np.uint64]:
    keys = np.empty(len(hashes), "<u8")
    halves = keys.view("<u4").reshape(-1, 2)
    halves[:, 1] = hashes
    np.left_shift(cards, np.uint32(8), out=halves[:, 0])
    halves[:, 0] |= weights
    return keys
