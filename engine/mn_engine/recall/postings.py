"""Postings: for each term hash, the cards that have it and a byte of weight, in few immutable segments.

Building and merging are plain sorts of integers: fast, and the same on every machine. Small segments are merged
geometrically, so there are never many; a large addition (a record that is opened, a bulk event) becomes segments that
sort themselves one after another as they are used, so that no single question waits for all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mn_engine.recall.segments import Found, Segment, Sorted, Sorting, Unsorted, pack

_LARGE: Final = 1 << 19
"""From here on an addition is worth scanning first: sorting so many postings takes some 30 ms."""
_PIECES_MAX: Final = 8
_PATIENCE: Final = 2
"""Look-ups before an addition's first piece is sorted, and between one piece and the next; a question makes one."""


@dataclass(frozen=True, slots=True)
class Postings:
    """An immutable sequence of segments, older cards first; adding answers another one that shares them."""

    _segments: tuple[Segment, ...] = ()

    def extended(self, hashes: NDArray[np.uint32], cards: NDArray[np.uint32], weights: NDArray[np.uint8]) -> Postings:
        """These postings and more: ascending by card, of cards below CARDS_MAX and above all that are in them."""
        if not len(hashes):
            return self
        if len(hashes) >= _LARGE:
            return Postings((*self._segments, *_pieces(hashes, cards, weights)))
        packed = pack(hashes, cards, weights)
        kept = list(self._segments)
        while kept and len(kept[-1]) < min(2 * len(packed), _LARGE):
            packed = np.concatenate((kept.pop().packed(), packed))
        return Postings((*kept, Sorted.of(packed)))

    def find(self, hashes: Sequence[int]) -> tuple[NDArray[np.uint32], NDArray[np.uint8], list[int]]:
        """(cards, weights) of the hashes, one hash's after another's and ascending by card, and how many each has."""
        wanted = np.asarray(hashes, np.uint32)
        pieces: list[list[Found]] = [[] for _ in hashes]
        for segment in self._segments:
            for place, found in segment.find(wanted).items():
                pieces[place].append(found)
        counts = [sum(len(cards) for cards, _ in some) for some in pieces]
        flat = [piece for some in pieces for piece in some] or [_NOTHING]
        return np.concatenate([cards for cards, _ in flat]), np.concatenate([weights for _, weights in flat]), counts

    @property
    def nbytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.nbytes for segment in self._segments)


_NOTHING: Final[Found] = (np.zeros(0, np.uint32), np.zeros(0, np.uint8))


def _pieces(hashes: NDArray[np.uint32], cards: NDArray[np.uint32], weights: NDArray[np.uint8]) -> list[Segment]:
    """A large addition, cut between cards."""
    size = max(_LARGE, -(-len(hashes) // _PIECES_MAX))
    cuts = np.searchsorted(cards, cards[np.arange(0, len(cards), size)]).tolist()  # where those cards begin
    ends = [*cuts[1:], len(hashes)]
    return [
        Sorting(Unsorted.of(hashes[start:end], cards[start:end], weights[start:end]), _PATIENCE * (place + 1))
        for place, (start, end) in enumerate(zip(cuts, ends, strict=True))
        if end > start
    ]
