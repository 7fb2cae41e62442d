"""The newest heads of the runs in use, so that asking for one costs no query.

What a commit made is always newer than what a reader found meanwhile: a reader's find is kept only where nothing was
committed since it began to look.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from mn_engine.domain.runs import Run

HEADS_MAX: Final = 10_000


class Heads:
    """Heads by run, a bounded number of them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heads: dict[str, Run] = {}
        self._commits = 0

    def get(self, run_key: str, find: Callable[[], Run]) -> Run:
        """The run's head, found where it is not at hand. Raises what `find` raises."""
        head = self._heads.get(run_key)
        if head is not None:
            return head
        began = self._commits
        found = find()
        with self._lock:
            if self._commits == began:
                self._put(run_key, found)
            return self._heads.get(run_key, found)

    def commit(self, heads: Mapping[str, Run]) -> None:
        """Keeps heads that are durable now."""
        with self._lock:
            self._commits += 1
            for run_key, head in heads.items():
                self._put(run_key, head)

    def forget(self) -> None:
        """Drops everything."""
        with self._lock:
            self._commits += 1
            self._heads.clear()

    def _put(self, run_key: str, head: Run) -> None:
        self._heads.pop(run_key, None)
        self._heads[run_key] = head
        while len(self._heads) > HEADS_MAX:
            del self._heads[next(iter(self._heads))]
