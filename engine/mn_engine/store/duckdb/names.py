"""What the writer keeps in memory of a run, so that it decides without asking the database.

Names are kept as 64-bit hashes, eight bytes each: a hash that is not there proves that the name is new, which is the
usual case. An event or a handle that is there is looked up exactly; a card is its hash, in relations and endings too,
so a second card of one hash is refused as if it had the first one's name. What is kept is bounded.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mn_engine.domain.artifacts import Artifact
from mn_engine.domain.hashes import hash64
from mn_engine.domain.runs import Run
from mn_engine.store.columns import acl_text

RUNS_MAX: Final = 256
NAMES_MAX: Final = 16_000_000
"""Hashes of all runs together: 128 MB."""
_TAIL_MAX: Final = 8192


class Hashes:
    """A set of 64-bit numbers: a sorted array and a small tail."""

    def __init__(self, base: NDArray[np.uint64]) -> None:
        self._base = np.sort(base)
        self._tail: set[int] = set()

    def __contains__(self, number: int) -> bool:
        if number in self._tail:
            return True
        at = int(np.searchsorted(self._base, np.uint64(number)))
        return at < len(self._base) and int(self._base[at]) == number

    def __len__(self) -> int:
        return len(self._base) + len(self._tail)

    def any_of(self, numbers: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of `numbers` are in the set."""
        found = np.isin(numbers, self._base)
        if self._tail:
            found |= np.isin(numbers, np.fromiter(self._tail, np.uint64, len(self._tail)))
        return found

    def add(self, numbers: Iterable[int]) -> None:
        """Adds numbers."""
        self._tail.update(numbers)
        if len(self._tail) > _TAIL_MAX:
            more = np.fromiter(self._tail, np.uint64, len(self._tail))
            self._base = np.sort(np.concatenate((self._base, more)))
            self._tail.clear()

    def add_array(self, numbers: NDArray[np.uint64]) -> None:
        """Adds many numbers."""
        self._base = np.sort(np.concatenate((self._base, numbers)))


@dataclass(slots=True)
class RunNames:
    """One run's head and names."""

    head: Run
    events: Hashes
    cards: Hashes
    handles: Hashes
    run_calls: int

    def names(self, kind: str) -> Hashes:
        """The names of a kind."""
        named: Hashes = getattr(self, kind)
        return named

    def __len__(self) -> int:
        return len(self.events) + len(self.cards) + len(self.handles)


@dataclass(slots=True)
class NamesCache:
    """Names by run, least recently used out first. Only the writer's thread uses it."""

    load: Callable[[str], RunNames]
    runs: OrderedDict[str, RunNames] = field(default_factory=OrderedDict)

    def of(self, run_key: str) -> RunNames:
        """The run's names, loaded where they are not at hand. Raises NotFound."""
        found = self.runs.get(run_key)
        if found is None:
            found = self.runs[run_key] = self.load(run_key)
            self._shrink()
        self.runs.move_to_end(run_key)
        return found

    def _shrink(self) -> None:
        names = sum(len(one) for one in self.runs.values())
        while len(self.runs) > 1 and (len(self.runs) > RUNS_MAX or names > NAMES_MAX):
            _, dropped = self.runs.popitem(last=False)
            names -= len(dropped)

    def forget(self) -> None:
        """Drops everything: after a failure the database is asked anew."""
        self.runs.clear()


def event_hash(owner: str, key: str) -> int:
    """64 bits that stand for an event's name."""
    return hash64(f"{owner}\0{key}")


def sha_hash(sha256: str) -> int:
    """64 bits that stand for an artifact."""
    return int(sha256[:16], 16)


def handle_hash(handle: Artifact) -> int:
    """64 bits that stand for a handle."""
    return hash64("\0".join((handle.sha256, handle.media_type, handle.owner, acl_text(handle.acl))))
