"""Tables and migrations of the record, and every statement whose text another SQL dialect would change.

All tables are insert-only: what a run or a card has become is told by later rows. There are no primary keys: the writer
guards uniqueness itself, because DuckDB's index costs bulk inserts their speed and one violation aborts everybody's
transaction. `run_key` comes first everywhere, so that the same tables can be distributed by it.
"""

from __future__ import annotations

from typing import Any, Final

import duckdb
import pyarrow as pa

from mn_contract.errors import DependencyUnavailable
from mn_engine.domain.events import PreparedCard
from mn_engine.store.columns import card_meta, index_row
from mn_engine.store.port import INDEX_CARDS

HEADS: Final = pa.schema(
    [
        ("run_key", pa.string()),
        ("seq", pa.int64()),
        ("job_id", pa.string()),
        ("run_id", pa.string()),
        ("state", pa.uint8()),
        ("revision", pa.int64()),
        ("root", pa.string()),
        ("stored_bytes", pa.int64()),
        ("max_stored_bytes", pa.int64()),
        ("opened_at", pa.int64()),
        ("reason", pa.string()),
        ("cleared_at", pa.int64()),
        ("removal", pa.uint8()),
    ]
)
EVENTS: Final = pa.schema(
    [
        ("run_key", pa.string()),
        ("revision", pa.int64()),
        ("name_hash", pa.uint64()),
        ("owner", pa.string()),
        ("key", pa.string()),
        ("fingerprint", pa.string()),
        ("cards", pa.string()),
    ]
)
ARTIFACTS: Final = pa.schema(
    [
        ("run_key", pa.string()),
        ("name_hash", pa.uint64()),
        (
            "sha_hash",
            pa.uint64(),
        ),  # the first 64 bits of sha256: a column of numbers is looked through ten times faster
        ("sha256", pa.string()),
        ("size", pa.int64()),
        ("media_type", pa.string()),
        ("owner", pa.string()),
        ("acl", pa.string()),
        ("data", pa.binary()),  # null where the bytes lie in a file
    ]
)
_FACT_COLUMNS: Final = ("fact_place", "fact_triple", "fact_singular")
CARDS: Final = pa.schema(
    [
        ("run_key", pa.string()),
        *(field for field in INDEX_CARDS if field.name not in _FACT_COLUMNS),
        ("text", pa.string()),
        ("meta", pa.string()),
        *(INDEX_CARDS.field(name) for name in _FACT_COLUMNS),
    ]
)
RELATIONS: Final = pa.schema(
    [("run_key", pa.string()), ("source_ordinal", pa.int64()), ("type", pa.string()), ("target_hash", pa.uint64())]
)
ENDINGS: Final = pa.schema(
    [
        ("run_key", pa.string()),
        ("revision", pa.int64()),
        ("target_hash", pa.uint64()),
        ("kind", pa.uint8()),
        ("by_hash", pa.uint64()),
        ("by_owner", pa.string()),
        ("by_id", pa.string()),
    ]
)
INVOCATIONS: Final = pa.schema(
    [
        ("run_key", pa.string()),
        ("seq", pa.int64()),
        ("principal", pa.string()),
        ("name", pa.string()),
        ("attempt", pa.int64()),
        ("state", pa.string()),
        ("epoch", pa.int64()),
        ("holder", pa.string()),
        ("lease_until_ms", pa.int64()),
        ("fingerprint", pa.string()),
        ("roles", pa.string()),  # sorted, with commas between
        ("request_sha256", pa.string()),
        ("retry", pa.string()),
        ("response", pa.binary()),
        ("usable", pa.bool_()),
        ("evidence", pa.string()),
    ]
)
SESSIONS: Final = pa.schema(
    [
        ("run_key", pa.string()),
        ("seq", pa.int64()),
        ("principal", pa.string()),
        ("session_id", pa.string()),
        ("state", pa.string()),  # canonical JSON; the newest row counts
    ]
)
_ADDED: Final = {3: {"cards": _FACT_COLUMNS}}
"""Schema version -> table -> columns that it added, behind those that were there."""
_FIRST: Final = {
    "heads": HEADS,
    "events": EVENTS,
    "artifacts": ARTIFACTS,
    "cards": CARDS,
    "relations": RELATIONS,
    "endings": ENDINGS,
    "invocations": INVOCATIONS,
}
TABLES: Final = {**_FIRST, "sessions": SESSIONS}
"""Name -> columns of the newest schema version."""

