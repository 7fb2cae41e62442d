"""Plans: how each kind of write is decided in memory and which rows it stages.

The decisions themselves are the domain's and the port's shared rules; a plan only brings them what is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mn_contract.invocations import MAY_BE_BILLED, Attempt
from mn_engine.domain.artifacts import Artifact
from mn_engine.domain.cards import CardKey, ordinal_of
from mn_engine.domain.deadlines import Expired
from mn_engine.domain.events import Batch, BatchReceipt, EventReceipt, PreparedArtifact, check_replay
from mn_engine.domain.leaves import columns_sha256
from mn_engine.domain.runs import Run
from mn_engine.store.columns import acl_text
from mn_engine.store.decide import CardRow, Known, Written, check_deadline, clash, decide
from mn_engine.store.duckdb.names import event_hash, handle_hash, sha_hash
from mn_engine.store.duckdb.queries import find_event, find_invocations, find_session, has_handle
from mn_engine.store.duckdb.schema import CARDS
from mn_engine.store.duckdb.staging import Planning
from mn_engine.store.port import INDEX_CARDS, Answer, DecideInvocation, DecideSession, Invocations
from mn_engine.store.tree import Leaf, Numbers, card_ids, leaf_hashes_of_cards, leaf_of_event, leaf_of_handle


def plan_batch(planning: Planning, batch: Batch, expired: Expired) -> BatchReceipt:
    """Decides a batch by the shared rules and stages what is new of it."""
    check_deadline(expired)
    run_key = batch.run_key
    known = Known(
        run=planning.head(run_key),
        event=lambda owner, key: _event(planning, run_key, owner, key),
        has_cards=lambda keys: _has_cards(planning, run_key, keys),
        has_handle=lambda handle: _has_handle(planning, run_key, handle),
    )
    decided = decide(batch, known)
    if decided.new:
        for written in decided.new:
            _stage_event(planning, run_key, written)
        planning.own.size += decided.run.stored_bytes - known.run.stored_bytes
        stage_head(planning, run_key, decided.run)
    return decided.receipt


def plan_table(
    planning: Planning,
    run_key: str,
    *,
    owner: str,
    key: str,
    fingerprint: str,
    cards: pa.Table,
    artifacts: Sequence[PreparedArtifact],
    recorded_at: int,
    expired: Expired,
) -> BatchReceipt:
    """Decides a bulk event, column by column."""
    check_deadline(expired)
    head = planning.head(run_key)
    head.check_readable()
    recorded = _event(planning, run_key, owner, key)
    if recorded is not None:
        replayed = check_replay(recorded, fingerprint)
        return BatchReceipt(revision=head.revision, events=(replayed,))
    head.check_writable()
    hashes = cards["key_hash"].to_numpy()
    _check_new(planning, run_key, owner, cards, hashes)
    new = [one for one in dict.fromkeys(artifacts) if not _has_handle(planning, run_key, one.handle)]
    charged = int(pc.sum(pc.binary_length(cards["text"])).as_py()) + sum(one.handle.size for one in new)
    head.check_room(charged)
    receipt = EventReceipt(key=key, revision=head.revision + 1, replayed=False, fingerprint=fingerprint, cards=())
    numbers = Numbers(head.frontier.size)
    handles = [numbers.leaf(leaf_of_handle(one.handle)) for one in new]
    for one, leaf in zip(new, handles, strict=True):
        _stage_artifact(planning, run_key, one.handle, one.data, leaf)
    size = head.frontier.size + len(handles)
    staged, hashes_of_cards = _bulk_rows(run_key, owner, ordinal_of(receipt.revision, 0), cards, size)
    leaf = Numbers(size + len(hashes_of_cards)).leaf(leaf_of_event(owner, receipt, recorded_at))
    planning.own.tables.append(("cards", staged))
    planning.own.arrays.append((run_key, hashes))
    planning.own.size += staged.nbytes + charged
    _stage_receipt(planning, run_key, owner, receipt, recorded_at, leaf)
    leaves = [*(one.hash for one in handles), *hashes_of_cards, leaf.hash]
    run = head.recorded(leaves, charged=charged, revision=receipt.revision)
    stage_head(planning, run_key, run)
    return BatchReceipt(revision=receipt.revision, events=(receipt,))


def _bulk_rows(run_key: str, owner: str, first: int, cards: pa.Table, size: int) -> tuple[pa.Table, list[bytes]]:
    """The rows of bulk cards, and the hashes of their leaves, which follow `size` others."""
    count = cards.num_rows
    added = {
        "run_key": pa.repeat(pa.scalar(run_key), count),
        "owner": pa.repeat(pa.scalar(owner), count),
        "ordinal": pa.array(np.arange(first, first + count, dtype=np.int64)),
    }
    columns = [added[name] if name in added else cards[name] for name in INDEX_CARDS.names]
    hashes = leaf_hashes_of_cards(columns, cards["meta"], cards["text"])
    added["leaf"] = pa.array(np.arange(size, size + count, dtype=np.int64))
    added["leaf_hash"] = pa.array(hashes, pa.binary())
    staged = [added[name] if name in added else cards[name] for name in CARDS.names]
    return pa.table(staged, schema=CARDS), hashes


def plan_handle(planning: Planning, run_key: str, handle: Artifact, data: bytes | None) -> Artifact:
    """Stages an upload's handle, and its bytes where they lie in the record; charges what is new."""
    head = planning.head(run_key)
    head.check_writable()
    if not _has_handle(planning, run_key, handle):
        head.check_room(handle.size)
        leaf = Numbers(head.frontier.size).leaf(leaf_of_handle(handle))
        _stage_artifact(planning, run_key, handle, data, leaf)
        planning.own.size += len(data or b"")
        stage_head(planning, run_key, head.recorded([leaf.hash], charged=handle.size))
    return handle


