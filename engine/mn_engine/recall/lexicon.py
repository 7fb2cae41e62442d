"""Words near each other in meaning, by the hashes that analysis gives them: a question reaches cards that say it in
other words.

The words and their vectors are fixed for a version, so nothing is stored with cards: a term of a question is widened to
its neighbours, and these are looked up as any term.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mn_engine.recall.vectors import cosines

NEIGHBOURS_MAX: Final = 10
_NEAR: Final = 410
"""0.4: the least cosine of a neighbour."""
_CACHE_MAX: Final = 4096
Neighbour = tuple[int, int]
"""(term hash, cosine in 1024ths)."""


class Lexicon:
    """Neighbours of words. Thread-safe."""

    def __init__(self, hashes: Sequence[int], vectors: NDArray[np.int8]) -> None:
        assert len(hashes) == len(vectors) == len(set(hashes))
        order = np.argsort(np.asarray(hashes, np.uint32), kind="stable")
        self._hashes = np.asarray(hashes, np.uint32)[order]
        self._vectors = vectors[order]
        self._known: dict[int, tuple[Neighbour, ...]] = {}
        self._lock = threading.Lock()

    @classmethod
    def empty(cls) -> Lexicon:
        """No words: questions stay as they are."""
        return cls([], np.zeros((0, 1), np.int8))

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
        near_to = cosines(self._vectors, self._vectors[at])
        near = np.flatnonzero(near_to >= _NEAR)
        near = near[near != at]
        best = near[np.lexsort((near, -near_to[near]))][:NEIGHBOURS_MAX]
        return tuple((int(self._hashes[place]), int(near_to[place])) for place in best)
