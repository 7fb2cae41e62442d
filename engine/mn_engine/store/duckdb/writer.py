"""The one writer: concurrent writes share a transaction, and each is acknowledged after it is durable.

A write is planned in memory, against the names of its run and what earlier writes of the same group have staged; a plan
that raises stages nothing and fails alone. The staged rows of the whole group then go in as a few multi-row inserts
and one commit. Where the database fails, it is opened again and asked whether the group is there: a commit can be
durable and still fail, in the checkpoint behind it. A group that is not there is tried again one by one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb
import pyarrow as pa

from mn_contract.errors import ContextError, DependencyUnavailable, StorageFull
from mn_engine.domain.failures import place_of
from mn_engine.store.duckdb.connection import Database, translated
from mn_engine.store.duckdb.names import NamesCache
from mn_engine.store.duckdb.queries import max_seq
from mn_engine.store.duckdb.staging import Plan, Planning, Staged

GROUP_MAX: Final = 256
GROUP_BYTES_MAX: Final = 64 * 1024 * 1024
QUEUE_MAX: Final = 4096
_WAIT_SECONDS: Final = 120.0
_LINGER_SECONDS: Final = 0.002
_LINGER_SHARE: Final = 0.5
"""How long a group waits for as many writes as came together last time: this, or so much of what the last commit took,
whichever is longer. A lone writer never waits."""
_log: Final = logging.getLogger(__name__)

Room = Callable[[int, bool], None]
"""Raises StorageFull where the disk has no room for so many bytes; asks less of an essential write."""


@dataclass(slots=True)
class _Job:
    plan: Plan | None = None
    alone: Callable[[], Any] | None = None
    essential: bool = False
    result: Future[Any] = field(default_factory=Future)


@dataclass(slots=True)
class _Group:
    """Jobs planned together: those that succeed when `staged` is durable, with their results."""

    staged: Staged = field(default_factory=Staged)
    planned: list[tuple[_Job, Any]] = field(default_factory=list)


class Writer:
    """The writing thread and its queue."""

    def __init__(
        self,
        database: Database,
        names: NamesCache,
        *,
        last_seq: int,
        group_max: int,
        room: Room,
        committed: Callable[[Staged], None],
    ) -> None:
        self._database = database
        self._names = names
        self._group_max = group_max
        self._room = room
        self._committed = committed
        self._seq = last_seq
        lock = threading.Lock()
        self._work_came = threading.Condition(lock)
        self._room_came = threading.Condition(lock)
        self._siblings = 1
        self._linger = _LINGER_SECONDS
        self._waiting: deque[_Job] = deque()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="mn-record-writer", daemon=True)
        self._thread.start()

    def write(self, plan: Plan, *, essential: bool = False) -> Any:
        """Has `plan` decided and committed; answers its result once it is durable. Essential writes, which are small
        and close something, go through below the free-space floor."""
        return self._wait(_Job(plan=plan, essential=essential))

    def exclusively(self, work: Callable[[], Any]) -> Any:
        """Runs `work` in the writer's thread, between groups."""
        return self._wait(_Job(alone=work))

    def close(self) -> None:
        """Finishes what was queued, then ends the thread. Idempotent."""
        with self._work_came:
            self._closed = True
            self._work_came.notify_all()
            self._room_came.notify_all()
        self._thread.join(_WAIT_SECONDS)

    # Callers' threads.

    def _wait(self, job: _Job) -> Any:
        self._database.check_process()
        with self._room_came:
            if not self._room_came.wait_for(lambda: self._closed or len(self._waiting) < QUEUE_MAX, _WAIT_SECONDS):
                raise _busy()
            if self._closed:
                raise DependencyUnavailable("the record is closed", dependency="store")
            self._waiting.append(job)
            if len(self._waiting) in (1, self._siblings):
                self._work_came.notify()
        for _ in range(2):
            try:
                return job.result.result(_WAIT_SECONDS)
            except TimeoutError:
                if job.result.done():
                    raise
                if job.result.cancel():
                    raise _busy() from None
        raise _unknown()

    # The writer's thread.

    def _work(self) -> None:
        while jobs := self._next():
            try:
                if jobs[0].alone is not None:
                    _settle(jobs[0], jobs[0].alone)
                else:
                    started = time.perf_counter()
                    self._commit(jobs, tries=2)
                    self._linger = max(_LINGER_SECONDS, (time.perf_counter() - started) * _LINGER_SHARE)
                    self._database.checkpoint_if_due()
                    # Who was just answered tends to come back at once, beside those who came meanwhile.
                    self._siblings = min(len(jobs) + len(self._waiting), self._group_max)
            except Exception as error:  # noqa: BLE001  (a fault of ours must reach its callers, not end the writer)
                unsettled = sum(not job.result.done() for job in jobs)  # none where what followed the commit failed
                _log.error("a fault left %d of %d writes unsettled: %s", unsettled, len(jobs), place_of(error))
                self._names.forget()
                _fail(jobs, error)

    def _next(self) -> list[_Job]:
        """The next group, or one job that wants to be alone; empty at the end."""
        while True:
            with self._work_came:
                self._work_came.wait_for(lambda: self._closed or self._waiting)
                self._work_came.wait_for(lambda: self._closed or len(self._waiting) >= self._siblings, self._linger)
                jobs = self._take()
                self._room_came.notify_all()
            started = [job for job in jobs if job.result.set_running_or_notify_cancel()]
            if started or not jobs:
                return started

    def _take(self) -> list[_Job]:
        jobs: list[_Job] = []
        while self._waiting and len(jobs) < self._group_max:
            if self._waiting[0].alone is not None:
                return jobs or [self._waiting.popleft()]
            jobs.append(self._waiting.popleft())
        return jobs

    def _commit(self, jobs: list[_Job], *, tries: int) -> None:
        try:
            self._database.open_again()
        except ContextError as error:
            _fail(jobs, error)
            return
        pending = deque(jobs)
        while pending:
            before = self._seq
            group = _Group()
            taken: list[_Job] = []
            try:
                while pending and group.staged.size < GROUP_BYTES_MAX:
                    taken.append(pending.popleft())
                    self._plan(taken[-1], group)
                self._insert(group.staged)
            except (duckdb.Error, OSError, pa.ArrowException, OverflowError, TypeError, ValueError) as error:
                if not self._landed(before):
                    self._again([job for job in taken if not job.result.done()], error, tries - 1)
                    continue
            self._acknowledge(group)

    def _plan(self, job: _Job, group: _Group) -> None:
        assert job.plan is not None
        own = Staged()
        try:
            result = job.plan(Planning(self._database.write, self._names, group.staged, own, self._next_seq))
            if not own.empty:
                self._room(group.staged.size + own.size, job.essential)
        except duckdb.Error:
            raise
        except Exception as error:  # noqa: BLE001  (a decision that fails, however it does, fails alone)
            job.result.set_exception(error)
        else:
            group.staged.take(own)
            group.planned.append((job, result))

    def _insert(self, staged: Staged) -> None:
        if staged.empty:
            return
        inserts = staged.inserts()
        connection = self._database.write
        connection.execute("BEGIN")
        for insert in inserts:
            insert.into(connection)
        connection.execute("COMMIT")
        self._database.sync_log()

    def _landed(self, before: int) -> bool:
        """Opens the database again and answers whether what was staged after `before` is durable all the same."""
        self._names.forget()
        try:
            self._database.reopen()
            landed = max_seq(self._database.write) > before
            if landed:
                self._database.sync_log()
        except (ContextError, duckdb.Error, OSError) as error:
            raise _unknown() from error
        return landed

    def _again(self, jobs: list[_Job], error: Exception, tries: int) -> None:
        told = translated(error) if isinstance(error, duckdb.Error) else error
        if tries and not isinstance(told, StorageFull):
            for job in jobs:
                self._commit([job], tries=tries)
        else:
            _fail(jobs, told)

    def _acknowledge(self, group: _Group) -> None:
        group.staged.tell(self._names)
        try:
            self._committed(group.staged)
        finally:
            for job, result in group.planned:
                job.result.set_result(result)

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq


def _settle(job: _Job, work: Callable[[], Any]) -> None:
    try:
        job.result.set_result(work())
    except duckdb.Error as error:
        job.result.set_exception(translated(error))
    except Exception as error:  # noqa: BLE001  (whoever asked for the work is told how it failed)
        job.result.set_exception(error)


def _fail(jobs: list[_Job], error: Exception) -> None:
    for job in jobs:
        if not job.result.done():
            job.result.set_exception(error)


def _busy() -> DependencyUnavailable:
    return DependencyUnavailable(
        "too many writes are waiting; nothing was written", dependency="store", retry_after_ms=1000
    )


def _unknown() -> DependencyUnavailable:
    return DependencyUnavailable(
        "the record failed while it committed; retry with the same key to learn whether it was written",
        dependency="store",
        retry_after_ms=1000,
    )
