"""The rows of one run in the journal's file. They live as long as the run (invariant 15): of a cleared run nothing is
answered or written, and what the file has of it is erased as soon as the session learns of the clear.

How the run stands is asked inside each transaction, where the engine is in this process and the answer costs
microseconds: a write that was let through is over before the erasing begins. An engine elsewhere is not asked for each
note; it refuses what it is asked itself, and its first such answer shuts the rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mn.context.working.v1 import run_pb2
from mn_contract.errors import ContextError, RunClosed
from mn_sdk.context_session.journal.database import FILE_NAME, Database
from mn_sdk.scope import SessionScope

_CLEARED: Final = "RUN_CLEARED"


class Clearing:
    """What a session knows of a clear, and does about it. `root` is the folder of the journal's file."""

    def __init__(self, root: Path, scope: SessionScope) -> None:
        self._root = root
        self._scope = scope
        self._known = False
        self._erased = False

    def check(self) -> None:
        """Raises RunClosed where the run is known to be cleared."""
        if self._known:
            raise RunClosed("the run was cleared; only its tombstone is left", reason=_CLEARED, state="cleared")

    def learn(self, error: RunClosed) -> None:
        """Takes in an answer: one that says that the run is cleared has its rows erased. What cannot be erased yet is a
        note on the error, and is tried again with the next such answer."""
        if error.reason != _CLEARED:
            return
        try:
            self.erase()
        except ContextError as failed:
            error.add_note(f"what {self._root} holds of the run is not erased yet: {failed.message}")

    def erase(self) -> None:
        """Shuts the rows and erases them for good, those of all principals. Idempotent. Raises DependencyUnavailable,
        StorageFull."""
        self._known = True
        if self._erased:
            return
        if (self._root / FILE_NAME).exists():
            database = Database(self._root)
            try:
                database.erase(self._scope.job_id, self._scope.run_id)
            finally:
                database.close()
        self._erased = True


class Rows:
    """The rows of one run, for one principal. `state` answers the run's state, a number of the wire; None where an
    engine elsewhere knows it. Every method raises RunClosed where the run is cleared."""

    def __init__(
        self, database: Database, scope: SessionScope, *, clearing: Clearing, state: Callable[[], int] | None
    ) -> None:
        self.scope = scope
        self._database = database
        self._clearing = clearing
        self._state = state

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """See Database.read."""
        with self._learning(), self._database.read() as connection:
            self._check_kept()
            yield connection

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """See Database.write."""
        with self._learning(), self._database.write() as connection:
            self._check_kept()
            yield connection

    def check_open(self) -> None:
        """Raises RunClosed where the run takes no new calls. To be asked inside `write`."""
        if self._check_kept() == run_pb2.RUN_STATE_CANCELLED:
            raise RunClosed("the run was cancelled and takes no more calls", reason="RUN_CANCELLED", state="cancelled")

    def close(self) -> None:
        """Idempotent."""
        self._database.close()

    def _check_kept(self) -> int:
        """The run's state where it is known. Raises RunClosed where it is cleared."""
        self._clearing.check()
        state = run_pb2.RUN_STATE_UNSPECIFIED if self._state is None else self._state()
        if state == run_pb2.RUN_STATE_CLEARED:
            raise RunClosed("the run was cleared; only its tombstone is left", reason=_CLEARED, state="cleared")
        return state

    @contextmanager
    def _learning(self) -> Iterator[None]:
        """Erases after the transaction, whose lock the erasing needs."""
        try:
            yield
        except RunClosed as error:
            self._clearing.learn(error)
            raise
