"""Physical removal (invariant 15): the record is copied without what was cleared, and the copy takes its place.

DuckDB keeps deleted bytes through DELETE, CHECKPOINT and VACUUM; only a fresh file is without them. The copy is
complete and fsynced before it is renamed over the record, so that a crash leaves the old record or the new one, never
half of one. The blobs of cleared runs go before the rename: the record says `physical` only when it is so. Readers go
on while the copy is made and wait for the rename; writers wait for all of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import duckdb

from mn_contract.errors import DependencyUnavailable
from mn_engine.domain.runs import Removal, RunState
from mn_engine.store.blobs import BlobStore, sync_directory
from mn_engine.store.duckdb.connection import Database, batches, log_of, rows
from mn_engine.store.duckdb.schema import SETTINGS, TABLES, VERSION, migrate

_COPY: Final = ".compacting"
_BATCH_ROWS: Final = 16_384


def compact(database: Database, path: Path, blobs: BlobStore, check_room: Callable[[int, bool], None]) -> int:
    """Rewrites the record; answers the bytes given back. For the writer's thread. Raises StorageFull where there is no
    room for the copy."""
    before = _size(path)
    check_room(before, True)
    forget_copy(path)
    copy = _copy_of(path)
    source = database.write
    cleared = [
        run_key
        for (run_key,) in rows(source, f"SELECT DISTINCT run_key FROM heads WHERE state = {int(RunState.CLEARED)}")
    ]
    try:
        _write_copy(source, copy, cleared)
        freed = sum(blobs.remove_run(run_key) for run_key in cleared)
        source.execute("CHECKPOINT")
        database.reopen(meanwhile=lambda: _swap(path, copy))
    finally:
        forget_copy(path)
    cited = rows(database.write, "SELECT run_key, sha256 FROM artifacts WHERE data IS NULL")
    freed += blobs.sweep((run_key, sha256) for run_key, sha256 in cited)
    return max(before - _size(path), 0) + freed


def forget_copy(path: Path) -> None:
    """Removes a copy that did not become the record."""
    copy = _copy_of(path)
    copy.unlink(missing_ok=True)
    log_of(copy).unlink(missing_ok=True)


def _write_copy(source: duckdb.DuckDBPyConnection, copy: Path, cleared: list[str]) -> None:
    applied = rows(source, "SELECT version, applied_at FROM schema_versions ORDER BY version")
    with duckdb.connect(str(copy), config=SETTINGS) as fresh:
        migrate(fresh, applied[-1][1])
        assert applied[-1][0] == VERSION, "an open record has been migrated"
        for table, schema in TABLES.items():
            names = ", ".join(f'"{name}"' for name in schema.names)
            kept = f"SELECT {names} FROM {table} WHERE NOT list_contains(?, run_key)"
            _pour(source, kept, [cleared], fresh, table)
        _pour(source, _tombstones(), [cleared], fresh, "heads")
        fresh.execute("CHECKPOINT")
    _sync_file(copy)


def _pour(
    source: duckdb.DuckDBPyConnection, sql: str, parameters: list[Any], fresh: duckdb.DuckDBPyConnection, table: str
) -> None:
    """Inserts what a query of the old record answers into a table of the new one, a batch at a time, in order."""
    fresh.register("poured", batches(source, sql, parameters, _BATCH_ROWS))
    try:
        fresh.execute(f"INSERT INTO {table} SELECT * FROM poured")
    finally:
        fresh.unregister("poured")


def _tombstones() -> str:
    """Of a cleared run its newest head stays, saying that the removal is physical."""
    names = TABLES["heads"].names
    chosen = ", ".join(f"{int(Removal.PHYSICAL)} AS removal" if name == "removal" else f'"{name}"' for name in names)
    return (
        f"SELECT {chosen} FROM heads WHERE list_contains(?, run_key)"
        " QUALIFY row_number() OVER (PARTITION BY run_key ORDER BY seq DESC) = 1 ORDER BY seq"
    )


def _swap(path: Path, copy: Path) -> None:
    """The copy becomes the record. Raises DependencyUnavailable where the old record's log was not folded in: it would
    be replayed on the new one."""
    if log_of(path).exists() or log_of(copy).exists():
        raise DependencyUnavailable("the record's log could not be folded in; compact again", dependency="store")
    os.rename(copy, path)
    sync_directory(path.parent)


def _sync_file(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy_of(path: Path) -> Path:
    return path.with_name(path.name + _COPY)


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in (path, log_of(path)) if file.exists())
