"""Physical removal (invariant 15): the record is copied without what was cleared, and the copy takes its place.

DuckDB keeps deleted bytes through DELETE, CHECKPOINT and VACUUM; only a fresh file is without them. The copy is
complete and fsynced before it is renamed over the record, so that a crash leaves the old record or the new one, never
half of one.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

import duckdb

from mn_contract.errors import DependencyUnavailable
from mn_engine.domain.runs import Removal, RunState
from mn_engine.store.blobs import BlobStore, sync_directory
from mn_engine.store.duckdb.connection import Database, rows
from mn_engine.store.duckdb.schema import TABLES, create

_COPY: Final = ".compacting"


def compact(database: Database, path: Path, blobs: BlobStore) -> int:
    """Rewrites the record; answers the bytes given back. Runs in the writer's thread while nobody reads."""
    before = _size(path)
    copy = path.with_name(path.name + _COPY)
    _remove(copy)
    connection = database.write
    cleared = _cleared(connection)
    cited = rows(connection, "SELECT run_key, sha256 FROM artifacts WHERE NOT inline")
    _copy(connection, copy, cleared)
    connection.execute("CHECKPOINT")
    database.close()
    try:
        _swap(path, copy)
    finally:
        database.reopen()
    freed = before - _size(path)
    for run_key in cleared:
        freed += blobs.remove_run(run_key)
    freed += blobs.sweep((run_key, sha256) for run_key, sha256 in cited if run_key not in cleared)
    return max(freed, 0)


def finish(path: Path) -> None:
    """Forgets a copy that a crash left behind; the record itself is whole either way."""
    _remove(path.with_name(path.name + _COPY))


def _copy(connection: duckdb.DuckDBPyConnection, copy: Path, cleared: list[str]) -> None:
    quoted = str(copy).replace("'", "''")
    connection.execute(f"ATTACH '{quoted}' AS fresh")
    try:
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE fresh.schema_versions AS SELECT * FROM schema_versions")
        for table, schema in TABLES.items():
            connection.execute(create(table, schema, catalog="fresh."))
            names = ", ".join(f'"{name}"' for name in schema.names)
            source = f"SELECT {names} FROM {table}"
            if table == "heads":
                connection.execute(f"INSERT INTO fresh.heads {_live_heads(names)}", [cleared])
                connection.execute(f"INSERT INTO fresh.heads {_tombstones(schema.names)}", [cleared])
            else:
                connection.execute(
                    f"INSERT INTO fresh.{table} {source} WHERE NOT list_contains(?, run_key) ORDER BY rowid", [cleared]
                )
        connection.execute("COMMIT")
        connection.execute("CHECKPOINT fresh")
    except duckdb.Error:
        with contextlib.suppress(duckdb.Error):  # the first error is the one to tell
            connection.execute("ROLLBACK")
        raise
    finally:
        with contextlib.suppress(duckdb.Error):
            connection.execute("DETACH fresh")


def _live_heads(names: str) -> str:
    return f"SELECT {names} FROM heads WHERE NOT list_contains(?, run_key) ORDER BY rowid"


def _tombstones(names: list[str]) -> str:
    """Of a cleared run its newest head stays, saying that the removal is physical."""
    chosen = ", ".join(f"{int(Removal.PHYSICAL)} AS removal" if name == "removal" else f'"{name}"' for name in names)
    return (
        f"SELECT {chosen} FROM heads WHERE list_contains(?, run_key)"
        " QUALIFY row_number() OVER (PARTITION BY run_key ORDER BY seq DESC) = 1 ORDER BY seq"
    )


def _cleared(connection: duckdb.DuckDBPyConnection) -> list[str]:
    found = rows(
        connection,
        f"SELECT DISTINCT run_key FROM heads WHERE state = {int(RunState.CLEARED)} ORDER BY run_key",
    )
    return [run_key for (run_key,) in found]


def _swap(path: Path, copy: Path) -> None:
    """The copy becomes the record. Raises DependencyUnavailable where the old record's log was not folded in: then a
    crash between the two renames would lose it, so the old record stays."""
    if _wal(path).exists() or _wal(copy).exists():
        _remove(copy)
        raise DependencyUnavailable("the record's log could not be folded in; compact again", dependency="store")
    descriptor = os.open(copy, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(copy, path)
    sync_directory(path.parent)


def _wal(path: Path) -> Path:
    return path.with_name(path.name + ".wal")


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in (path, _wal(path)) if file.exists())


def _remove(copy: Path) -> None:
    copy.unlink(missing_ok=True)
    _wal(copy).unlink(missing_ok=True)
