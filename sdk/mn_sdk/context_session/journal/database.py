"""The SQLite file under a session's root: built for power loss, shared between processes, with schema versions.

Every write is one IMMEDIATE transaction, durable when it returns (WAL, synchronous=FULL). A damaged file is refused: a
call that is not found in it any more would be made again. SQLite keeps no hashes of what it stores, so its structure is
checked when the file is opened, and each row carries the hash of its values. Its log it checks itself, and takes damage
there for a cut that power made, so that is looked at before (see `log`); and a file that is gone or empty is known by a
mark beside it. SQLite's errors become the contract's here and nowhere else.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mn_contract.canonical import digest
from mn_contract.errors import ContextError, DependencyUnavailable, SourceMismatch, StorageFull
from mn_sdk.context_session.journal.log import check_log, damaged

FILE_NAME: Final = "journal.sqlite"
MARK_NAME: Final = "journal.made"
"""Says that there is a journal; made when the first one is durable."""
_BUSY_SECONDS: Final = 30.0

MIGRATIONS: Final = (
    """
    CREATE TABLE attempts (
      job_id TEXT NOT NULL, run_id TEXT NOT NULL, principal TEXT NOT NULL, name TEXT NOT NULL,
      attempt INTEGER NOT NULL, state TEXT NOT NULL, epoch INTEGER NOT NULL, holder TEXT NOT NULL,
      lease_until_ms INTEGER NOT NULL, fingerprint TEXT NOT NULL, roles TEXT NOT NULL, request_sha256 TEXT NOT NULL,
      retry TEXT NOT NULL, response BLOB, usable INTEGER NOT NULL, evidence TEXT NOT NULL, row_sha256 TEXT NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX attempts_key ON attempts (job_id, run_id, principal, name, attempt);
    CREATE INDEX attempts_state ON attempts (job_id, run_id, state);
    CREATE TABLE notes (
      job_id TEXT NOT NULL, run_id TEXT NOT NULL, principal TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
      value BLOB NOT NULL, row_sha256 TEXT NOT NULL, PRIMARY KEY (job_id, run_id, principal, kind, name)
    ) STRICT;
    """,
)
"""One script a schema version, in order; a script that was released is never changed."""
TABLES: Final = ("attempts", "notes")
"""What rows of runs stand in."""

_connecting: Final = threading.Lock()
_connected: Final[Counter[str]] = Counter()
"""How many connections this process has to each file."""
os.register_at_fork(before=_connecting.acquire, after_in_parent=_connecting.release, after_in_child=_connecting.release)
_inherited: Final[list[sqlite3.Connection]] = []
"""Connections of a process that this one was forked from."""


class Database:
    """One connection a process; use from any thread. After a fork the child opens its own."""

    def __init__(self, root: Path) -> None:
        self._path = root.absolute() / FILE_NAME
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._pid = 0
        self._closed = False
        with _translated(self._path), self._lock:
            root.mkdir(parents=True, exist_ok=True)
            self._opened()
            _sync_folder(root)
            _sync_folder(root.parent)
            if not (root / MARK_NAME).exists():
                (root / MARK_NAME).touch()
                _sync_folder(root)

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction that no other writer is inside of; durable when the block ends, undone where it raises."""
        with self._lock, _translated(self._path):
            connection = self._opened()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one query."""
        with self._lock, _translated(self._path):
            yield self._opened()

    def erase(self, job_id: str, run_id: str) -> None:
        """Removes a run's rows, and their bytes from the files. Idempotent.

        SQLite keeps deleted bytes, with `secure_delete` still those of rows that it once moved from page to page; so
        the file is written anew, and its log emptied.
        """
        with self.write() as connection:
            for table in TABLES:
                connection.execute(f"DELETE FROM {table} WHERE (job_id, run_id) = (?, ?)", (job_id, run_id))
        with self.read() as connection:
            connection.execute("VACUUM")
            (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise _locked(self._path)
        with self.write() as connection:  # a power loss here would leave an index that tells of a log that is empty
            connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")

    def close(self) -> None:
        """Idempotent."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._own(), None
            if connection is not None:
                _disconnect(connection, self._path)

    def _opened(self) -> sqlite3.Connection:
        if self._closed:
            raise DependencyUnavailable("the session is closed", dependency="journal")
        connection = self._own()
        if connection is None:
            connection, self._pid = _connect(self._path), os.getpid()
            self._connection = connection
        return connection

    def _own(self) -> sqlite3.Connection | None:
        """The connection, where this process made it. One inherited over a fork is left alone, even by the collector:
        closing it would work on the parent's files."""
        if self._connection is not None and self._pid != os.getpid():
            _inherited.append(self._connection)
            self._connection = None
        return self._connection


def _connect(path: Path) -> sqlite3.Connection:
    with _connecting:
        if not _connected[
            os.path.realpath(path)
        ]:  # SQLite's locks on a file end where this process closes it, whoever opened it
            _check_there(path)
            check_log(path)
        connection = _connection(path)
        _connected[os.path.realpath(path)] += 1
    return connection


def _disconnect(connection: sqlite3.Connection, path: Path) -> None:
    with _connecting:
        _connected[os.path.realpath(path)] -= 1
        connection.close()


def _check_there(path: Path) -> None:
    if path.with_name(MARK_NAME).exists() and not (path.exists() and path.stat().st_size):
        raise DependencyUnavailable(
            f"{path} is gone or empty, and there was a journal: restore its folder from a backup; without it "
            "calls would be made again",
            dependency="journal",
        )


def _connection(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA synchronous=FULL")
        _migrate(connection, path)  # before there is a log: a file without its schema would be one that is empty
        connection.execute("PRAGMA journal_mode=WAL")
        _check_sound(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def row_sha256(*values: str | int | bytes | None) -> str:
    """The hash of a row's values, in the order of its columns."""
    return digest([digest(value) if isinstance(value, bytes) else value for value in values])


def check_row(*values: str | int | bytes | None, kept: str) -> None:
    """Raises SourceMismatch where a row's values are not those that the kept hash was made of."""
    if kept != row_sha256(*values):
        raise SourceMismatch("a row of the journal is not what its hash says; it was not used")


def _check_sound(connection: sqlite3.Connection, path: Path) -> None:
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise damaged(path)


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if _version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection)
        if version > len(MIGRATIONS):
            raise DependencyUnavailable(
                f"{path} was written by a newer version of this program (schema {version}); update it",
                dependency="journal",
            )
        for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
            for statement in script.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={number}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _sync_folder(folder: Path) -> None:
    # Without this a power loss may take the file's name with it.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _error_of(error, path) from error
    except OSError as error:
        raise DependencyUnavailable(f"{path} cannot be used: {error.strerror}", dependency="journal") from error


def _error_of(error: sqlite3.Error, path: Path) -> ContextError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StorageFull(f"the disk that holds {path} is full; nothing was written")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return _locked(path)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return damaged(path)
    return DependencyUnavailable(f"{path} cannot be used: {error}", dependency="journal")


def _locked(path: Path) -> DependencyUnavailable:
    return DependencyUnavailable(f"{path} stayed locked by another process; try again", dependency="journal")
