"""The one writer: concurrent writes share a transaction, and each is acknowledged after it is durable.

A write is planned in memory, against the facts of its run and what earlier writes of the same group have staged; a plan
that raises stages nothing and fails alone. The staged rows of the whole group then go in as a few multi-row inserts
and one commit. Where the database fails unexpectedly, the group is taken back and its members are tried one by one.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mn_contract.errors import ContextError, DependencyUnavailable
from mn_engine.domain.runs import Run
from mn_engine.store.duckdb.connection import Database, invalidated, translated
from mn_engine.store.duckdb.facts import FactsCache, RunFacts
from mn_engine.store.duckdb.schema import TABLES

GROUP_MAX: Final = 256
QUEUE_MAX: Final = 4096
_WAIT_SECONDS: Final = 120.0


@dataclass(slots=True)
class Staged:
    """What one planned write, or a group of them, will insert and change."""

    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    tables: list[tuple[str, pa.Table]] = field(default_factory=list)
    heads: dict[str, Run] = field(default_factory=dict)
    names: dict[tuple[str, str], dict[int, Any]] = field(default_factory=dict)
    """(run, kind of name) -> hash -> what the writer remembers of it: events, cards, handles or blobs."""
    arrays: list[tuple[str, str, NDArray[np.uint64]]] = field(default_factory=list)
    attempts: dict[tuple[str, str, str], list[Any]] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)

    def insert(self, table: str, row: tuple[Any, ...]) -> None:
        """Stages a row."""
        self.rows.setdefault(table, []).append(row)

    def name(self, run_key: str, kind: str, hashed: int, what: Any) -> None:
        """Stages a name."""
        self.names.setdefault((run_key, kind), {})[hashed] = what

    def take(self, other: Staged) -> None:
        """Stages all that `other` has, behind what is here."""
        for table, rows in other.rows.items():
            self.rows.setdefault(table, []).extend(rows)
        self.tables += other.tables
        self.heads.update(other.heads)
        for at, names in other.names.items():
            self.names.setdefault(at, {}).update(names)
        self.arrays += other.arrays
        for key, attempts in other.attempts.items():
            self.attempts.setdefault(key, []).extend(attempts)
        for run_key, calls in other.calls.items():
            self.calls[run_key] = self.calls.get(run_key, 0) + calls

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.rows and not self.tables


@dataclass(frozen=True, slots=True)
class Planning:
    """What a plan may look at, and where it stages: the facts, the group so far, and its own rows."""

    connection: duckdb.DuckDBPyConnection
    facts: FactsCache
    group: Staged
    own: Staged
    next_seq: Callable[[], int]
    """Numbers that only grow, for rows of which the newest counts."""

    def run_facts(self, run_key: str) -> RunFacts:
        """The run's facts before this group."""
        return self.facts.of(run_key)

    def head(self, run_key: str) -> Run:
        """The run's head after what the group has staged."""
        return self.group.heads.get(run_key) or self.facts.of(run_key).head

    def staged(self, run_key: str, kind: str, hashed: int) -> Any:
        """What the group remembers of a name; None where it has not staged it."""
        return self.group.names.get((run_key, kind), {}).get(hashed)


Plan = Callable[[Planning], Any]
"""Decides one write: stages rows and answers the result; a contract error means that nothing is written."""


@dataclass(slots=True)
class _Job:
    plan: Plan | None
    alone: Callable[[], Any] | None = None
    result: Future[Any] = field(default_factory=Future)


