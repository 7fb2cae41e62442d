"""Physical removal (invariant 15): the record is copied without what was cleared, and the copy takes its place.

DuckDB keeps deleted bytes through DELETE, CHECKPOINT and VACUUM; only a fresh file is without them. The blobs of
cleared runs go before the copy takes its place: the record says `physical` only when it is so. Readers go on while the
copy is made and wait for the rename; writers wait for all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import duckdb

from mn_engine.domain.runs import Removal, RunState
from mn_engine.store.blobs import BlobStore
from mn_engine.store.duckdb.connection import Database
from mn_engine.store.duckdb.fresh import forget_fresh, log_of, put_in_place, write_fresh
from mn_engine.store.duckdb.rows import batches, rows
from mn_engine.store.duckdb.schema import TABLES

_BATCH_ROWS: Final = 16_384
_NEWEST_SESSION: Final = (
    " QUALIFY row_number() OVER (PARTITION BY run_key, principal, session_id ORDER BY seq DESC) = 1 ORDER BY seq"
)
"""Of a session's states only the newest is ever read."""


def compact(database: Database, path: Path, blobs: BlobStore, check_room: Callable[[int, bool], None]) -> int:
    """Rewrites the record; answers the bytes given back. For the writer's thread. Raises StorageFull where there is no
    room for the copy."""
    before = _size(path)
    check_room(before, True)
    source = database.write
    found = rows(source, f"SELECT DISTINCT run_key FROM heads WHERE state = {int(RunState.CLEARED)}")
    cleared = [run_key for (run_key,) in found]
    ((applied_at,),) = rows(source, "SELECT max(applied_at) FROM schema_versions")
    try:
        write_fresh(path, applied_at, lambda fresh: _copy(source, fresh, cleared))
        freed = sum(blobs.remove_run(run_key) for run_key in cleared)
        database.checkpoint()
        database.reopen(meanwhile=lambda: put_in_place(path))
    finally:
        forget_fresh(path)
    cited = rows(database.write, "SELECT run_key, sha256 FROM artifacts WHERE data IS NULL")
    freed += blobs.sweep((run_key, sha256) for run_key, sha256 in cited)
    return max(before - _size(path), 0) + freed


def _copy(source: duckdb.DuckDBPyConnection, fresh: duckdb.DuckDBPyConnection, cleared: list[str]) -> None:
    for table, schema in TABLES.items():
        names = ", ".join(f'"{name}"' for name in schema.names)
        kept = f"SELECT {names} FROM {table} WHERE NOT list_contains(?, run_key)"
        if table == "sessions":
            kept += _NEWEST_SESSION
        _pour(source, kept, [cleared], fresh, table)
    _pour(source, _tombstones(), [cleared], fresh, "heads")


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


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in (path, log_of(path)) if file.exists())