_SQL_TYPES: Final = {
    pa.string(): "VARCHAR",
    pa.int64(): "BIGINT",
    pa.uint64(): "UBIGINT",
    pa.uint32(): "UINTEGER",
    pa.uint16(): "USMALLINT",
    pa.uint8(): "UTINYINT",
    pa.bool_(): "BOOLEAN",
    pa.binary(): "BLOB",
}


def create(table: str, schema: pa.Schema) -> str:
    """The statement that made a table."""
    added = {name for tables in _ADDED.values() for name in tables.get(table, ())}
    columns = ", ".join(f'"{item.name}" {_SQL_TYPES[item.type]}' for item in schema if item.name not in added)
    return f"CREATE TABLE {table} ({columns})"


def add(table: str, name: str) -> str:
    """The statement that added a column: zeros in the rows that are there."""
    kind = _SQL_TYPES[TABLES[table].field(name).type]
    return f'ALTER TABLE {table} ADD COLUMN "{name}" {kind} DEFAULT CAST(0 AS {kind})'


_VERSION_1: Final = tuple(create(table, schema) for table, schema in _FIRST.items())
_VERSION_2: Final = (create("sessions", SESSIONS),)
_VERSION_3: Final = tuple(add(table, name) for table, names in _ADDED[3].items() for name in names)
MIGRATIONS: Final = (_VERSION_1, _VERSION_2, _VERSION_3)
"""Statements that lead from version i to i + 1. A migration that was released is never edited; `TABLES` is what all of
them together make (a test holds the two together)."""
VERSION: Final = len(MIGRATIONS)
Settings = dict[str, str | bool | int | float | list[str]]
"""DuckDB's own settings."""
SETTINGS: Final[Settings] = {
    "threads": 2,  # it is embedded: the host's work comes first
    "memory_limit": "1GB",
    "wal_autocheckpoint": "1TB",  # never by itself: see connection
    "preserve_insertion_order": True,  # reads rely on it for the order of ordinals
    "enable_external_access": False,  # the record's own file and log are all that is touched
    "python_enable_replacements": False,  # a table's name never means a variable of the host
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


def card_row(run_key: str, ordinal: int, prepared: PreparedCard) -> tuple[Any, ...]:
    """The row of a card."""
    index = dict(zip(INDEX_CARDS.names, index_row(ordinal, prepared), strict=True))
    rest = {"run_key": run_key, "text": prepared.card.text, "meta": card_meta(prepared.card)}
    return tuple(index[name] if name in index else rest[name] for name in CARDS.names)


def migrate(connection: duckdb.DuckDBPyConnection, now: int) -> None:
    """Brings a record to VERSION, each step in a transaction of its own. Raises DependencyUnavailable for a newer
    one."""
    connection.execute("CREATE TABLE IF NOT EXISTS schema_versions (version BIGINT, applied_at BIGINT)")
    found: tuple[Any] | None = connection.execute("SELECT coalesce(max(version), 0) FROM schema_versions").fetchone()
    assert found is not None
    if found[0] > VERSION:
        raise DependencyUnavailable(
            f"the record has schema version {found[0]} and this engine knows {VERSION}: use a newer engine",
            dependency="store",
            found=found[0],
            known=VERSION,
        )
    for version in range(found[0], VERSION):
        connection.execute("BEGIN")
        try:
            for statement in MIGRATIONS[version]:
                connection.execute(statement)
            connection.execute("INSERT INTO schema_versions VALUES (?, ?)", [version + 1, now])
        except duckdb.Error:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
