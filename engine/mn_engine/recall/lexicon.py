"""Words near each other in meaning, by the hashes that analysis gives them: a question reaches cards that say it in
other words.

The words and their vectors are fixed for a version, so nothing is stored with cards: a term of a question is widened to
its neighbours, and these are looked up as any term. Vectors are small integers. Their products are sums of at most
LENGTH squared, which single precision holds exactly in any order, so that every processor finds the same neighbours
(invariant 5).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

LENGTH: Final = 512
"""The Euclidean length of a vector, as far as rounding and cutting at a byte allow."""
COSINE_BITS: Final = 10
"""Fraction bits of a cosine."""
NEIGHBOURS_MAX: Final = 10
_NEAR: Final = 410
"""0.4: the least cosine of a neighbour."""
_CACHE_MAX: Final = 4096
Neighbour = tuple[int, int]
"""(term hash, cosine in 1024ths)."""


class Lexicon:
    """Neighbours of words. Thread-safe."""

    def __init__(self, version: str, hashes: Sequence[int], vectors: NDArray[np.int8]) -> None:
        assert len(hashes) == len(vectors) == len(set(hashes))
        self.version = version
        order = np.argsort(np.asarray(hashes, np.uint32), kind="stable")
        self._hashes = np.asarray(hashes, np.uint32)[order]
        self._vectors = vectors[order].astype(np.float32)
        self._known: dict[int, tuple[Neighbour, ...]] = {}
        self._lock = threading.Lock()

    @classmethod
    def empty(cls) -> Lexicon:
        """No words: questions stay as they are."""
        return cls("none", [], np.zeros((0, 1), np.int8))

    def near(self, hashed: int) -> tuple[Neighbour, ...]:
        """At most NEIGHBOURS_MAX neighbours of a word, nearest first; none where it is not known."""
        known = self._known.get(hashed)
        if known is None:
            known = self._found(hashed)
            with self._lock:
                if len(self._known) >= _CACHE_MAX:
                    self._known.clear()
                self._known[hashed] = known
        return known

    def __len__(self) -> int:
        return len(self._hashes)

    def _found(self, hashed: int) -> tuple[Neighbour, ...]:
        at = int(np.searchsorted(self._hashes, np.uint32(hashed)))
        if at == len(self._hashes) or int(self._hashes[at]) != hashed:
            return ()
        cosines = (self._vectors @ self._vectors[at]).astype(np.int64) * (1 << COSINE_BITS) // LENGTH**2
        near = np.flatnonzero(cosines >= _NEAR)
        near = near[near != at]
        best = near[np.lexsort((near, -cosines[near]))][:NEIGHBOURS_MAX]
        return tuple((int(self._hashes[place]), int(cosines[place])) for place in best)


def quantized(sums: NDArray[np.int64]) -> NDArray[np.int8]:
    """Rows of integers as vectors of LENGTH, in integers all the way."""
    lengths = np.maximum(_roots((sums * sums).sum(axis=1)), 1)[:, None]
    scaled = (2 * sums * LENGTH + lengths) // (2 * lengths)
    vectors: NDArray[np.int8] = np.clip(scaled, -127, 127).astype(np.int8)
    return vectors


def _roots(squares: NDArray[np.int64]) -> NDArray[np.int64]:
    """floor(sqrt(x)), exactly: Newton's method from above."""
    roots = np.maximum(squares, 1)
    while True:
        better = (roots + squares // roots) >> 1
        if (better >= roots).all():
            return roots
        roots = np.minimum(roots, np.maximum(better, 1))
