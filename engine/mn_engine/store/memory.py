"""The reference store: everything in this process, nothing durable, obviously right. Other stores are held to it."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from mn_contract.errors import InvalidInput, NotFound
from mn_contract.invocations import MAY_BE_BILLED, Attempt
from mn_contract.limits import ARTIFACT_BYTES_MAX
from mn_engine.domain.access import Acl
from mn_engine.domain.artifacts import Artifact, Permits, check_hash, check_permitted, check_range, to_all
from mn_engine.domain.cards import SUPERSEDES, CardKey, StoredCard, revision_of
from mn_engine.domain.deadlines import Expired, never
from mn_engine.domain.events import (
    Batch,
    BatchReceipt,
    EventReceipt,
    PreparedArtifact,
    PreparedCard,
)
from mn_engine.domain.merkle import leaf_hash
from mn_engine.domain.runs import Removal, Run, RunState, Tombstone
from mn_engine.domain.scope import run_key as key_of_run
from mn_engine.store.columns import arrow, event_of_table, index_row
from mn_engine.store.decide import Known, Written, check_deadline, decide, endings
from mn_engine.store.port import (
    INDEX_CARDS,
    INDEX_ENDINGS,
    INDEX_RELATIONS,
    RESOLVED,
    SUPERSEDED,
    Answer,
    DecideInvocation,
    DecideSession,
    IndexColumns,
    Invocations,
    OnCommit,
    RootAt,
    StoredLeaf,
    Upload,
)
from mn_engine.store.tree import leaf_of_card, leaf_of_ending, leaf_of_event, leaf_of_handle


@dataclass(frozen=True, slots=True)
class _Leaf:
    """What a leaf is and is called, its hash, and what makes its record of what is stored."""

    kind: str
    name: str
    hash: bytes
    record: Callable[[], bytes]


@dataclass(slots=True)
class _RunRows:
    """All that one run has."""

    head: Run
    events: dict[tuple[str, str], EventReceipt] = field(default_factory=dict)
    cards: dict[int, PreparedCard] = field(default_factory=dict)
    of_revision: dict[int, list[int]] = field(default_factory=dict)
    """The ordinals that each revision added."""
    ordinals: dict[CardKey, int] = field(default_factory=dict)
    endings: list[tuple[int, CardKey, int, CardKey | None]] = field(default_factory=list)
    handles: dict[str, list[Artifact]] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    attempts: dict[tuple[str, str], dict[int, Attempt]] = field(default_factory=dict)
    sessions: dict[tuple[str, str], str] = field(default_factory=dict)
    leaves: list[_Leaf] = field(default_factory=list)
    card_leaves: dict[int, int] = field(default_factory=dict)
    recorded: list[tuple[int, int]] = field(default_factory=list)
    """(revision, when) of each event."""
    roots: list[RootAt] = field(default_factory=list)


class MemoryStore:
    """The store's port in memory."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._runs: dict[str, _RunRows] = {}
        self._listeners: list[OnCommit] = []

    def open_run(self, job_id: str, run_id: str, *, max_stored_bytes: int | None, now: int) -> Run:
        key = key_of_run(job_id, run_id)
        with self._lock:
            rows = self._runs.get(key)
            if rows is None:
                rows = self._runs[key] = _RunRows(Run(job_id=job_id, run_id=run_id, opened_at=now))
            rows.head.check_readable()
            if max_stored_bytes is not None:
                rows.head = replace(rows.head, max_stored_bytes=max_stored_bytes)
            return rows.head

    def run(self, run_key: str) -> Run:
        return self._rows(run_key).head

    def cancel_run(self, run_key: str, *, reason: str) -> Run:
        with self._lock:
            rows = self._readable(run_key)
            if rows.head.state is RunState.OPEN:
                rows.head = replace(rows.head, state=RunState.CANCELLED, reason=reason)
            self._tell(run_key, rows.head)
            return rows.head

    def clear_run(self, run_key: str, *, reason: str, now: int) -> Tombstone:
        with self._lock:
            rows = self._rows(run_key)
            if rows.head.tombstone is None:
                # Nothing lies in files, so what is dropped is gone.
                tombstone = Tombstone(
                    revision=rows.head.revision, root=rows.head.root, cleared_at=now, removal=Removal.PHYSICAL
                )
                cleared = replace(rows.head, state=RunState.CLEARED, reason=reason, stored_bytes=0, tombstone=tombstone)
                self._runs[run_key] = rows = _RunRows(cleared)
                self._tell(run_key, cleared)
            assert rows.head.tombstone is not None
            return rows.head.tombstone

    def commit(self, batch: Batch, *, expired: Expired = never) -> BatchReceipt:
        with self._lock:
            check_deadline(expired)
            rows = self._rows(batch.run_key)
            decided = decide(batch, self._known(rows))
            if decided.new:
                self._write(rows, decided.run, decided.new)
                self._tell(batch.run_key, rows.head)
            return decided.receipt

    def commit_table(
        self,
        run_key: str,
        *,
        owner: str,
        key: str,
        fingerprint: str,
        cards: pa.Table,
        artifacts: Sequence[PreparedArtifact] = (),
        recorded_at: int = 0,
        expired: Expired = never,
    ) -> BatchReceipt:
        event = event_of_table(
            cards, owner=owner, key=key, fingerprint=fingerprint, artifacts=artifacts, recorded_at=recorded_at
        )
        return self.commit(Batch(run_key=run_key, events=(event,)), expired=expired)

    def event(self, run_key: str, owner: str, key: str) -> EventReceipt | None:
        return self._readable(run_key).events.get((owner, key))

    def upload(self, run_key: str) -> Upload:
        self._rows(run_key).head.check_writable()
        return _MemoryUpload(self, run_key)

    def artifacts(self, run_key: str, hashes: Collection[str]) -> dict[str, tuple[Artifact, ...]]:
        handles = self._readable(run_key).handles
        return {sha256: tuple(handles[sha256]) for sha256 in hashes if sha256 in handles}

    def read_ranges(
        self, run_key: str, ranges: Sequence[tuple[str, int, int]], *, permits: Permits = to_all
    ) -> list[bytes]:
        rows = self._readable(run_key)
        for sha256 in {sha256 for sha256, _, _ in ranges}:
            check_permitted(rows.handles.get(sha256, ()), permits)
        for sha256, start, end in ranges:
            check_range(len(rows.blobs[sha256]), start, end)
        return [rows.blobs[sha256][start:end] for sha256, start, end in ranges]

    def index_columns(self, run_key: str, *, after: int, upto: int) -> IndexColumns:
        with self._lock:
            rows = self._readable(run_key)
            added = [o for revision in range(after + 1, upto + 1) for o in rows.of_revision.get(revision, ())]
            new = [(ordinal, rows.cards[ordinal]) for ordinal in added]
            ended = [ending for ending in rows.endings if after < ending[0] <= upto]
        relations = [
            (ordinal, relation.type, relation.target.hash)
            for ordinal, prepared in new
            for relation in prepared.card.relations
        ]
        by_rows = [(r, target.hash, kind, None if by is None else by.hash) for r, target, kind, by in ended]
        return IndexColumns(
            cards=arrow(INDEX_CARDS, [index_row(ordinal, prepared) for ordinal, prepared in new]),
            relations=arrow(INDEX_RELATIONS, relations),
            endings=arrow(INDEX_ENDINGS, by_rows),
        )

    def cards(self, run_key: str, ordinals: Sequence[int], *, revision: int) -> list[StoredCard]:
        with self._lock:
            rows = self._readable(run_key)
            return [self._stored(rows, ordinal, revision) for ordinal in ordinals]

    def decide_invocation(
        self, run_key: str, principal: str, name: str, decide: DecideInvocation
    ) -> tuple[Attempt, ...]:
        with self._lock:
            rows = self._readable(run_key)
            written = decide(self.invocations(run_key, principal, name))
            for attempt in written:
                rows.attempts.setdefault((principal, name), {})[attempt.attempt] = attempt
            return written

    def decide_session(self, run_key: str, principal: str, session_id: str, decide: DecideSession[Answer]) -> Answer:
        with self._lock:
            rows = self._readable(run_key)
            rows.head.check_writable()
            state, answer = decide(rows.sessions.get((principal, session_id), ""))
            rows.sessions[principal, session_id] = state
            return answer

    def invocations(self, run_key: str, principal: str, name: str) -> Invocations:
        with self._lock:
            rows = self._readable(run_key)
            mine = dict(rows.attempts.get((principal, name), {}))
            return Invocations(
                newest=mine[max(mine)] if mine else None,
                by_attempt=mine,
                run_calls=sum(
                    attempt.state in MAY_BE_BILLED for named in rows.attempts.values() for attempt in named.values()
                ),
            )

    def revision_at(self, run_key: str, time: int) -> int:
        return max((at for at, recorded in self._readable(run_key).recorded if 0 < recorded <= time), default=0)

    def roots(self, run_key: str) -> list[RootAt]:
        return list(self._rows(run_key).roots)

    def leaf_hashes(self, run_key: str) -> list[bytes]:
        return [leaf.hash for leaf in self._readable(run_key).leaves]

    def leaves(self, run_key: str, *, first: int, count: int) -> list[StoredLeaf]:
        some = self._readable(run_key).leaves[first : first + count]
        return [self._stored_leaf(number, leaf) for number, leaf in enumerate(some, start=first)]

    def card_leaves(self, run_key: str, ordinals: Sequence[int]) -> dict[int, StoredLeaf]:
        rows = self._readable(run_key)
        if not rows.cards.keys() >= set(ordinals):
            raise NotFound("there is no such card in this run")
        numbers = {ordinal: rows.card_leaves[ordinal] for ordinal in ordinals}
        return {ordinal: self._stored_leaf(number, rows.leaves[number]) for ordinal, number in numbers.items()}

    def strays(self, run_key: str) -> list[str]:
        self._rows(run_key)
        return []

    def listen(self, on_commit: OnCommit) -> None:
        self._listeners.append(on_commit)

    def compact(self) -> int:
        return 0

    def close(self) -> None:
        """Nothing to let go of."""

    def keep_artifact(self, run_key: str, handle: Artifact, data: bytes) -> Artifact:
        """Stores an upload's bytes under its handle, charging them to the run."""
        with self._lock:
            rows = self._rows(run_key)
            rows.head.check_writable()
            if handle not in rows.handles.get(handle.sha256, ()):
                rows.head.check_room(handle.size)
                self._keep(rows, handle, data)
                leaf = _leaf_of_handle(handle, leaf_hash(leaf_of_handle(handle)))
                self._advance(rows, rows.head.recorded([leaf.hash], charged=handle.size), [leaf])
            return handle

    def _rows(self, run_key: str) -> _RunRows:
        rows = self._runs.get(run_key)
        if rows is None:
            raise NotFound("there is no such run: open it, or write to it first")
        return rows

    def _readable(self, run_key: str) -> _RunRows:
        rows = self._rows(run_key)
        rows.head.check_readable()
        return rows

    def _known(self, rows: _RunRows) -> Known:
        return Known(
            run=rows.head,
            event=lambda owner, key: rows.events.get((owner, key)),
            has_cards=lambda keys: keys & rows.ordinals.keys(),
            has_handle=lambda handle: handle in rows.handles.get(handle.sha256, ()),
        )

    def _write(self, rows: _RunRows, head: Run, written: Sequence[Written]) -> None:
        for one in written:
            for artifact, _ in one.handles:
                self._keep(rows, artifact.handle, artifact.data)
            for row in one.cards:
                rows.cards[row.ordinal] = row.prepared
                rows.of_revision.setdefault(head.revision, []).append(row.ordinal)
                rows.card_leaves[row.ordinal] = row.leaf.number
                rows.ordinals[row.prepared.card.key] = row.ordinal
            rows.events[one.event.owner, one.event.key] = one.receipt
            rows.recorded.append((head.revision, one.event.recorded_at))
            for target, effect, by in endings(one.event):
                rows.endings.append((head.revision, target, SUPERSEDED if effect == SUPERSEDES else RESOLVED, by))
        self._advance(rows, head, (leaf for one in written for leaf in _leaves(one)))

    def _advance(self, rows: _RunRows, head: Run, leaves: Iterable[_Leaf]) -> None:
        """The run's new head, and the leaves that it has in addition."""
        rows.leaves += leaves
        rows.head = head
        rows.roots.append(RootAt(head.revision, head.frontier.size, head.root))

    def _keep(self, rows: _RunRows, handle: Artifact, data: bytes) -> None:
        rows.handles.setdefault(handle.sha256, []).append(handle)
        rows.blobs.setdefault(handle.sha256, data)

    def _stored(self, rows: _RunRows, ordinal: int, revision: int) -> StoredCard:
        prepared = rows.cards.get(ordinal)
        if prepared is None or revision_of(ordinal) > revision:
            raise NotFound("there is no such card in this run")
        ended: dict[int, tuple[int, CardKey | None]] = {}
        for at, target, kind, by in rows.endings:
            if target == prepared.card.key and at <= revision and kind not in ended:
                ended[kind] = (at, by)
        superseded = ended.get(SUPERSEDED, (None, None))
        return StoredCard(
            card=prepared.card,
            ordinal=ordinal,
            superseded_revision=superseded[0],
            superseded_by=superseded[1],
            resolved_revision=ended.get(RESOLVED, (None, None))[0],
        )

    def _stored_leaf(self, number: int, leaf: _Leaf) -> StoredLeaf:
        return StoredLeaf(number, leaf.kind, leaf.name, leaf.record(), leaf.hash)

    def _tell(self, run_key: str, head: Run) -> None:
        for on_commit in self._listeners:
            on_commit(run_key, head.revision, head.state)


