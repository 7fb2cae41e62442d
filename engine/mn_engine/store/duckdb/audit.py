"""Looking over the record: every leaf again from what its row says now, and what no leaf tells of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import duckdb

from mn_contract.errors import ContextError, NotFound, SourceMismatch
from mn_engine.domain.access import OPEN, Acl
from mn_engine.domain.artifacts import Artifact
from mn_engine.domain.cards import CardKey
from mn_engine.domain.leaves import columns_sha256
from mn_engine.domain.merkle import Frontier
from mn_engine.store.columns import card_of
from mn_engine.store.duckdb.leaves import LEAF_ROWS
from mn_engine.store.duckdb.names import event_hash, handle_hash, sha_hash
from mn_engine.store.duckdb.rows import rows
from mn_engine.store.duckdb.schema import TABLES
from mn_engine.store.port import RootAt, StoredLeaf

_BESIDE: Final = {"artifacts": ("name_hash", "sha_hash", "data"), "events": ("name_hash",)}
"""Columns that are not in a leaf, because they follow from those that are."""
_HASHED: Final = ("heads", "invocations", "sessions")


def find_roots(cursor: duckdb.DuckDBPyConnection, run_key: str) -> list[RootAt]:
    """A run's roots, oldest first."""
    found = rows(cursor, "SELECT revision, frontier, root FROM heads WHERE run_key = ? ORDER BY seq", [run_key])
    return [RootAt(revision, Frontier.of(frontier).size, root) for revision, frontier, root in found]


def find_leaf_hashes(cursor: duckdb.DuckDBPyConnection, run_key: str) -> list[bytes]:
    """The hash of every leaf, in their order. Raises SourceMismatch where numbers are missing or stand there twice."""
    union = " UNION ALL ".join(f"SELECT leaf, leaf_hash FROM {table} WHERE run_key = ?" for table in LEAF_ROWS)
    found = rows(cursor, f"SELECT leaf, leaf_hash FROM ({union}) ORDER BY leaf", [run_key] * len(LEAF_ROWS))
    if any(number != at for at, (number, _) in enumerate(found)):
        raise SourceMismatch("the leaves of the record's tree are not numbered through; verify names what was changed")
    return [hashed for _, hashed in found]


def find_leaves(
    cursor: duckdb.DuckDBPyConnection, run_key: str, first: int, count: int, check_file: Callable[[str], None]
) -> list[StoredLeaf]:
    """The leaves from a number on, as their rows are now. `check_file` raises SourceMismatch where the file of an
    artifact is gone or another."""
    found: list[StoredLeaf] = []
    for table, leaves in LEAF_ROWS.items():
        beside = _BESIDE.get(table, ())
        names = ", ".join(f'"{name}"' for name in ("leaf", "leaf_hash", *leaves.columns, *beside))
        asked = rows(
            cursor,
            f"SELECT {names} FROM {table} WHERE run_key = ? AND leaf >= ? AND leaf < ? ORDER BY leaf",
            [run_key, first, first + count],
        )
        links = _links(cursor, run_key, [row[2] for row in asked]) if table == "cards" else {}
        for number, hashed, *row in asked:
            values = dict(zip((*leaves.columns, *beside), row, strict=True))
            record, wrong = b"", "it cannot be read"
            try:
                record = leaves.record(row[: len(leaves.columns)])
                wrong = "" if _follows(table, values, links, check_file) else "what follows from it does not"
            except SourceMismatch:
                wrong = "its bytes are not those of its name"
            except (ContextError, ValueError, TypeError, KeyError, AttributeError):
                pass  # what no writer can have stored: it cannot be read
            kind = table.removesuffix("s")
            found.append(StoredLeaf(number, kind, _name(kind, values), record, bytes(hashed or b""), wrong))
    return sorted(found, key=lambda leaf: leaf.number)


