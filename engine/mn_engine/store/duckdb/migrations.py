"""Migrations: how a record comes from one schema version to the next, each in a transaction of its own.

A migration that was released is never edited. `schema.TABLES` is what all of them together make; a test holds the two
together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import duckdb
import pyarrow as pa

from mn_contract.errors import DependencyUnavailable
from mn_engine.domain.leaves import columns_sha256
from mn_engine.domain.merkle import Frontier, leaf_hash
from mn_engine.domain.runs import RunState, chained_root
from mn_engine.store.duckdb.leaves import LEAF_ROWS
from mn_engine.store.duckdb.rows import rows
from mn_engine.store.duckdb.schema import ADDED, FIRST, HEADS, SESSIONS, TABLES

_TYPES: Final = {
    pa.string(): "VARCHAR",
    pa.int64(): "BIGINT",
    pa.uint64(): "UBIGINT",
    pa.uint32(): "UINTEGER",
    pa.uint16(): "USMALLINT",
    pa.uint8(): "UTINYINT",
    pa.bool_(): "BOOLEAN",
    pa.binary(): "BLOB",
}


_DEFAULTS: Final = {"frontier": "'0:'"}
"""What rows have that were there before a column; zero and nothing where it is not here."""


def create(table: str, schema: pa.Schema) -> str:
    """The statement that made a table."""
    added = {name for tables in ADDED.values() for name in tables.get(table, ())}
    columns = ", ".join(f'"{item.name}" {_TYPES[item.type]}' for item in schema if item.name not in added)
    return f"CREATE TABLE {table} ({columns})"


def add(table: str, name: str) -> str:
    """The statement that added a column."""
    kind = _TYPES[TABLES[table].field(name).type]
    default = _DEFAULTS.get(name, "''" if kind in ("VARCHAR", "BLOB") else f"CAST(0 AS {kind})")
    return f'ALTER TABLE {table} ADD COLUMN "{name}" {kind} DEFAULT {default}'


def plant(connection: duckdb.DuckDBPyConnection) -> None:
    """Makes trees of what was recorded before there were any, and hashes of the other rows. Of a tree that is made so,
    the leaves stand in the order of the tables, and its root is chained to the last one of before."""
    found = rows(connection, "SELECT run_key, max_by(state, seq) FROM heads GROUP BY run_key ORDER BY run_key")
    for run_key, state in found:
        if state != int(RunState.CLEARED):
            _plant_run(connection, run_key)
    for table in ("heads", "invocations", "sessions"):
        _hash_rows(connection, table)


def _plant_run(connection: duckdb.DuckDBPyConnection, run_key: str) -> None:
    frontier = Frontier()
    for table, leaves in LEAF_ROWS.items():
        stored = rows(
            connection, f"SELECT rowid, {leaves.select} FROM {table} WHERE run_key = ? ORDER BY rowid", [run_key]
        )
        hashes = [leaf_hash(leaves.record(row[1:])) for row in stored]
        numbers = range(frontier.size, frontier.size + len(hashes))
        _update(connection, table, [row[0] for row in stored], {"leaf": numbers, "leaf_hash": hashes})
        frontier = frontier.extended(hashes)
    names = ", ".join(HEADS.names)
    (head,) = rows(connection, f"SELECT {names} FROM heads WHERE run_key = ? ORDER BY seq DESC LIMIT 1", [run_key])
    ((seq,),) = rows(
        connection,
        "SELECT 1 + max(seq) FROM (SELECT max(seq) AS seq FROM heads UNION ALL SELECT max(seq) FROM invocations"
        " UNION ALL SELECT max(seq) FROM sessions)",
    )
    values = dict(zip(HEADS.names, head, strict=True))
    root = chained_root(values["root"], values["revision"], frontier.size, frontier.root)
    values |= {"seq": seq, "frontier": frontier.text, "root": root}
    marks = ", ".join("?" for _ in HEADS.names)
    connection.execute(f"INSERT INTO heads ({names}) VALUES ({marks})", [values[name] for name in HEADS.names])


def _hash_rows(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    names = ", ".join(name for name in TABLES[table].names if name != "row_sha256")
    stored = rows(connection, f"SELECT rowid, {names} FROM {table}")
    hashes = [columns_sha256(row[1:]) for row in stored]
    _update(connection, table, [row[0] for row in stored], {"row_sha256": hashes})


def _update(connection: duckdb.DuckDBPyConnection, table: str, at: list[int], columns: dict[str, Any]) -> None:
    if not at:
        return
    new = {name: pa.array(list(values), TABLES[table].field(name).type) for name, values in columns.items()}
    connection.register("new", pa.table({"at": pa.array(at, pa.int64()), **new}))
    try:
        sets = ", ".join(f"{name} = new.{name}" for name in columns)
        connection.execute(f"UPDATE {table} SET {sets} FROM new WHERE {table}.rowid = new.at")
    finally:
        connection.unregister("new")


Step = str | Callable[[duckdb.DuckDBPyConnection], None]
_VERSION_1: Final = tuple(create(table, schema) for table, schema in FIRST.items())
_VERSION_2: Final = (create("sessions", SESSIONS),)
_VERSION_3: Final[tuple[Step, ...]] = (
    *(add(table, name) for table, names in ADDED[3].items() for name in names),
    plant,
)
MIGRATIONS: Final[tuple[tuple[Step, ...], ...]] = (_VERSION_1, _VERSION_2, _VERSION_3)
"""What leads from version i to i + 1."""
VERSION: Final = len(MIGRATIONS)


def migrate(connection: duckdb.DuckDBPyConnection, now: int) -> None:
    """Brings a record to VERSION. Raises DependencyUnavailable for a newer one."""
    connection.execute("CREATE TABLE IF NOT EXISTS schema_versions (version BIGINT, applied_at BIGINT)")
    ((found,),) = rows(connection, "SELECT coalesce(max(version), 0) FROM schema_versions")
    if found > VERSION:
        raise DependencyUnavailable(
            f"the record has schema version {found} and this engine knows {VERSION}: use a newer engine",
            dependency="store",
            found=found,
            known=VERSION,
        )
    for version in range(found, VERSION):
        connection.execute("BEGIN")
        try:
            for step in MIGRATIONS[version]:
                if isinstance(step, str):
                    connection.execute(step)
                else:
                    step(connection)
            connection.execute("INSERT INTO schema_versions VALUES (?, ?)", [version + 1, now])
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
