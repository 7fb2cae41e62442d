"""Postings: for each term hash, the cards that have it and a byte of weight, in few immutable segments.

A segment is grouped by the upper half of the hash, by one stable radix pass over 16 bits: the same on every machine,
and several times faster than sorting the postings, which a reopened record waits for. A look-up scans one group for the
lower half. Segments are merged geometrically, so there are never more than a few.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

CARDS_MAX: Final = 1 << 24
"""Cards of one run's index: what the places of cards have room for."""
_HALF: Final = 16


@dataclass(frozen=True, slots=True)
class _Segment:
    """Group i has the postings starts[i]:starts[i+1] of hashes whose upper half is uppers[i], ascending by card."""

    uppers: NDArray[np.uint16]
    starts: NDArray[np.uint32]
    lowers: NDArray[np.uint16]
    cards: NDArray[np.uint32]
    weights: NDArray[np.uint8]

    @classmethod
    def of(
        cls,
        uppers: NDArray[np.uint16],
        lowers: NDArray[np.uint16],
        cards: NDArray[np.uint32],
        weights: NDArray[np.uint8],
    ) -> _Segment:
        """The segment of postings whose cards ascend within each hash."""
        order = np.argsort(uppers, kind="stable")
        grouped = uppers[order]
        new = np.empty(len(grouped), np.bool_)
        new[:1] = True
        np.not_equal(grouped[1:], grouped[:-1], out=new[1:])
        first = np.flatnonzero(new)
        starts = np.append(first, len(grouped)).astype(np.uint32)
        return cls(grouped[first], starts, lowers[order], cards[order], weights[order])

    def all_uppers(self) -> NDArray[np.uint16]:
        """The upper half of each posting."""
        return np.repeat(self.uppers, np.diff(self.starts))

    def find(self, hashed: int) -> tuple[NDArray[np.uint32], NDArray[np.uint8]] | None:
        """(cards ascending, weights) of a hash; None where it has none."""
        upper = np.uint16(hashed >> _HALF)
        at = int(np.searchsorted(self.uppers, upper))
        if at == len(self.uppers) or self.uppers[at] != upper:
            return None
        group = slice(int(self.starts[at]), int(self.starts[at + 1]))
        hits = np.flatnonzero(self.lowers[group] == np.uint16(hashed & 0xFFFF))
        return (self.cards[group][hits], self.weights[group][hits]) if len(hits) else None

    @property
    def nbytes(self) -> int:
        parts = (self.uppers, self.starts, self.lowers, self.cards, self.weights)
        return sum(int(part.nbytes) for part in parts)

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
        if np.any(cards[1:] < cards[:-1]):
            order = np.argsort(cards, kind="stable")
            hashes, cards, weights = hashes[order], cards[order], weights[order]
        uppers = (hashes >> np.uint32(_HALF)).astype(np.uint16)
        lowers = hashes.astype(np.uint16)
        kept = list(self._segments)
        while kept and len(kept[-1]) < 2 * len(cards):
            older = kept.pop()
            uppers = np.concatenate((older.all_uppers(), uppers))
            lowers = np.concatenate((older.lowers, lowers))
            cards = np.concatenate((older.cards, cards))
            weights = np.concatenate((older.weights, weights))
        return Postings((*kept, _Segment.of(uppers, lowers, cards, weights)))

    def find(self, hashed: int) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
        """(cards ascending, weights) of a hash."""
        found = [hit for segment in self._segments if (hit := segment.find(hashed)) is not None]
        if len(found) == 1:
            return found[0]
        if not found:
            return _NO_CARDS, _NO_WEIGHTS
        return np.concatenate([cards for cards, _ in found]), np.concatenate([weights for _, weights in found])

    @property
    def nbytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.nbytes for segment in self._segments)


_NO_CARDS: Final[NDArray[np.uint32]] = np.zeros(0, np.uint32)
_NO_WEIGHTS: Final[NDArray[np.uint8]] = np.zeros(0, np.uint8)