def find_card_leaves(cursor: duckdb.DuckDBPyConnection, run_key: str, ordinals: Sequence[int]) -> dict[int, int]:
    """The leaves' numbers of cards, by ordinal. Raises NotFound."""
    asked = rows(
        cursor,
        "SELECT ordinal, leaf FROM cards WHERE run_key = ? AND list_contains(?, ordinal)",
        [run_key, list(ordinals)],
    )
    if len(asked) != len(set(ordinals)):
        raise NotFound("there is no such card in this run")
    return dict(asked)


def find_strays(cursor: duckdb.DuckDBPyConnection, run_key: str, size: int) -> Iterator[str]:
    """What no leaf tells of, in words: rows whose number is not in the tree, relations whose card is not there, and
    rows that are no leaves whose hash is not theirs."""
    for table in LEAF_ROWS:
        condition = "run_key = ? AND (leaf >= 0 AND leaf < ?) IS NOT TRUE"
        ((count,),) = rows(cursor, f"SELECT count(*) FROM {table} WHERE {condition}", [run_key, size])
        if count:
            yield f"{count} of {table} are not in the tree"
    lost = "run_key = ? AND source_ordinal NOT IN (SELECT ordinal FROM cards WHERE run_key = ?)"
    ((count,),) = rows(cursor, f"SELECT count(*) FROM relations WHERE {lost}", [run_key, run_key])
    if count:
        yield f"{count} of relations are of no card"
    for table in _HASHED:
        names = ", ".join(TABLES[table].names)
        stored = rows(cursor, f"SELECT {names} FROM {table} WHERE run_key = ? ORDER BY rowid", [run_key])
        for number, (*row, hashed) in enumerate(stored):
            if columns_sha256(row) != hashed:
                yield f"row {number} of {table} is not what its hash says"


def _links(cursor: duckdb.DuckDBPyConnection, run_key: str, ordinals: list[int]) -> dict[int, list[tuple[str, int]]]:
    """(type, target) of the stored relations of cards, by ordinal."""
    if not ordinals:
        return {}
    stored = rows(
        cursor,
        "SELECT source_ordinal, type, target_hash FROM relations"
        " WHERE run_key = ? AND source_ordinal >= ? AND source_ordinal <= ? ORDER BY rowid",
        [run_key, min(ordinals), max(ordinals)],
    )
    found: dict[int, list[tuple[str, int]]] = {}
    for ordinal, type_, target in stored:
        found.setdefault(ordinal, []).append((type_, target))
    return found


def _follows(
    table: str,
    values: dict[str, Any],
    links: dict[int, list[tuple[str, int]]],
    check_file: Callable[[str], None],
) -> bool:
    """Whether what is stored beside a leaf follows from it. Raises SourceMismatch where an artifact's bytes do not."""
    if table == "cards":
        card = card_of(values["text"], values["meta"])
        told = [(relation.type, relation.target.hash) for relation in card.relations]
        return told == links.get(values["ordinal"], [])
    if table == "events":
        return bool(values["name_hash"] == event_hash(values["owner"], values["key"]))
    if table == "endings":
        by = values["by_hash"]
        return by is None or bool(by == CardKey(values["by_owner"], values["by_id"]).hash)
    acl = Acl.from_json(json.loads(values["acl"])) if values["acl"] else OPEN
    handle = Artifact(
        sha256=values["sha256"],
        size=values["size"],
        media_type=values["media_type"],
        owner=values["owner"],
        acl=acl,
    )
    if values["data"] is None:
        check_file(handle.sha256)
    elif hashlib.sha256(values["data"]).hexdigest() != handle.sha256 or len(values["data"]) != handle.size:
        raise SourceMismatch("an artifact's bytes are not those of its name")
    return (values["name_hash"], values["sha_hash"]) == (handle_hash(handle), sha_hash(handle.sha256))


def _name(kind: str, values: dict[str, Any]) -> str:
    """What a leaf is called, whoever asks: `owner:id` of a card, and so on."""
    if kind == "artifact":
        return str(values["sha256"])
    if kind == "ending":
        return str(values["revision"])
    return f"{values['owner']}:{values['id' if kind == 'card' else 'key']}"