def plan_invocation(
    planning: Planning, run_key: str, principal: str, name: str, decide_it: DecideInvocation
) -> tuple[Attempt, ...]:
    """Asks `decide_it` and stages the attempts that it answers."""
    planning.head(run_key).check_readable()
    known = known_invocations(planning, run_key, principal, name)
    written = decide_it(known)
    before = dict(known.by_attempt)
    for attempt in written:
        old = before.get(attempt.attempt)
        delta = (attempt.state in MAY_BE_BILLED) - (old is not None and old.state in MAY_BE_BILLED)
        planning.own.calls[run_key] = planning.own.calls.get(run_key, 0) + delta
        planning.own.size += len(attempt.response or b"")
        planning.own.insert("invocations", _invocation_row(run_key, planning.next_seq(), principal, attempt))
        before[attempt.attempt] = attempt
    if written:
        planning.own.attempts[run_key, principal, name] = list(written)
    return written


def plan_session(
    planning: Planning, run_key: str, principal: str, session_id: str, decide_it: DecideSession[Answer]
) -> Answer:
    """Asks `decide_it` and stages the state that it answers."""
    planning.head(run_key).check_writable()
    key = run_key, principal, session_id
    before = planning.group.sessions.get(key)
    if before is None:
        before = find_session(planning.connection, *key)
    state, answer = decide_it(before)
    planning.own.size += len(state)
    planning.own.insert("sessions", _hashed(run_key, planning.next_seq(), principal, session_id, state))
    planning.own.sessions[key] = state
    return answer


def known_invocations(planning: Planning, run_key: str, principal: str, name: str) -> Invocations:
    """What is known of an invocation, what the group has staged included."""
    by_attempt = find_invocations(planning.connection, run_key, principal, name)
    for attempt in planning.group.attempts.get((run_key, principal, name), ()):
        by_attempt[attempt.attempt] = attempt
    calls = planning.run_names(run_key).run_calls + planning.group.calls.get(run_key, 0)
    return invocations_of(by_attempt, calls)


def invocations_of(by_attempt: dict[int, Attempt], run_calls: int) -> Invocations:
    """The port's value."""
    return Invocations(
        newest=by_attempt[max(by_attempt)] if by_attempt else None,
        by_attempt=by_attempt,
        run_calls=run_calls,
    )


def stage_head(planning: Planning, run_key: str, head: Run) -> None:
    """Stages a run's new head."""
    stone = head.tombstone
    planning.own.heads[run_key] = head
    planning.own.insert(
        "heads",
        _hashed(
            run_key,
            planning.next_seq(),
            head.job_id,
            head.run_id,
            int(head.state),
            head.revision,
            head.root,
            head.stored_bytes,
            head.max_stored_bytes,
            head.opened_at,
            head.reason,
            None if stone is None else stone.cleared_at,
            None if stone is None else int(stone.removal),
            head.frontier.text,
        ),
    )


def _event(planning: Planning, run_key: str, owner: str, key: str) -> EventReceipt | None:
    hashed = event_hash(owner, key)
    staged: EventReceipt | None = planning.staged(run_key, "events", hashed)
    if staged is not None:
        return staged
    if hashed not in planning.run_names(run_key).events:
        return None
    return find_event(planning.connection, run_key, owner, key)