class _MemoryUpload:
    """An artifact on its way into memory."""

    def __init__(self, store: MemoryStore, run_key: str) -> None:
        self._store = store
        self._run_key = run_key
        self._data: bytearray | None = bytearray()

    def write(self, chunk: bytes) -> None:
        assert self._data is not None, "the upload is finished or aborted"
        self._data += chunk
        if len(self._data) > ARTIFACT_BYTES_MAX:
            raise InvalidInput(f"an artifact is at most {ARTIFACT_BYTES_MAX} bytes", field="chunk")
        self._store.run(self._run_key).check_room(len(self._data))

    def finish(self, *, media_type: str, owner: str, acl: Acl, expected_sha256: str) -> Artifact:
        assert self._data is not None, "the upload is finished or aborted"
        data = bytes(self._data)
        sha256 = hashlib.sha256(data).hexdigest()
        check_hash(sha256, expected_sha256)
        handle = Artifact(sha256=sha256, size=len(data), media_type=media_type, owner=owner, acl=acl)
        self._data = None
        return self._store.keep_artifact(self._run_key, handle, data)

    def abort(self) -> None:
        self._data = None


def _leaves(written: Written) -> Iterator[_Leaf]:
    """Of an event, in their order."""
    for artifact, leaf in written.handles:
        yield _leaf_of_handle(artifact.handle, leaf.hash)
    for row in written.cards:
        key, text = row.prepared.card.key, row.prepared.card.text
        record = partial(leaf_of_card, row.ordinal, row.columns, row.meta, text)
        yield _Leaf("card", f"{key.owner}:{key.id}", row.leaf.hash, record)
    for ending, leaf in written.endings:
        yield _Leaf("ending", str(ending.revision), leaf.hash, partial(leaf_of_ending, ending))
    owner, event = written.event.owner, written.event
    record = partial(leaf_of_event, owner, written.receipt, event.recorded_at)
    yield _Leaf("event", f"{owner}:{event.key}", written.leaf.hash, record)


def _leaf_of_handle(handle: Artifact, hashed: bytes) -> _Leaf:
    return _Leaf("artifact", handle.sha256, hashed, partial(leaf_of_handle, handle))
