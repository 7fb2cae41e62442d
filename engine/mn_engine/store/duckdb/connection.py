"""The open database: one connection that writes, one a reader, and coming back from a failure without a restart.

Checkpoints, which fold the log into the file, are made here and never by DuckDB on its own: what one may write over is
kept until it is durable. DuckDB invalidates a whole open database when a checkpoint fails (a full disk, say): then
every connection is closed and the file opened again, which replays its log.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import duckdb

from mn_contract.errors import ContextBudgetExceeded, ContextError, DependencyUnavailable, RecordInUse, StorageFull
from mn_engine.store.duckdb.gate import Gate
from mn_engine.store.duckdb.log import Log
from mn_engine.store.duckdb.rollback import Rollback
from mn_engine.store.duckdb.schema import SETTINGS, Settings
from mn_engine.store.forks import tell_when_forked

LOG_BYTES_MAX: Final = 16 * 1024 * 1024
"""A log longer than this is folded into the file."""
_FULL_MARKS: Final = ("no space left", "disk full", "file too large", "quota exceeded")
_DAMAGE_MARKS: Final = ("corrupt", "does not match stored checksum")
_Answer = TypeVar("_Answer")
_log: Final = logging.getLogger(__name__)


class RecordLost(DependencyUnavailable):
    """The open database is of no more use; `Database.restore` opens it again."""


class Database:
    """One DuckDB file, open. `write` is for the writer's thread alone; `ask` may be called from many threads."""

    def __init__(
        self, path: Path, *, readers: int, settings: Settings | None = None, log_bytes_max: int = LOG_BYTES_MAX
    ) -> None:
        self._path = path
        self._settings = {**SETTINGS, **(settings or {})}
        self._pid = os.getpid()
        self._gate = Gate(readers)
        self._lock = threading.Lock()
        self._root: duckdb.DuckDBPyConnection | None = None
        self._writer: duckdb.DuckDBPyConnection | None = None
        self._idle: list[duckdb.DuckDBPyConnection] = []
        self._made: list[duckdb.DuckDBPyConnection] = []
        self._log = Log(path)
        self._rollback = Rollback(path)
        self._log_bytes_max = self._log_bytes_due = log_bytes_max
        self._open()
        tell_when_forked(self)

    @property
    def write(self) -> duckdb.DuckDBPyConnection:
        """The writer's connection."""
        self.check_process()
        if self._writer is None:
            raise _closed()
        return self._writer

    def ask(self, question: Callable[[duckdb.DuckDBPyConnection], _Answer]) -> _Answer:
        """What `question` answers over a reader's connection; waits for a free one. Errors of DuckDB come out as the
        contract's, RecordLost where the database must be restored first."""
        self.check_process()
        with self._gate.reader():
            try:
                cursor = self._take()
                try:
                    return question(cursor)
                finally:
                    self._idle.append(cursor)
            except duckdb.Error as error:
                raise translated(error) from error

    def close(self) -> None:
        """Folds the log into the file and lets go of it, after those who read it."""
        with self._gate.alone():
            try:
                if self._writer is not None:
                    self._fold()
            except (duckdb.Error, OSError) as error:
                _log.warning("the log stays beside the record: %s", error)  # the next opening replays it
            finally:
                self._let_go()

    def restore(self) -> None:
        """Opens the file again where the open database is of no more use. For the writer's thread."""
        self.open_again()
        try:
            self.write.execute("SELECT 1")
        except duckdb.Error:
            self.reopen()

    def open_again(self) -> None:
        """Opens the file where an earlier attempt to open it again has failed. For the writer's thread."""
        self.check_process()
        if self._root is None:
            with self._gate.alone():
                self._open()

    def reopen(self, *, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Closes every connection, does something with the closed file, and opens it anew. For the writer's thread."""
        with self._gate.alone():
            self._let_go()
            try:
                meanwhile()
            finally:
                self._open()

    def _let_go(self) -> None:
        with self._lock:
            for connection in reversed(self._made):
                with contextlib.suppress(duckdb.Error):  # an invalidated database says so once more
                    connection.close()
            self._made.clear()
            self._idle.clear()
            self._root = self._writer = None
            self._log.let_go()

    def sync_log(self) -> None:
        """After a commit: sees to what DuckDB leaves undone. Raises OSError."""
        self._log.synced()

    def checkpoint(self) -> None:
        """Folds the log into the file. For the writer's thread, outside a transaction. Raises duckdb.Error and OSError,
        with nothing lost: `restore` then."""
        self.check_process()
        if self._writer is None:
            raise _closed()
        self._fold()

    def checkpoint_if_due(self) -> None:
        """Folds a log that has grown long. A failure costs nothing but a longer log: it is logged, and the next try
        comes when the log has grown as much again. For the writer's thread, outside a transaction."""
        size = self._log.size
        if size <= self._log_bytes_due:
            return
        try:
            self.checkpoint()
        except (duckdb.Error, OSError) as error:
            self._log_bytes_due = size + self._log_bytes_max
            _log.warning("the log could not be folded into the record and stays beside it: %s", error)
            self.restore()

    def check_process(self) -> None:
        """Raises RecordInUse in a forked child: its copy of the handle would write behind the parent's back."""
        if os.getpid() != self._pid:
            raise RecordInUse(
                f"the record is open in process {self._pid}, which this one was forked from; open another record here, "
                "or use that one through its server",
                holder={"pid": self._pid},
            )

    def abandon(self) -> None:
        """In a forked child: keeps the connections from ever being closed, for closing one writes to the file."""
        for connection in self._made:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))

    def _fold(self) -> None:
        assert self._writer is not None
        self._rollback.keep(self._writer)
        self._writer.execute("CHECKPOINT")
        self._rollback.forget()
        self._log_bytes_due = self._log_bytes_max

    def _open(self) -> None:
        try:
            self._rollback.take_back()
            self._root = self._connect()
            self._root.execute("PRAGMA disable_checkpoint_on_shutdown")
            self._rollback.forget()
            self._made.append(self._root)
            self._writer = self._root.cursor()
            self._made.append(self._writer)
        except (duckdb.Error, OSError) as error:
            self._let_go()
            raise _unopened(error) from error

    def _connect(self) -> duckdb.DuckDBPyConnection:
        try:
            return duckdb.connect(str(self._path), config=self._settings)
        except duckdb.Error as error:
            if not (self._rollback.take_back_header(str(error)) or self._log.cut_torn_tail(str(error))):
                raise
        return duckdb.connect(str(self._path), config=self._settings)

    def _take(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            if self._root is None:
                raise _closed()
            if self._idle:
                return self._idle.pop()
            cursor = self._root.cursor()
            self._made.append(cursor)
            return cursor


def translated(error: duckdb.Error) -> ContextError:
    """DuckDB's error as the contract's: a full disk is StorageFull, everything else an unavailable store."""
    text = str(error).lower()
    if isinstance(error, duckdb.FatalException) or "invalidated" in text:
        return RecordLost("the record had to be opened again; retry", dependency="store", retry_after_ms=100)
    if any(mark in text for mark in _FULL_MARKS):
        return StorageFull("the disk is full; nothing was written. Make room and retry")
    if isinstance(error, duckdb.OutOfMemoryException):
        return ContextBudgetExceeded("the record's memory limit is reached; nothing was written", budget="memory")
    if any(mark in text for mark in _DAMAGE_MARKS):
        return _damaged(error)
    return DependencyUnavailable(f"the record cannot be used: {type(error).__name__}", dependency="store")


def _damaged(error: Exception) -> DependencyUnavailable:
    # Of DuckDB's words only those of its file format are passed on: others may quote what the record holds.
    told = str(error).partition("\n")[0]
    return DependencyUnavailable(
        f"the record's file is damaged ({told}); nothing of it was used. Put a copy in its place", dependency="store"
    )


def _unopened(error: Exception) -> ContextError:
    text = str(error).lower()
    if "could not set lock" in text or "conflicting lock" in text:
        return RecordInUse("another program has the record's file open; stop it", holder={})
    if any(mark in text for mark in _FULL_MARKS):
        return StorageFull("the disk is full and the record cannot be opened. Make room and retry")
    if any(mark in text for mark in _DAMAGE_MARKS):
        return _damaged(error)
    if isinstance(error, PermissionError) or "permission denied" in text:
        return DependencyUnavailable(
            "the record's file may not be read and written by this user; give the user leave, or name another record",
            dependency="store",
        )
    return DependencyUnavailable(
        f"the record cannot be opened ({type(error).__name__}); is the file a record of this engine?",
        dependency="store",
    )


def _closed() -> DependencyUnavailable:
    return RecordLost("the record is closed", dependency="store")
