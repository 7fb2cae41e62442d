"""Tables and migrations of the record, and every statement whose text another SQL dialect would change.

All tables are insert-only: what a run or a card has become is told by later rows. There are no primary keys: the writer
guards uniqueness itself, because DuckDB's index costs bulk inserts their speed and one violation aborts everybody's
transaction. `run_key` comes first everywhere, so that the same tables can be distributed by it.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from mn_engine.store.port import INDEX_CARDS

_LEAF: Final = [("leaf", pa.int64()), ("leaf_hash", pa.binary())]
"""Of what is a leaf of the run's tree: its number and its hash."""
_HASH: Final = ("row_sha256", pa.string())
"""Of what is none: `columns_sha256` of the columns before it."""

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
        ("frontier", pa.string()),
        _HASH,
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
        ("recorded_at", pa.int64()),  # microseconds; 0 where it is not known
        *_LEAF,
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
        *_LEAF,
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
        *_LEAF,
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
        *_LEAF,
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
        _HASH,
    ]
)
SESSIONS: Final = pa.schema(
    [
        ("run_key", pa.string()),
        ("seq", pa.int64()),
        ("principal", pa.string()),
        ("session_id", pa.string()),
        ("state", pa.string()),  # canonical JSON; the newest row counts
        _HASH,
    ]
)
_LEAF_COLUMNS: Final = ("leaf", "leaf_hash")
ADDED: Final = {
    3: {
        "heads": ("frontier", "row_sha256"),
        "events": ("recorded_at", *_LEAF_COLUMNS),
        "artifacts": _LEAF_COLUMNS,
        "cards": (*_FACT_COLUMNS, *_LEAF_COLUMNS),
        "endings": _LEAF_COLUMNS,
        "invocations": ("row_sha256",),
        "sessions": ("row_sha256",),
    }
}
"""Schema version -> table -> columns that it added, behind those that were there."""
FIRST: Final = {
    "heads": HEADS,
    "events": EVENTS,
    "artifacts": ARTIFACTS,
    "cards": CARDS,
    "relations": RELATIONS,
    "endings": ENDINGS,
    "invocations": INVOCATIONS,
}
TABLES: Final = {**FIRST, "sessions": SESSIONS}
"""Name -> columns of the newest schema version."""

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
