"""The open database: one connection that writes, one a reader, and coming back from a failure without a restart.

DuckDB invalidates a whole open database when a checkpoint fails (a full disk, say): then every connection is closed and
the file opened again, which replays its log.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb
import pyarrow as pa

from mn_contract.errors import ContextBudgetExceeded, ContextError, DependencyUnavailable, RecordInUse, StorageFull
from mn_engine.store.duckdb.gate import Gate
from mn_engine.store.duckdb.log import Log
from mn_engine.store.duckdb.schema import SETTINGS, Settings
from mn_engine.store.forks import tell_when_forked

_FULL_MARKS: Final = ("no space left", "disk full", "file too large", "quota exceeded")
_Answer = TypeVar("_Answer")


class RecordLost(DependencyUnavailable):
    """The open database is of no more use; `Database.restore` opens it again."""


class Database:
    """One DuckDB file, open. `write` is for the writer's thread alone; `ask` may be called from many threads."""

    def __init__(self, path: Path, *, readers: int, settings: Settings | None = None) -> None:
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
        """Lets go of the file, after those who read it."""
        with self._gate.alone():
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

    def _open(self) -> None:
        try:
            self._root = self._connect()
            self._made.append(self._root)
            self._writer = self._root.cursor()
            self._made.append(self._writer)
        except duckdb.Error as error:
            self._let_go()
            raise _unopened(error) from error

    def _connect(self) -> duckdb.DuckDBPyConnection:
        try:
            return duckdb.connect(str(self._path), config=self._settings)
        except duckdb.Error as error:
            if not self._log.cut_torn_tail(str(error)):
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


def rows(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """All rows of a query."""
    return cursor.execute(sql, list(parameters)).fetchall()


def table(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any], schema: pa.Schema) -> pa.Table:
    """All rows of a query as Arrow, with the types of `schema`."""
    found = cursor.sql(sql, params=list(parameters)).to_arrow_table()
    return found if found.schema.equals(schema) else found.cast(schema)


def batches(
    cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any], batch_rows: int
) -> pa.RecordBatchReader:
    """All rows of a query as Arrow, some at a time."""
    relation: Any = cursor.sql(sql, params=list(parameters))
    # DuckDB 2 has renamed this and warns of the old name.
    return (getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch)(batch_rows)


def translated(error: duckdb.Error) -> ContextError:
    """DuckDB's error as the contract's: a full disk is StorageFull, everything else an unavailable store."""
    text = str(error).lower()
    if isinstance(error, duckdb.FatalException) or "invalidated" in text:
        return RecordLost("the record had to be opened again; retry", dependency="store", retry_after_ms=100)
    if any(mark in text for mark in _FULL_MARKS):
        return StorageFull("the disk is full; nothing was written. Make room and retry")
    if isinstance(error, duckdb.OutOfMemoryException):
        return ContextBudgetExceeded("the record's memory limit is reached; nothing was written", budget="memory")
    return DependencyUnavailable(f"the record cannot be used: {type(error).__name__}", dependency="store")


def _unopened(error: duckdb.Error) -> ContextError:
    text = str(error).lower()
    if "could not set lock" in text or "conflicting lock" in text:
        return RecordInUse("another program has the record's file open; stop it", holder={})
    if any(mark in text for mark in _FULL_MARKS):
        return StorageFull("the disk is full and the record cannot be opened. Make room and retry")
    return DependencyUnavailable(
        f"the record cannot be opened ({type(error).__name__}); is the file a record of this engine?",
        dependency="store",
    )


def _closed() -> DependencyUnavailable:
    return RecordLost("the record is closed", dependency="store")
