"""The store's port over DuckDB."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

import duckdb
import pyarrow as pa

from mn_contract.errors import DependencyUnavailable, NotFound, StorageFull
from mn_contract.invocations import Attempt
from mn_engine.domain.access import Acl
from mn_engine.domain.artifacts import Artifact, Permits, check_hash, check_permitted, check_range, to_all
from mn_engine.domain.cards import StoredCard, ordinal_of
from mn_engine.domain.deadlines import Expired, never
from mn_engine.domain.events import Batch, BatchReceipt, EventReceipt, PreparedArtifact
from mn_engine.domain.runs import Removal, Run, RunState, Tombstone
from mn_engine.domain.scope import run_key as key_of_run
from mn_engine.store.blobs import Arrival, BlobStore
from mn_engine.store.columns import check_table
from mn_engine.store.decide import check_deadline
from mn_engine.store.duckdb import audit, compaction, plans, queries
from mn_engine.store.duckdb.connection import LOG_BYTES_MAX, Database, RecordLost, translated
from mn_engine.store.duckdb.fresh import check_new, forget_fresh, put_in_place, write_fresh
from mn_engine.store.duckdb.heads import Heads
from mn_engine.store.duckdb.latest import Latest
from mn_engine.store.duckdb.migrations import migrate
from mn_engine.store.duckdb.names import NamesCache
from mn_engine.store.duckdb.schema import Settings
from mn_engine.store.duckdb.staging import Planning, Staged
from mn_engine.store.duckdb.writer import GROUP_MAX, Writer
from mn_engine.store.lock import RecordLock
from mn_engine.store.port import (
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

FREE_BYTES_FLOOR: Final = 128 * 1024 * 1024
"""Below this much free disk nothing is written, so that a checkpoint never meets a full one."""
_ESSENTIAL_SHARE: Final = 4
"""Writes that close something go on down to this part of the floor."""
_WRITTEN_TWICE: Final = 2
"""Bytes go into the log and, in a checkpoint, into the record."""
_Answer = TypeVar("_Answer")


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


class DuckDBStore:
    """A record in one file, with its large artifacts in a folder beside it. Open it once in a process.

    `group_max` is how many writes share a transaction at most, `free_bytes` tells the free bytes of a folder's disk,
    `settings` are DuckDB's own, a log of more than `log_bytes_max` is folded into the file. Raises RecordInUse where
    the record is open already, DependencyUnavailable where the file is no record, a damaged one or a newer engine's.
    """

    def __init__(
        self,
        path: Path,
        *,
        group_max: int = GROUP_MAX,
        free_bytes_floor: int = FREE_BYTES_FLOOR,
        free_bytes: Callable[[Path], int] = _free_bytes,
        settings: Settings | None = None,
        log_bytes_max: int = LOG_BYTES_MAX,
    ) -> None:
        path = path.resolve()
        _make_folder(path.parent)
        self._path = path
        self._floor = free_bytes_floor
        self._free_bytes = free_bytes
        self._heads = Heads()
        self._latest = Latest()
        self._listeners: list[OnCommit] = []
        self._closed = False
        self._lock = RecordLock(path)
        try:
            self._blobs = BlobStore(path.with_name(path.name + ".blobs"))
            self._database, last_seq = self._open(settings, log_bytes_max)
        except duckdb.Error as error:
            self._lock.take_back()
            raise translated(error) from error
        except BaseException:
            self._lock.take_back()
            raise
        self._names = NamesCache(lambda run_key: queries.load_names(self._database.write, run_key))
        self._writer = Writer(
            self._database,
            self._names,
            last_seq=last_seq,
            group_max=group_max,
            room=self._check_room,
            committed=self._acknowledge,
        )

    # Runs.

    def open_run(self, job_id: str, run_id: str, *, max_stored_bytes: int | None, now: int) -> Run:
        run_key = key_of_run(job_id, run_id)
        try:
            head = self.run(run_key)
        except NotFound:
            head = None
        if head is not None and max_stored_bytes in (None, head.max_stored_bytes):
            head.check_readable()
            return head

        def plan(planning: Planning) -> Run:
            try:
                run = planning.head(run_key)
            except NotFound:
                run = Run(job_id=job_id, run_id=run_id, opened_at=now)
            run.check_readable()
            if max_stored_bytes is not None:
                run = replace(run, max_stored_bytes=max_stored_bytes)
            plans.stage_head(planning, run_key, run)
            return run

        opened: Run = self._writer.write(plan)
        return opened

    def run(self, run_key: str) -> Run:
        self._database.check_process()
        return self._heads.get(run_key, lambda: self._ask(lambda cursor: queries.find_head(cursor, run_key)))

    def cancel_run(self, run_key: str, *, reason: str) -> Run:
        def plan(planning: Planning) -> Run:
            run = planning.head(run_key)
            run.check_readable()
            if run.state is RunState.OPEN:
                run = replace(run, state=RunState.CANCELLED, reason=reason)
                plans.stage_head(planning, run_key, run)
            return run

        cancelled: Run = self._writer.write(plan, essential=True)
        return cancelled

    def clear_run(self, run_key: str, *, reason: str, now: int) -> Tombstone:
        def plan(planning: Planning) -> Tombstone:
            run = planning.head(run_key)
            if run.tombstone is None:
                stone = Tombstone(revision=run.revision, root=run.root, cleared_at=now, removal=Removal.LOGICAL)
                run = replace(run, state=RunState.CLEARED, reason=reason, stored_bytes=0, tombstone=stone)
                plans.stage_head(planning, run_key, run)
            assert run.tombstone is not None
            return run.tombstone

        cleared: Tombstone = self._writer.write(plan, essential=True)
        return cleared

    # Writes.

    def commit(self, batch: Batch, *, expired: Expired = never) -> BatchReceipt:
        check_deadline(expired)
        receipt: BatchReceipt = self._writer.write(lambda planning: plans.plan_batch(planning, batch, expired))
        return receipt

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
        check_deadline(expired)
        check_table(cards)
        self._ask(lambda cursor: queries.check_bulk_meta(cursor, owner, cards))
        receipt: BatchReceipt = self._writer.write(
            lambda planning: plans.plan_table(
                planning,
                run_key,
                owner=owner,
                key=key,
                fingerprint=fingerprint,
                cards=cards,
                artifacts=artifacts,
                recorded_at=recorded_at,
                expired=expired,
            )
        )
        return receipt

    def event(self, run_key: str, owner: str, key: str) -> EventReceipt | None:
        self.run(run_key).check_readable()
        return self._ask(lambda cursor: queries.find_event(cursor, run_key, owner, key))

    # Artifacts.

    def upload(self, run_key: str) -> Upload:
        self.run(run_key).check_writable()
        return _Upload(self, run_key, self._blobs.arrive(run_key))

    def artifacts(self, run_key: str, hashes: Collection[str]) -> dict[str, tuple[Artifact, ...]]:
        self.run(run_key).check_readable()
        return self._ask(lambda cursor: queries.find_handles(cursor, run_key, hashes))

    def read_ranges(
        self, run_key: str, ranges: Sequence[tuple[str, int, int]], *, permits: Permits = to_all
    ) -> list[bytes]:
        self.run(run_key).check_readable()
        asked: dict[str, list[tuple[int, int]]] = {}
        for sha256, start, end in ranges:
            asked.setdefault(sha256, []).append((start, end))
        kept = self._ask(lambda cursor: queries.find_bytes(cursor, run_key, asked))
        for sha256 in asked:
            handles, _ = kept.get(sha256, ((), None))
            check_permitted(handles, permits)
        found = {sha256: iter(self._read(run_key, sha256, kept[sha256][1], spans)) for sha256, spans in asked.items()}
        return [next(found[sha256]) for sha256, _, _ in ranges]

    def keep_chunk(self, run_key: str, arrival: Arrival, chunk: bytes) -> None:
        """Takes bytes of an upload while the run and the disk have room for them."""
        head = self.run(run_key)
        head.check_writable()
        head.check_room(arrival.size + len(chunk))
        self._check_room(len(chunk), False)
        with self._gone_where_cleared(run_key):
            arrival.write(chunk)

    def keep_upload(self, run_key: str, handle: Artifact, arrival: Arrival) -> Artifact:
        """Commits an upload's handle; its bytes are in a durable file by then, or travel with it."""
        data = arrival.inline
        if data is None:
            with self._gone_where_cleared(run_key):
                arrival.settle_file()
        kept: Artifact = self._writer.write(lambda planning: plans.plan_handle(planning, run_key, handle, data))
        return kept

    # Reads.

    def index_columns(self, run_key: str, *, after: int, upto: int) -> IndexColumns:
        self.run(run_key).check_readable()
        latest = self._latest.columns(run_key, after=after, upto=upto)
        if latest is not None:
            return latest
        low, high = ordinal_of(after + 1, 0), ordinal_of(upto + 1, 0)
        return self._ask(lambda cursor: queries.find_index_columns(cursor, run_key, low, high, (after, upto)))

    def cards(self, run_key: str, ordinals: Sequence[int], *, revision: int) -> list[StoredCard]:
        self.run(run_key).check_readable()
        if not ordinals:
            return []
        if max(ordinals) >= ordinal_of(revision + 1, 0):
            raise NotFound("there is no such card in this run")
        return self._ask(lambda cursor: queries.find_stored(cursor, run_key, ordinals, revision))

    # Invocations.

    def decide_invocation(
        self, run_key: str, principal: str, name: str, decide: DecideInvocation
    ) -> tuple[Attempt, ...]:
        written: tuple[Attempt, ...] = self._writer.write(
            lambda planning: plans.plan_invocation(planning, run_key, principal, name, decide), essential=True
        )
        return written

    def decide_session(self, run_key: str, principal: str, session_id: str, decide: DecideSession[Answer]) -> Answer:
        answer: Answer = self._writer.write(
            lambda planning: plans.plan_session(planning, run_key, principal, session_id, decide)
        )
        return answer

    def invocations(self, run_key: str, principal: str, name: str) -> Invocations:
        self.run(run_key).check_readable()
        return self._ask(
            lambda cursor: plans.invocations_of(
                queries.find_invocations(cursor, run_key, principal, name), queries.count_calls(cursor, run_key)
            )
        )

    # Times and integrity.

    def revision_at(self, run_key: str, time: int) -> int:
        self.run(run_key).check_readable()
        return self._ask(lambda cursor: queries.find_revision_at(cursor, run_key, time))

    def roots(self, run_key: str) -> list[RootAt]:
        self.run(run_key)
        return self._ask(lambda cursor: audit.find_roots(cursor, run_key))

    def leaf_hashes(self, run_key: str) -> list[bytes]:
        self.run(run_key).check_readable()
        return self._ask(lambda cursor: audit.find_leaf_hashes(cursor, run_key))

    def leaves(self, run_key: str, *, first: int, count: int) -> list[StoredLeaf]:
        self.run(run_key).check_readable()

        def check_file(sha256: str) -> None:
            self._blobs.read(run_key, sha256, ())

        return self._ask(lambda cursor: audit.find_leaves(cursor, run_key, first, count, check_file))

    def card_leaves(self, run_key: str, ordinals: Sequence[int]) -> dict[int, StoredLeaf]:
        self.run(run_key).check_readable()
        numbers = self._ask(lambda cursor: audit.find_card_leaves(cursor, run_key, ordinals))
        return {ordinal: self.leaves(run_key, first=number, count=1)[0] for ordinal, number in numbers.items()}

    def strays(self, run_key: str) -> list[str]:
        size = self.run(run_key).frontier.size
        return self._ask(lambda cursor: list(audit.find_strays(cursor, run_key, size)))

    # The record itself.

    def listen(self, on_commit: OnCommit) -> None:
        self._listeners.append(on_commit)

    def compact(self) -> int:
        def work() -> int:
            self._names.forget()
            try:
                return compaction.compact(self._database, self._path, self._blobs, self._check_room)
            finally:
                self._heads.forget()

        freed: int = self._writer.exclusively(work)
        return freed

    def close(self) -> None:
        self._database.check_process()
        if not self._closed:
            self._closed = True
            self._writer.close()
            try:
                self._database.close()
            finally:
                self._lock.release()

    def _open(self, settings: Settings | None, log_bytes_max: int) -> tuple[Database, int]:
        """The open database, and the number of the last write to it."""
        forget_fresh(self._path)
        if not self._path.exists():
            check_new(self._path, self._blobs.root)
            write_fresh(self._path, _now())
            put_in_place(self._path)
        readers = max(os.cpu_count() or 1, 1)
        database = Database(self._path, readers=readers, settings=settings, log_bytes_max=log_bytes_max)
        try:
            migrate(database.write, _now())
            return database, queries.max_seq(database.write)
        except BaseException:
            database.close()
            raise

    def _ask(self, question: Callable[[duckdb.DuckDBPyConnection], _Answer]) -> _Answer:
        try:
            return self._database.ask(question)
        except RecordLost:
            self._writer.exclusively(self._database.restore)
            return self._database.ask(question)

    def _acknowledge(self, staged: Staged) -> None:
        self._latest.take(staged)  # before the heads: who reads up to one finds its rows
        self._heads.commit(staged.heads)
        for run_key, head in staged.heads.items():
            for on_commit in self._listeners:
                on_commit(run_key, head.revision, head.state)

    def _check_room(self, size: int, essential: bool) -> None:
        try:
            free = self._free_bytes(self._path.parent)
        except FileNotFoundError as error:  # what is written to files that nobody can find again is lost
            raise DependencyUnavailable(
                f"the folder of the record, {self._path.parent}, is gone; nothing was written", dependency="record"
            ) from error
        floor = self._floor // _ESSENTIAL_SHARE if essential else self._floor
        if free - size * _WRITTEN_TWICE < floor:
            raise StorageFull(
                f"{free} bytes are free on the record's disk, and {self._floor} must stay free; nothing was written. "
                "Make room and retry",
                free_bytes=free,
                floor_bytes=self._floor,
            )

    @contextlib.contextmanager
    def _gone_where_cleared(self, run_key: str) -> Iterator[None]:
        """Clearing a run and compacting takes the files of its uploads away."""
        try:
            yield
        except FileNotFoundError:
            self.run(run_key).check_writable()
            raise

    def _read(self, run_key: str, sha256: str, data: bytes | None, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        if data is None:
            return self._blobs.read(run_key, sha256, ranges)
        for start, end in ranges:
            check_range(len(data), start, end)
        return [data[start:end] for start, end in ranges]


class _Upload:
    """An artifact on its way into the record."""

    def __init__(self, store: DuckDBStore, run_key: str, arrival: Arrival) -> None:
        self._store = store
        self._run_key = run_key
        self._arrival = arrival

    def write(self, chunk: bytes) -> None:
        self._store.keep_chunk(self._run_key, self._arrival, chunk)

    def finish(self, *, media_type: str, owner: str, acl: Acl, expected_sha256: str) -> Artifact:
        try:
            sha256 = self._arrival.sha256
            check_hash(sha256, expected_sha256)
            handle = Artifact(sha256=sha256, size=self._arrival.size, media_type=media_type, owner=owner, acl=acl)
            return self._store.keep_upload(self._run_key, handle, self._arrival)
        finally:
            self._arrival.end()

    def abort(self) -> None:
        self._arrival.end()


def _now() -> int:
    return time.time_ns() // 1000


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DependencyUnavailable(
            f"the record's folder cannot be made: {error.strerror}", dependency="store"
        ) from error