class Writer:
    """The writing thread and its queue."""

    def __init__(
        self,
        database: Database,
        facts: FactsCache,
        *,
        group_max: int,
        before_group: Callable[[], None],
        next_seq: Callable[[], int],
        committed: Callable[[dict[str, Run]], None],
    ) -> None:
        self._database = database
        self._facts = facts
        self._group_max = group_max
        self._before_group = before_group
        self._next_seq = next_seq
        self._committed = committed
        self._queue: queue.Queue[_Job | None] = queue.Queue(QUEUE_MAX)
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="mn-record-writer", daemon=True)
        self._thread.start()

    def write(self, plan: Plan) -> Any:
        """Has `plan` decided and committed; answers its result once it is durable."""
        return self._wait(_Job(plan))

    def exclusively(self, work: Callable[[], Any]) -> Any:
        """Runs `work` in the writer's thread, between groups."""
        return self._wait(_Job(None, alone=work))

    def close(self) -> None:
        """Finishes what was queued, then ends the thread. Idempotent."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join(_WAIT_SECONDS)

    def _wait(self, job: _Job) -> Any:
        self._database.check_process()
        with self._closing:
            if self._closed:
                raise DependencyUnavailable("the record is closed", dependency="store")
            try:
                self._queue.put(job, timeout=_WAIT_SECONDS)
            except queue.Full as error:
                raise DependencyUnavailable(
                    "too many writes are waiting", dependency="store", retry_after_ms=1000
                ) from error
        return job.result.result()

    def _work(self) -> None:
        ended = False
        while not ended:
            job = self._queue.get()
            group: list[_Job] = []
            while job is not None and job.alone is None:
                group.append(job)
                if len(group) >= self._group_max:
                    break
                try:
                    job = self._queue.get_nowait()
                except queue.Empty:
                    break
            try:
                if group:
                    self._commit(group)
                if job is not None and job.alone is not None:
                    _settle(job, job.alone)
            except Exception as error:  # noqa: BLE001  (a fault of ours must reach its callers, not end the writer)
                self._facts.forget()
                for failed in (*group, *([job] if job is not None else [])):
                    if not failed.result.done():
                        failed.result.set_exception(error)
            ended = job is None

    def _commit(self, group: list[_Job]) -> None:
        try:
            self._before_group()
            results = self._try(group)
        except ContextError as error:
            for job in group:
                if not job.result.done():
                    job.result.set_exception(error)
        except duckdb.Error as error:
            self._recover(error)
            waiting = [job for job in group if not job.result.done()]
            if len(waiting) == 1 or isinstance(error, duckdb.FatalException):
                for job in waiting:
                    job.result.set_exception(translated(error))
            else:
                for job in waiting:
                    self._commit([job])
        else:
            for job, result in results:
                job.result.set_result(result)

    def _try(self, group: list[_Job]) -> list[tuple[_Job, Any]]:
        """Plans and commits a group; answers what to tell the members that succeeded, when it is durable."""
        connection = self._database.write
        staged = Staged()
        results: list[tuple[_Job, Any]] = []
        for job in group:
            own = Staged()
            assert job.plan is not None
            try:
                result = job.plan(Planning(connection, self._facts, staged, own, self._next_seq))
            except ContextError as error:
                job.result.set_exception(error)
            else:
                staged.take(own)
                results.append((job, result))
        if not staged.empty:
            connection.execute("BEGIN")
            for table, rows in staged.rows.items():
                _insert(connection, table, _arrow(table, rows))
            for table, arrow in staged.tables:
                _insert(connection, table, arrow)
            connection.execute("COMMIT")
        self._remember(staged)
        self._committed(staged.heads)
        return results

    def _remember(self, staged: Staged) -> None:
        for run_key, head in staged.heads.items():
            facts = self._facts.of(run_key) if run_key in self._facts.runs else None
            if facts is not None:
                facts.head = head
        for (run_key, kind), names in staged.names.items():
            if run_key in self._facts.runs:
                getattr(self._facts.of(run_key), kind).add(names)
        for run_key, kind, array in staged.arrays:
            if run_key in self._facts.runs:
                getattr(self._facts.of(run_key), kind).add_array(array)
        for run_key, calls in staged.calls.items():
            if run_key in self._facts.runs:
                self._facts.of(run_key).run_calls += calls

    def _recover(self, error: duckdb.Error) -> None:
        """Takes the transaction back, and the whole database where it is of no more use."""
        self._facts.forget()
        with contextlib.suppress(duckdb.Error):  # there may be no transaction to take back
            self._database.write.execute("ROLLBACK")
        if invalidated(error):
            with self._database.alone():
                self._database.reopen()


def _settle(job: _Job, work: Callable[[], Any]) -> None:
    try:
        job.result.set_result(work())
    except ContextError as error:
        job.result.set_exception(error)
    except duckdb.Error as error:
        job.result.set_exception(translated(error))


def _arrow(table: str, rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    schema = TABLES[table]
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(column, type=item.type) for column, item in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _insert(connection: duckdb.DuckDBPyConnection, table: str, staged: pa.Table) -> None:
    connection.register("staged", staged)
    try:
        connection.execute(f"INSERT INTO {table} SELECT * FROM staged")
    finally:
        connection.unregister("staged")
