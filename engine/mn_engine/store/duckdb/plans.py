"""Plans: how each kind of write is decided in memory and which rows it stages.

The decisions themselves are the domain's and the port's shared rules; a plan only brings them what is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mn_contract.canonical import encoded
from mn_contract.invocations import MAY_BE_BILLED, Attempt
from mn_engine.domain.artifacts import Artifact
from mn_engine.domain.cards import SUPERSEDES, CardKey, ordinal_of
from mn_engine.domain.deadlines import Expired
from mn_engine.domain.events import Batch, BatchReceipt, EventReceipt, PreparedEvent, check_replay
from mn_engine.domain.runs import Run
from mn_engine.store.columns import acl_text
from mn_engine.store.decide import Known, advanced, check_deadline, clash, decide, endings, receipt_of
from mn_engine.store.duckdb.facts import event_hash, handle_hash, sha_hash
from mn_engine.store.duckdb.queries import find_event, find_invocations, find_session, has_handle
from mn_engine.store.duckdb.schema import CARDS, card_row
from mn_engine.store.duckdb.staging import Planning
from mn_engine.store.port import RESOLVED, SUPERSEDED, Answer, DecideInvocation, DecideSession, Invocations


def plan_batch(planning: Planning, batch: Batch, expired: Expired) -> BatchReceipt:
    """Decides a batch by the shared rules and stages what is new of it."""
    check_deadline(expired)
    run_key = batch.run_key
    known = Known(
        run=planning.head(run_key),
        event=lambda owner, key: _event(planning, run_key, owner, key),
        has_cards=lambda keys: _has_cards(planning, run_key, keys),
        new_artifact_bytes=lambda event: sum(handle.size for handle in _new_handles(planning, run_key, event)),
    )
    decided = decide(batch, known)
    if decided.new:
        place = 0
        for event in decided.new:
            place = _stage_event(planning, run_key, event, decided.run.revision, place)
        planning.own.size += decided.run.stored_bytes - known.run.stored_bytes
        stage_head(planning, run_key, decided.run)
    return decided.receipt


def plan_table(
    planning: Planning, run_key: str, *, owner: str, key: str, fingerprint: str, cards: pa.Table
) -> BatchReceipt:
    """Decides a bulk event, column by column."""
    head = planning.head(run_key)
    head.check_readable()
    recorded = _event(planning, run_key, owner, key)
    if recorded is not None:
        replayed = check_replay(recorded, fingerprint)
        return BatchReceipt(revision=head.revision, events=(replayed,))
    head.check_writable()
    hashes = cards["key_hash"].to_numpy()
    _check_new(planning, run_key, owner, cards, hashes)
    charged = int(pc.sum(pc.binary_length(cards["text"])).as_py())
    head.check_room(charged)
    run = advanced(head, charged, [fingerprint])
    staged = _bulk_rows(run_key, owner, ordinal_of(run.revision, 0), cards)
    planning.own.tables.append(("cards", staged))
    planning.own.arrays.append((run_key, hashes))
    planning.own.size += staged.nbytes
    receipt = EventReceipt(key=key, revision=run.revision, replayed=False, fingerprint=fingerprint, cards=())
    _stage_receipt(planning, run_key, owner, receipt)
    stage_head(planning, run_key, run)
    return BatchReceipt(revision=run.revision, events=(receipt,))


def _bulk_rows(run_key: str, owner: str, first: int, cards: pa.Table) -> pa.Table:
    count = cards.num_rows
    added = {
        "run_key": pa.repeat(pa.scalar(run_key), count),
        "owner": pa.repeat(pa.scalar(owner), count),
        "ordinal": pa.array(np.arange(first, first + count, dtype=np.int64)),
    }
    return pa.table([added[name] if name in added else cards[name] for name in CARDS.names], schema=CARDS)


def plan_handle(planning: Planning, run_key: str, handle: Artifact, data: bytes | None) -> Artifact:
    """Stages an upload's handle, and its bytes where they lie in the record; charges what is new."""
    head = planning.head(run_key)
    head.check_writable()
    if not _has_handle(planning, run_key, handle):
        head.check_room(handle.size)
        _stage_artifact(planning, run_key, handle, data)
        planning.own.size += len(data or b"")
        stage_head(planning, run_key, replace(head, stored_bytes=head.stored_bytes + handle.size))
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
    planning.own.insert("sessions", (run_key, planning.next_seq(), principal, session_id, state))
    planning.own.sessions[key] = state
    return answer