def _has_cards(planning: Planning, run_key: str, keys: set[CardKey]) -> set[CardKey]:
    names = planning.run_names(run_key)
    staged = planning.group.names.get((run_key, "cards"), {})
    arrays = [hashes for of, hashes in planning.group.arrays if of == run_key]
    return {
        key
        for key in keys
        if (hashed := key.hash) in names.cards or hashed in staged or any(np.isin(hashed, array) for array in arrays)
    }


def _check_new(planning: Planning, run_key: str, owner: str, cards: pa.Table, hashes: NDArray[np.uint64]) -> None:
    known = planning.run_names(run_key).cards.any_of(hashes)
    staged = planning.group.names.get((run_key, "cards"), {})
    known |= np.isin(hashes, np.fromiter(staged, np.uint64, len(staged)))
    for of, array in planning.group.arrays:
        if of == run_key:
            known |= np.isin(hashes, array)
    if known.any():
        raise clash(CardKey(owner, cards["id"][int(known.argmax())].as_py()))


def _has_handle(planning: Planning, run_key: str, handle: Artifact) -> bool:
    hashed = handle_hash(handle)
    if planning.staged(run_key, "handles", hashed) is not None:
        return True
    if hashed not in planning.run_names(run_key).handles:
        return False
    return has_handle(planning.connection, run_key, handle)


def _stage_event(planning: Planning, run_key: str, written: Written) -> None:
    for artifact, leaf in written.handles:
        _stage_artifact(planning, run_key, artifact.handle, artifact.data, leaf)
    for row in written.cards:
        planning.own.insert("cards", _card_row(run_key, row))
        planning.own.name(run_key, "cards", row.prepared.analysis.key_hash, row.ordinal)
        for relation in row.prepared.card.relations:
            target = relation.target.hash
            planning.own.insert("relations", (run_key, row.ordinal, relation.type, target))
    for ending, leaf in written.endings:
        planning.own.insert("endings", (run_key, *astuple(ending), leaf.number, leaf.hash))
    event = written.event
    _stage_receipt(planning, run_key, event.owner, written.receipt, event.recorded_at, written.leaf)


def _card_row(run_key: str, row: CardRow) -> tuple[Any, ...]:
    values = dict(zip(INDEX_CARDS.names, row.columns, strict=True))
    values |= {
        "run_key": run_key,
        "text": row.prepared.card.text,
        "meta": row.meta,
        "leaf": row.leaf.number,
        "leaf_hash": row.leaf.hash,
    }
    return tuple(values[name] for name in CARDS.names)


def _stage_receipt(
    planning: Planning, run_key: str, owner: str, receipt: EventReceipt, recorded_at: int, leaf: Leaf
) -> None:
    hashed = event_hash(owner, receipt.key)
    told = (receipt.revision, hashed, owner, receipt.key, receipt.fingerprint, card_ids(receipt), recorded_at)
    planning.own.insert("events", (run_key, *told, leaf.number, leaf.hash))
    planning.own.name(run_key, "events", hashed, receipt)


def _stage_artifact(planning: Planning, run_key: str, handle: Artifact, data: bytes | None, leaf: Leaf) -> None:
    hashed = handle_hash(handle)
    planning.own.insert(
        "artifacts",
        (
            run_key,
            hashed,
            sha_hash(handle.sha256),
            handle.sha256,
            handle.size,
            handle.media_type,
            handle.owner,
            acl_text(handle.acl),
            data,  # a second handle on the same bytes stores them again: they are small
            leaf.number,
            leaf.hash,
        ),
    )
    planning.own.name(run_key, "handles", hashed, handle)


def _invocation_row(run_key: str, seq: int, principal: str, attempt: Attempt) -> tuple[Any, ...]:
    return _hashed(
        run_key,
        seq,
        principal,
        attempt.name,
        attempt.attempt,
        attempt.state.value,
        attempt.epoch,
        attempt.holder,
        attempt.lease_until_ms,
        attempt.fingerprint,
        ",".join(sorted(attempt.roles)),
        attempt.request_sha256,
        attempt.retry,
        attempt.response,
        attempt.usable,
        attempt.evidence,
    )


def _hashed(*row: Any) -> tuple[Any, ...]:
    """A row that is no leaf, with its hash behind it."""
    return (*row, columns_sha256(row))
