"""The open database: one connection that writes, one cursor a reader, and coming back from a failure without a restart.

DuckDB invalidates a whole open database when a checkpoint fails (a full disk, say): then every connection is closed and
the file opened again, which replays its log.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from mn_contract.errors import ContextBudgetExceeded, ContextError, DependencyUnavailable, RecordInUse, StorageFull
from mn_engine.store.duckdb.schema import SETTINGS

_WAIT_SECONDS: Final = 30.0
_FULL_MARKS: Final = ("no space left", "disk full", "file too large", "could not write", "quota")


class Database:
    """One DuckDB file, open. `write` is for the one writer; `read` may be used from many threads."""

    def __init__(self, path: Path, *, readers: int, settings: dict[str, Any] | None = None) -> None:
        self._path = path
        self._settings = {**SETTINGS, **(settings or {})}
        self._pid = os.getpid()
        self._readers = readers
        self._slots = threading.Semaphore(readers)
        self._lock = threading.Lock()
        self._idle: list[duckdb.DuckDBPyConnection] = []
        self._writer: duckdb.DuckDBPyConnection | None = None
        self._open()

    @property
    def write(self) -> duckdb.DuckDBPyConnection:
        """The writer's connection."""
        self.check_process()
        if self._writer is None:
            raise DependencyUnavailable("the record is closed", dependency="store")
        return self._writer

    @contextlib.contextmanager
    def read(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A reader's connection; waits for a free one. Errors of DuckDB come out as the contract's."""
        self.check_process()
        if not self._slots.acquire(timeout=_WAIT_SECONDS):
            raise DependencyUnavailable("every reader of the record is busy", dependency="store", retry_after_ms=1000)
        try:
            cursor = self._take()
            try:
                yield cursor
            except duckdb.Error as error:
                raise translated(error) from error
            finally:
                self._give_back(cursor)
        finally:
            self._slots.release()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """No reader is in here meanwhile, and none is idle with a connection of the old file."""
        taken = 0
        try:
            for _ in range(self._readers):
                if not self._slots.acquire(timeout=_WAIT_SECONDS):
                    raise DependencyUnavailable("the record is being read", dependency="store", retry_after_ms=1000)
                taken += 1
            self._close_idle()
            yield
        finally:
            self._slots.release(taken) if taken else None

    def reopen(self) -> None:
        """Closes every connection and opens the file anew. Only inside `alone`, or where nobody can read anyway."""
        self.close()
        self._open()

    def close(self) -> None:
        """Closes every connection. Idempotent."""
        self._close_idle()
        if self._writer is not None:
            with contextlib.suppress(duckdb.Error):  # an invalidated database says so once more
                self._writer.close()
            self._writer = None

    def check_process(self) -> None:
        """Raises RecordInUse in a forked child: its copy of the handle would write behind the parent's back."""
        if os.getpid() != self._pid:
            raise RecordInUse(
                f"the record is open in process {self._pid}, this process's parent; open another one, or use its server",
                holder={"pid": self._pid},
            )

    def _open(self) -> None:
        try:
            self._writer = duckdb.connect(str(self._path), config=self._settings)
        except duckdb.Error as error:
            raise translated(error) from error

    def _take(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            return self._idle.pop() if self._idle else self.write.cursor()

    def _give_back(self, cursor: duckdb.DuckDBPyConnection) -> None:
        with self._lock:
            if self._writer is None:
                cursor.close()
            else:
                self._idle.append(cursor)

    def _close_idle(self) -> None:
        with self._lock:
            while self._idle:
                self._idle.pop().close()


def rows(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """All rows of a query."""
    return cursor.execute(sql, list(parameters)).fetchall()


def table(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any], schema: pa.Schema) -> pa.Table:
    """All rows of a query as Arrow, with the types of `schema`."""
    found = cursor.execute(sql, list(parameters)).to_arrow_table()
    return found if found.schema.equals(schema) else found.cast(schema)


def invalidated(error: duckdb.Error) -> bool:
    """Whether the open database is of no more use."""
    return isinstance(error, duckdb.FatalException) or "invalidated" in str(error).lower()


def translated(error: duckdb.Error) -> ContextError:
    """DuckDB's error as the contract's: a full disk is StorageFull, everything else an unavailable store."""
    text = str(error).lower()
    if any(mark in text for mark in _FULL_MARKS):
        return StorageFull("the disk is full; nothing was written. Make room and retry")
    if isinstance(error, duckdb.OutOfMemoryException):
        return ContextBudgetExceeded("the record's memory limit is reached; nothing was written", budget="memory")
    return DependencyUnavailable(f"the record cannot be used: {type(error).__name__}", dependency="store")
