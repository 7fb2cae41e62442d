"""Lookup: places of cards by a 64-bit hash, in few immutable sorted segments that snapshots share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class _Segment:
    hashes: NDArray[np.uint64]
    places: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.hashes)


@dataclass(frozen=True, slots=True)
class Lookup:
    """An immutable table; adding answers another one. Segments are merged geometrically, so there are few."""

    _segments: tuple[_Segment, ...] = ()

    def extended(self, hashes: NDArray[np.uint64], places: NDArray[np.uint32]) -> Lookup:
        """This table and more. `places` are ascending and above every place that is in it."""
        if not len(hashes):
            return self
        kept = list(self._segments)
        while kept and len(kept[-1]) < 2 * len(hashes):
            older = kept.pop()
            hashes, places = np.concatenate((older.hashes, hashes)), np.concatenate((older.places, places))
        order = np.argsort(hashes, kind="stable")
        return Lookup((*kept, _Segment(hashes[order], places[order])))

    def find(self, hashed: int) -> list[int]:
        """The places that have this hash, ascending."""
        wanted = np.uint64(hashed)
        found: list[int] = []
        for segment in self._segments:
            low, high = (
                np.searchsorted(segment.hashes, wanted, "left"),
                np.searchsorted(segment.hashes, wanted, "right"),
            )
            found.extend(segment.places[low:high].tolist())
        return sorted(found)

    def find_each(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """A place for each hash (the hashes of a table that holds each once); -1 where there is none."""
        found = np.full(len(hashes), -1, np.int64)
        for segment in self._segments:
            at = np.minimum(np.searchsorted(segment.hashes, hashes), len(segment) - 1)
            hit = segment.hashes[at] == hashes
            found[hit] = segment.places[at[hit]]
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of all segments."""
        return sum(int(segment.hashes.nbytes + segment.places.nbytes) for segment in self._segments)
