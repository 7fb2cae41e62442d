"""Which runs have had no relation and no ending for a while: catching up with them costs no query for either."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Final

RUNS_MAX: Final = 10_000


class Links:
    """The newest revision of each run that may have relations or endings, as far as it is known. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[str, int] = {}

    def none_after(self, run_key: str, revision: int) -> bool:
        """Whether no later revision has any, for sure."""
        newest = self._newest.get(run_key)
        return newest is not None and newest <= revision

    def linked(self, runs: Iterable[tuple[str, int]]) -> None:
        """Revisions that have some, and revisions that all which have some were found up to."""
        with self._lock:
            for run_key, revision in runs:
                self._newest[run_key] = max(revision, self._newest.get(run_key, 0))
            if len(self._newest) > RUNS_MAX:
                self._newest.clear()