def known_invocations(planning: Planning, run_key: str, principal: str, name: str) -> Invocations:
    """What is known of an invocation, what the group has staged included."""
    by_attempt = find_invocations(planning.connection, run_key, principal, name)
    for attempt in planning.group.attempts.get((run_key, principal, name), ()):
        by_attempt[attempt.attempt] = attempt
    calls = planning.run_facts(run_key).run_calls + planning.group.calls.get(run_key, 0)
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
        (
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
        ),
    )


def _event(planning: Planning, run_key: str, owner: str, key: str) -> EventReceipt | None:
    hashed = event_hash(owner, key)
    staged: EventReceipt | None = planning.staged(run_key, "events", hashed)
    if staged is not None:
        return staged
    if hashed not in planning.run_facts(run_key).events:
        return None
    return find_event(planning.connection, run_key, owner, key)


def _has_cards(planning: Planning, run_key: str, keys: set[CardKey]) -> set[CardKey]:
    facts = planning.run_facts(run_key)
    staged = planning.group.names.get((run_key, "cards"), {})
    arrays = [hashes for of, hashes in planning.group.arrays if of == run_key]
    return {
        key
        for key in keys
        if (hashed := key.hash) in facts.cards or hashed in staged or any(np.isin(hashed, array) for array in arrays)
    }


def _check_new(planning: Planning, run_key: str, owner: str, cards: pa.Table, hashes: NDArray[np.uint64]) -> None:
    known = planning.run_facts(run_key).cards.any_of(hashes)
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
    if hashed not in planning.run_facts(run_key).handles:
        return False
    return has_handle(planning.connection, run_key, handle)


def _new_handles(planning: Planning, run_key: str, event: PreparedEvent) -> Iterable[Artifact]:
    distinct = {artifact.handle for artifact in event.artifacts}
    return [handle for handle in distinct if not _has_handle(planning, run_key, handle)]


def _stage_event(planning: Planning, run_key: str, event: PreparedEvent, revision: int, place: int) -> int:
    data = {artifact.handle: artifact.data for artifact in event.artifacts}
    for handle in _new_handles(planning, run_key, event):
        if planning.own.names.get((run_key, "handles"), {}).get(handle_hash(handle)) is None:
            _stage_artifact(planning, run_key, handle, data[handle])
    for prepared in event.cards:
        ordinal = ordinal_of(revision, place)
        card = prepared.card
        planning.own.insert("cards", card_row(run_key, ordinal, prepared))
        planning.own.name(run_key, "cards", prepared.analysis.key_hash, ordinal)
        for relation in card.relations:
            target = relation.target.hash
            planning.own.insert("relations", (run_key, ordinal, relation.type, target))
        place += 1
    for target_key, effect, by in endings(event):
        planning.own.insert(
            "endings",
            (
                run_key,
                revision,
                target_key.hash,
                SUPERSEDED if effect == SUPERSEDES else RESOLVED,
                None if by is None else by.hash,
                None if by is None else by.owner,
                None if by is None else by.id,
            ),
        )
    _stage_receipt(planning, run_key, event.owner, receipt_of(event, revision))
    return place


def _stage_receipt(planning: Planning, run_key: str, owner: str, receipt: EventReceipt) -> None:
    hashed = event_hash(owner, receipt.key)
    ids = encoded([key.id for key in receipt.cards]).decode()
    planning.own.insert("events", (run_key, receipt.revision, hashed, owner, receipt.key, receipt.fingerprint, ids))
    planning.own.name(run_key, "events", hashed, receipt)


def _stage_artifact(planning: Planning, run_key: str, handle: Artifact, data: bytes | None) -> None:
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
        ),
    )
    planning.own.name(run_key, "handles", hashed, handle)


def _invocation_row(run_key: str, seq: int, principal: str, attempt: Attempt) -> tuple[Any, ...]:
    return (
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
