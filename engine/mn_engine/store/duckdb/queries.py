"""Reads of the record: rows to domain values. Every query names its run."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from operator import itemgetter
from typing import Any

import duckdb
import pyarrow as pa

from mn_contract.errors import InvalidInput, NotFound
from mn_contract.invocations import MAY_BE_BILLED, Attempt, State
from mn_engine.domain.access import OPEN, Acl
from mn_engine.domain.artifacts import Artifact
from mn_engine.domain.cards import CardKey, StoredCard
from mn_engine.domain.events import EventReceipt
from mn_engine.domain.merkle import Frontier
from mn_engine.domain.runs import Removal, Run, RunState, Tombstone
from mn_engine.store.columns import acl_text, card_of
from mn_engine.store.duckdb.names import Hashes, RunNames, event_hash, handle_hash, sha_hash
from mn_engine.store.duckdb.rows import rows, table
from mn_engine.store.duckdb.schema import HEADS, INVOCATIONS
from mn_engine.store.port import (
    INDEX_CARDS,
    INDEX_ENDINGS,
    INDEX_RELATIONS,
    RESOLVED,
    SUPERSEDED,
    IndexColumns,
)

_HEAD = ", ".join(HEADS.names)
_INVOCATION = ", ".join(INVOCATIONS.names[3:-1])


def find_head(cursor: duckdb.DuckDBPyConnection, run_key: str) -> Run:
    """The run's newest head. Raises NotFound."""
    found = rows(cursor, f"SELECT {_HEAD} FROM heads WHERE run_key = ? ORDER BY seq DESC LIMIT 1", [run_key])
    if not found:
        raise NotFound("there is no such run: open it, or write to it first")
    head = dict(zip(HEADS.names, found[0], strict=True))
    tombstone = None
    if head["cleared_at"] is not None:
        tombstone = Tombstone(
            revision=head["revision"],
            root=head["root"],
            cleared_at=head["cleared_at"],
            removal=Removal(head["removal"]),
        )
    return Run(
        job_id=head["job_id"],
        run_id=head["run_id"],
        state=RunState(head["state"]),
        revision=head["revision"],
        root=head["root"],
        frontier=Frontier.of(head["frontier"]),
        stored_bytes=head["stored_bytes"],
        max_stored_bytes=head["max_stored_bytes"],
        opened_at=head["opened_at"],
        reason=head["reason"],
        tombstone=tombstone,
    )


def load_names(cursor: duckdb.DuckDBPyConnection, run_key: str) -> RunNames:
    """What the writer keeps of a run. Raises NotFound."""
    head = find_head(cursor, run_key)
    hashes = {
        name: Hashes(cursor.execute(f"SELECT {column} AS h FROM {of} WHERE run_key = ?", [run_key]).fetchnumpy()["h"])
        for name, of, column in (
            ("events", "events", "name_hash"),
            ("cards", "cards", "key_hash"),
            ("handles", "artifacts", "name_hash"),
        )
    }
    return RunNames(head=head, run_calls=count_calls(cursor, run_key), **hashes)


def max_seq(cursor: duckdb.DuckDBPyConnection) -> int:
    """The largest number that a row of which the newest counts has."""
    found = rows(
        cursor,
        "SELECT max(seq) FROM (SELECT 0 AS seq UNION ALL SELECT max(seq) FROM heads"
        " UNION ALL SELECT max(seq) FROM invocations UNION ALL SELECT max(seq) FROM sessions)",
    )
    return int(found[0][0])


def find_session(cursor: duckdb.DuckDBPyConnection, run_key: str, principal: str, session_id: str) -> str:
    """A session's newest state; empty where there is none."""
    found = rows(
        cursor,
        "SELECT state FROM sessions WHERE run_key = ? AND principal = ? AND session_id = ? ORDER BY seq DESC LIMIT 1",
        [run_key, principal, session_id],
    )
    return str(found[0][0]) if found else ""


def find_event(cursor: duckdb.DuckDBPyConnection, run_key: str, owner: str, key: str) -> EventReceipt | None:
    """The receipt of a committed event."""
    found = rows(
        cursor,
        "SELECT revision, fingerprint, cards FROM events WHERE run_key = ? AND name_hash = ? AND owner = ? AND key = ?",
        [run_key, event_hash(owner, key), owner, key],
    )
    if not found:
        return None
    revision, fingerprint, ids = found[0]
    cards = tuple(CardKey(owner, card_id) for card_id in json.loads(ids))
    return EventReceipt(key=key, revision=revision, replayed=False, fingerprint=fingerprint, cards=cards)


