"""Segments: the immutable pieces that postings are made of, sorted or (at first) not.

Sorting what a whole record has takes longer than reading it, and the first question needs a few terms only. So a large
segment starts unsorted and is scanned, in one pass for all terms of a question; once it has been asked often enough to
be worth it, it sorts itself. Either way it answers the same, so nothing depends on when that happens (invariant 5).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

CARD_BITS: Final = 24
CARDS_MAX: Final = 1 << CARD_BITS
"""Cards of one run's index: what a posting has room for beside a hash of 32 bits and a weight of 8."""
Found = tuple[NDArray[np.uint32], NDArray[np.uint8]]
"""(cards ascending, their weights)."""


class Segment(Protocol):
    """Postings of cards next to each other."""

    def find(self, hashes: NDArray[np.uint32]) -> dict[int, Found]:
        """The postings of hashes, by the hash's place among them; those that have none are left out."""

    def packed(self) -> NDArray[np.uint64]:
        """All postings as numbers, in any order."""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""

    def __len__(self) -> int: ...


def pack(hashes: NDArray[np.uint32], cards: NDArray[np.uint32], weights: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Postings as numbers, hash << 32 | card << 8 | weight: their order is by hash, then by card."""
    packed = np.empty(len(hashes), "<u8")
    halves = packed.view("<u4").reshape(-1, 2)
    halves[:, 1] = hashes
    np.left_shift(cards, np.uint32(8), out=halves[:, 0])
    halves[:, 0] |= weights
    return packed


@dataclass(frozen=True, slots=True)
class Sorted:
    """hashes[i] has cards[starts[i]:starts[i+1]], with weights beside them."""

    hashes: NDArray[np.uint32]
    starts: NDArray[np.uint32]
    cards: NDArray[np.uint32]
    weights: NDArray[np.uint8]

    @classmethod
    def of(cls, packed: NDArray[np.uint64]) -> Sorted:
        """The segment of these postings. Sorts `packed` in place."""
        packed.sort()
        halves = packed.view("<u4").reshape(-1, 2)
        hashes, low = halves[:, 1], halves[:, 0]
        new = np.empty(len(packed), np.bool_)
        new[:1] = True
        np.not_equal(hashes[1:], hashes[:-1], out=new[1:])
        first = np.flatnonzero(new)
        starts = np.append(first, len(packed)).astype(np.uint32)
        return cls(hashes[first], starts, low >> np.uint32(8), low.astype(np.uint8))

    def find(self, hashes: NDArray[np.uint32]) -> dict[int, Found]:
        """See Segment."""
        if not len(self.hashes):
            return {}
        at = np.minimum(self.hashes.searchsorted(hashes), len(self.hashes) - 1)
        there = np.flatnonzero(self.hashes[at] == hashes)
        starts, ends = self.starts[at[there]].tolist(), self.starts[at[there] + 1].tolist()
        return {
            place: (self.cards[start:end], self.weights[start:end])
            for place, start, end in zip(there.tolist(), starts, ends, strict=True)
        }

    def packed(self) -> NDArray[np.uint64]:
        """See Segment."""
        return pack(np.repeat(self.hashes, np.diff(self.starts)), self.cards, self.weights)

    @property
    def nbytes(self) -> int:
        """See Segment."""
        return int(self.weights.nbytes + self.cards.nbytes + self.hashes.nbytes + self.starts.nbytes)

    def __len__(self) -> int:
        return len(self.cards)


@dataclass(frozen=True, slots=True)
class Unsorted:
    """Postings as they were stored: card `first` + i has hashes[starts[i]:starts[i+1]], with weights beside them."""

    hashes: NDArray[np.uint32]
    weights: NDArray[np.uint8]
    first: int
    starts: NDArray[np.uint32]

    @classmethod
    def of(cls, hashes: NDArray[np.uint32], cards: NDArray[np.uint32], weights: NDArray[np.uint8]) -> Unsorted:
        """The segment of these postings, at least one, ascending by card. Keeps `hashes` and `weights` as they are."""
        first = int(cards[0])
        starts = np.searchsorted(cards, np.arange(first, int(cards[-1]) + 2, dtype=np.uint32))
        return cls(hashes, weights, first, starts.astype(np.uint32))

    def find(self, hashes: NDArray[np.uint32]) -> dict[int, Found]:
        """See Segment."""
        found = {}
        # One pass for all of them: what shares its lower half with one is looked at again.
        wanted = np.zeros(1 << 16, np.bool_)
        wanted[hashes & np.uint32(0xFFFF)] = True
        near = np.flatnonzero(wanted[self.hashes.astype("<u4", copy=False).view("<u2")[::2]])
        alike = self.hashes[near]
        for place, hashed in enumerate(hashes):
            at = near[alike == hashed]
            if len(at):
                rows = np.searchsorted(self.starts, at.astype(np.uint32), "right") - 1
                found[place] = (rows + self.first).astype(np.uint32), self.weights[at]
        return found

    def packed(self) -> NDArray[np.uint64]:
        """See Segment."""
        rows = np.arange(self.first, self.first + len(self.starts) - 1, dtype=np.uint32)
        return pack(self.hashes, np.repeat(rows, np.diff(self.starts)), self.weights)

    @property
    def nbytes(self) -> int:
        """See Segment."""
        return int(self.hashes.nbytes + self.weights.nbytes + self.starts.nbytes)

    def __len__(self) -> int:
        return len(self.hashes)


class Sorting:
    """A segment that is unsorted for its first `patience` look-ups, and sorted from then on. Thread-safe."""

    __slots__ = ("_lock", "_now", "_patience")

    def __init__(self, unsorted: Unsorted, patience: int) -> None:
        self._now: Sorted | Unsorted = unsorted
        self._patience = patience
        self._lock = threading.Lock()

    def find(self, hashes: NDArray[np.uint32]) -> dict[int, Found]:
        """See Segment. One thread sorts; others go on scanning."""
        if isinstance(self._now, Unsorted) and self._lock.acquire(blocking=False):
            try:
                self._patience -= 1
                if self._patience < 0 and isinstance(self._now, Unsorted):
                    self._now = Sorted.of(self._now.packed())
            finally:
                self._lock.release()
        return self._now.find(hashes)

    def packed(self) -> NDArray[np.uint64]:
        """See Segment."""
        return self._now.packed()

    @property
    def nbytes(self) -> int:
        """See Segment."""
        return self._now.nbytes

    def __len__(self) -> int:
        return len(self._now)
