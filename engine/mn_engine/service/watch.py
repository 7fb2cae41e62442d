"""Watches: one fan-out from the store's commits to everybody who follows a run.

A commit only sets a number and wakes sleepers; each watcher reads the newest number when it wakes, so that a slow one
skips revisions and never holds up a write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Final

from mn_contract.errors import ContextBudgetExceeded, DependencyUnavailable
from mn_contract.limits import BUSY_RETRY_MS, WATCHES_MAX
from mn_engine.domain.deadlines import Expired
from mn_engine.domain.runs import RunState

_WAKE_SECONDS: Final = 0.5
"""How long a sleeper waits before it asks whether its caller is still there."""


class Watchers:
    """Everybody who follows a run. Thread-safe."""

    def __init__(self, watches_max: int = WATCHES_MAX) -> None:
        self._changed = threading.Condition()
        self._heads: dict[str, tuple[int, RunState]] = {}
        self._watching: dict[str, int] = {}
        self._watches_max = watches_max
        self._closed = False

    def on_commit(self, run_key: str, revision: int, state: RunState) -> None:
        """Told by the store. Remembers heads of watched runs only."""
        with self._changed:
            known = self._heads.get(run_key)
            if known is not None:
                self._heads[run_key] = (max(known[0], revision), max(known[1], state))
                self._changed.notify_all()

    def follow(
        self, run_key: str, head: Callable[[], tuple[int, RunState]], after: int, expired: Expired
    ) -> Iterator[tuple[int, RunState]]:
        """Heads above `after`, newest only, until the run closes or the caller goes.

        `head` is asked once the watch is known, so that no commit falls between. Raises ContextBudgetExceeded where too
        many watches are open.
        """
        self._enter(run_key)
        try:
            self.on_commit(run_key, *head())
            told = after
            while True:
                revision, state = self._next(run_key, told, expired)
                if revision > told or state is not RunState.OPEN:
                    told = revision
                    yield revision, state
                if state is not RunState.OPEN or expired():
                    return
        finally:
            self._leave(run_key)

    def close(self) -> None:
        """Ends every watch."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _enter(self, run_key: str) -> None:
        with self._changed:
            if sum(self._watching.values()) >= self._watches_max:
                raise ContextBudgetExceeded(
                    f"{self._watches_max} watches are open, which is the most; poll GetRun, or retry later",
                    budget="watches",
                    limit=self._watches_max,
                    retry_after_ms=BUSY_RETRY_MS,
                )
            self._watching[run_key] = self._watching.get(run_key, 0) + 1
            self._heads.setdefault(run_key, (0, RunState.OPEN))

    def _next(self, run_key: str, told: int, expired: Expired) -> tuple[int, RunState]:
        with self._changed:
            while True:
                if self._closed:
                    raise DependencyUnavailable("the engine is stopping", dependency="engine", retry_after_ms=1000)
                revision, state = self._heads[run_key]
                if revision > told or state is not RunState.OPEN or expired():
                    return revision, state
                self._changed.wait(_WAKE_SECONDS)

    def _leave(self, run_key: str) -> None:
        with self._changed:
            self._watching[run_key] -= 1
            if not self._watching[run_key]:
                del self._watching[run_key]
                del self._heads[run_key]