def find_revision_at(cursor: duckdb.DuckDBPyConnection, run_key: str, time: int) -> int:
    """The newest revision that was recorded by a time; 0 where none was."""
    sql = "SELECT coalesce(max(revision), 0) FROM events WHERE run_key = ? AND recorded_at > 0 AND recorded_at <= ?"
    ((revision,),) = rows(cursor, sql, [run_key, time])
    return int(revision)


def check_bulk_meta(cursor: duckdb.DuckDBPyConnection, owner: str, cards: pa.Table) -> None:
    """Raises InvalidInput where a row's meta is not of its card, or tells of relations."""
    cursor.register("bulk", cards)
    try:
        wrong = rows(
            cursor,
            "SELECT count(*) FROM"
            " (SELECT id, json_extract_string(meta, ['$.owner', '$.id', '$.relations[0]']) AS said FROM bulk)"
            " WHERE (said[1] = ? AND said[2] = id AND said[3] IS NULL) IS NOT TRUE",
            [owner],
        )
    except duckdb.InvalidInputException as error:
        raise InvalidInput("a bulk row's meta is not JSON", field="cards.meta") from error
    finally:
        cursor.unregister("bulk")
    if wrong[0][0]:
        raise InvalidInput("a bulk row's meta is not of its card", field="cards.meta")


def find_handles(
    cursor: duckdb.DuckDBPyConnection, run_key: str, hashes: Collection[str]
) -> dict[str, tuple[Artifact, ...]]:
    """sha256 -> all handles of that artifact, in the order they were put; without those that the run does not have."""
    found = _artifact_rows(cursor, run_key, hashes, "NULL")
    return {sha256: tuple(_handle(row) for row in found[sha256]) for sha256 in hashes if sha256 in found}


def find_bytes(
    cursor: duckdb.DuckDBPyConnection, run_key: str, hashes: Collection[str]
) -> dict[str, tuple[tuple[Artifact, ...], bytes | None]]:
    """The same, with the bytes (None where they lie in a file)."""
    found = _artifact_rows(cursor, run_key, hashes, "data")
    return {sha256: (tuple(_handle(row) for row in found[sha256]), found[sha256][0][-1]) for sha256 in found}


def has_handle(cursor: duckdb.DuckDBPyConnection, run_key: str, handle: Artifact) -> bool:
    """Whether exactly this handle is there."""
    return bool(
        rows(
            cursor,
            "SELECT 1 FROM artifacts WHERE run_key = ? AND name_hash = ? AND sha256 = ? AND media_type = ?"
            " AND owner = ? AND acl = ? LIMIT 1",
            [run_key, handle_hash(handle), handle.sha256, handle.media_type, handle.owner, acl_text(handle.acl)],
        )
    )


def find_index_columns(
    cursor: duckdb.DuckDBPyConnection, run_key: str, low: int, high: int, revisions: tuple[int, int]
) -> IndexColumns:
    """Rows of cards with ordinals in [low, high) and of endings in (revisions[0], revisions[1]]."""
    bounds = [run_key, low, high]
    cards = table(
        cursor,
        f"SELECT {', '.join(INDEX_CARDS.names)} FROM cards WHERE run_key = ? AND ordinal >= ? AND ordinal < ?",
        bounds,
        INDEX_CARDS,
    )
    relations = table(
        cursor,
        "SELECT source_ordinal, type, target_hash FROM relations"
        " WHERE run_key = ? AND source_ordinal >= ? AND source_ordinal < ?",
        bounds,
        INDEX_RELATIONS,
    )
    endings = table(
        cursor,
        "SELECT revision, target_hash, kind, by_hash FROM endings WHERE run_key = ? AND revision > ? AND revision <= ?",
        [run_key, *revisions],
        INDEX_ENDINGS,
    )
    return IndexColumns(cards=_ascending(cards), relations=relations, endings=endings)


def _ascending(cards: pa.Table) -> pa.Table:
    """Cards by ordinal: in a group of writes the tables are inserted behind the rows. Mostly they are so already, which
    is seen faster than they are sorted."""
    ordinals = cards["ordinal"].to_numpy()
    return cards if (ordinals[1:] > ordinals[:-1]).all() else cards.sort_by("ordinal")


