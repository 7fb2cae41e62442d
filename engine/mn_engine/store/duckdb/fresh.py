"""A record's file comes into being whole: it is written under another name, fsynced, and renamed into its place.

So a crash while a record is created or compacted leaves no record, the old one or the new one, never a part of one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import duckdb

from mn_contract.errors import DependencyUnavailable
from mn_engine.store.blobs import sync_directory
from mn_engine.store.duckdb.migrations import migrate
from mn_engine.store.duckdb.schema import SETTINGS

_FRESH: Final = ".new"


def log_of(record: Path) -> Path:
    """DuckDB's write-ahead log of a record."""
    return record.with_name(record.name + ".wal")


def note_of(record: Path) -> Path:
    """The note of how far a record's log was synced; there from its first write on."""
    return record.with_name(record.name + ".synced")


def check_new(record: Path, blobs: Path) -> None:
    """For a record that is not there. Raises DependencyUnavailable where another has left its files: that record is
    lost, not new, and an empty one in its place would hide it."""
    left = [file.name for file in (log_of(record), note_of(record)) if file.exists()]
    if any(file.is_file() for file in blobs.rglob("*")):
        left.append(blobs.name)
    if left:
        raise DependencyUnavailable(
            f"{record} is gone, but what belongs to it is there ({', '.join(left)}): bring it back from a backup; for "
            "a new record name another path, or move these away",
            dependency="store",
        )


def write_fresh(path: Path, now: int, fill: Callable[[duckdb.DuckDBPyConnection], None] = lambda fresh: None) -> None:
    """Writes the file that is to become the record `path`: its tables, and what `fill` puts into them."""
    forget_fresh(path)
    file = _fresh_of(path)
    with duckdb.connect(str(file), config=SETTINGS) as fresh:
        migrate(fresh, now)
        fill(fresh)
        fresh.execute("CHECKPOINT")
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_in_place(path: Path) -> None:
    """The fresh file becomes the record, which must be closed. Raises DependencyUnavailable where a log is left: it
    would be replayed on the new record."""
    file = _fresh_of(path)
    if log_of(path).exists() or log_of(file).exists():
        raise DependencyUnavailable(
            "a log is left beside the record, and nothing was put in its place; compact again", dependency="store"
        )
    os.rename(file, path)
    sync_directory(path.parent)


def forget_fresh(path: Path) -> None:
    """Removes a fresh file that did not become the record."""
    file = _fresh_of(path)
    file.unlink(missing_ok=True)
    log_of(file).unlink(missing_ok=True)


def _fresh_of(path: Path) -> Path:
    return path.with_name(path.name + _FRESH)