def find_stored(
    cursor: duckdb.DuckDBPyConnection, run_key: str, ordinals: Sequence[int], revision: int
) -> list[StoredCard]:
    """Cards in the order asked, and what became of them up to `revision`. Raises NotFound."""
    sql = f"SELECT ordinal, key_hash, text, meta FROM cards {_among('ordinal', 'BIGINT')} WHERE run_key = ?"
    answer = rows(cursor, sql, [list(ordinals), run_key])
    found = {ordinal: (key_hash, card_of(text, meta)) for ordinal, key_hash, text, meta in answer}
    if len(found) != len(set(ordinals)):
        raise NotFound("there is no such card in this run")
    ended = _find_endings(cursor, run_key, [key_hash for key_hash, _ in found.values()], revision)
    stored = []
    for ordinal in ordinals:
        key_hash, card = found[ordinal]
        superseded = ended.get((key_hash, SUPERSEDED))
        resolved = ended.get((key_hash, RESOLVED))
        stored.append(
            StoredCard(
                card=card,
                ordinal=ordinal,
                superseded_revision=superseded and superseded[0],
                superseded_by=superseded and superseded[1],
                resolved_revision=resolved and resolved[0],
            )
        )
    return stored


def find_invocations(cursor: duckdb.DuckDBPyConnection, run_key: str, principal: str, name: str) -> dict[int, Attempt]:
    """The newest row of each attempt of an invocation."""
    found = rows(
        cursor,
        f"SELECT {_INVOCATION} FROM invocations WHERE run_key = ? AND principal = ? AND name = ? ORDER BY seq",
        [run_key, principal, name],
    )
    attempts = {}
    for row in found:
        values = dict(zip(INVOCATIONS.names[3:-1], row, strict=True))
        values["state"] = State(values["state"])
        values["roles"] = frozenset(filter(None, values["roles"].split(",")))
        attempts[values["attempt"]] = Attempt(**values)
    return attempts


def count_calls(cursor: duckdb.DuckDBPyConnection, run_key: str) -> int:
    """Attempts of the run that may have been billed."""
    billed = ", ".join(f"'{state.value}'" for state in sorted(MAY_BE_BILLED, key=lambda state: state.value))
    found = rows(
        cursor,
        f"SELECT count(*) FILTER (WHERE state IN ({billed})) FROM (SELECT arg_max(state, seq) AS state"
        " FROM invocations WHERE run_key = ? GROUP BY principal, name, attempt)",
        [run_key],
    )
    return int(found[0][0])


def _find_endings(
    cursor: duckdb.DuckDBPyConnection, run_key: str, key_hashes: list[int], revision: int
) -> dict[tuple[int, int], tuple[int, CardKey | None]]:
    if not key_hashes:
        return {}
    found = rows(
        cursor,
        "SELECT target_hash, kind, revision, by_owner, by_id"
        f" FROM endings {_among('target_hash', 'UBIGINT')}"
        " WHERE run_key = ? AND revision <= ? ORDER BY revision DESC, endings.rowid DESC",
        [key_hashes, run_key, revision],
    )
    return {
        (target, kind): (at, None if by_owner is None else CardKey(by_owner, by_id))
        for target, kind, at, by_owner, by_id in found
    }


def _artifact_rows(
    cursor: duckdb.DuckDBPyConnection, run_key: str, hashes: Collection[str], data: str
) -> dict[str, list[tuple[Any, ...]]]:
    """sha256 -> a row for each handle, ending in `data`."""
    if not hashes:
        return {}
    wanted = set(hashes)
    sql = (
        f"SELECT rowid, sha256, size, media_type, owner, acl, {data} FROM artifacts {_among('sha_hash', 'UBIGINT')}"
        " WHERE run_key = ?"
    )
    answer = rows(cursor, sql, [[sha_hash(sha256) for sha256 in wanted], run_key])
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in sorted(answer, key=itemgetter(0)):
        if row[1] in wanted:
            found.setdefault(row[1], []).append(row)
    return found


def _handle(row: tuple[Any, ...]) -> Artifact:
    _, sha256, size, media_type, owner, acl, _ = row
    readers = Acl.from_json(json.loads(acl)) if acl else OPEN
    return Artifact(sha256=sha256, size=size, media_type=media_type, owner=owner, acl=readers)


def _among(column: str, sql_type: str) -> str:
    """A join that keeps rows whose column is one of a list of numbers, the next parameter: twenty times faster than IN
    with hundreds of them, and a parameter is planned faster than a list in the text."""
    return f"SEMI JOIN (SELECT unnest(?::{sql_type}[]) AS {column}) USING ({column})"
