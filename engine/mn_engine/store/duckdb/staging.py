"""What planned writes stage, and what a plan may look at. A plan that raises leaves its rows unstaged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mn_contract.invocations import Attempt
from mn_engine.domain.runs import Run
from mn_engine.store.columns import arrow
from mn_engine.store.duckdb.names import NamesCache, RunNames
from mn_engine.store.duckdb.schema import TABLES


class Insert(Protocol):
    """Rows that are to be inserted into a table."""

    def into(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Inserts them."""


@dataclass(frozen=True, slots=True)
class _Row:
    table: str
    row: tuple[Any, ...]

    def into(self, connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute(f"INSERT INTO {self.table} VALUES ({', '.join('?' * len(self.row))})", self.row)


@dataclass(frozen=True, slots=True)
class _Table:
    table: str
    rows: pa.Table

    def into(self, connection: duckdb.DuckDBPyConnection) -> None:
        connection.from_arrow(self.rows).insert_into(self.table)


@dataclass(slots=True)
class Staged:
    """What one planned write, or a group of them, will insert and change.

    Whatever stages anything stages a row with a sequence number (a head, an invocation or a session), by which a group
    is found again where the database failed while it committed.
    """

    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    tables: list[tuple[str, pa.Table]] = field(default_factory=list)
    size: int = 0
    """About how many bytes this writes."""
    heads: dict[str, Run] = field(default_factory=dict)
    names: dict[tuple[str, str], dict[int, Any]] = field(default_factory=dict)
    """(run, kind of name) -> hash -> what is staged under it. Kinds: events, cards, handles."""
    arrays: list[tuple[str, NDArray[np.uint64]]] = field(default_factory=list)
    """(run, key hashes) of bulk cards."""
    attempts: dict[tuple[str, str, str], list[Attempt]] = field(default_factory=dict)
    """(run, principal, name) -> attempts in the order they were decided."""
    sessions: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """(run, principal, session) -> its newest state."""
    calls: dict[str, int] = field(default_factory=dict)
    """Run -> by how much its count of calls changes."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.rows and not self.tables

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
        self.size += other.size
        self.heads.update(other.heads)
        for at, names in other.names.items():
            self.names.setdefault(at, {}).update(names)
        self.arrays += other.arrays
        for key, attempts in other.attempts.items():
            self.attempts.setdefault(key, []).extend(attempts)
        self.sessions.update(other.sessions)
        for run_key, calls in other.calls.items():
            self.calls[run_key] = self.calls.get(run_key, 0) + calls

    def inserts(self) -> list[Insert]:
        """Everything staged, ready to be inserted: a single row by its values, which costs a third less, and more as
        Arrow."""
        few = [_Row(table, rows[0]) for table, rows in self.rows.items() if len(rows) == 1]
        many = [_Table(table, arrow(TABLES[table], rows)) for table, rows in self.rows.items() if len(rows) > 1]
        return [*few, *many, *(_Table(table, rows) for table, rows in self.tables)]

    def tell(self, known: NamesCache) -> None:
        """Brings the names up to what has been committed."""
        for run_key, head in self.heads.items():
            if run_key in known.runs:
                known.runs[run_key].head = head
        for (run_key, kind), names in self.names.items():
            if run_key in known.runs:
                known.runs[run_key].names(kind).add(names)
        for run_key, hashes in self.arrays:
            if run_key in known.runs:
                known.runs[run_key].cards.add_array(hashes)
        for run_key, calls in self.calls.items():
            if run_key in known.runs:
                known.runs[run_key].run_calls += calls


@dataclass(frozen=True, slots=True)
class Planning:
    """What a plan may look at, and where it stages: the names, the group so far, and its own rows."""

    connection: duckdb.DuckDBPyConnection
    names: NamesCache
    group: Staged
    own: Staged
    next_seq: Callable[[], int]
    """Numbers that only grow, for rows of which the newest counts."""

    def run_names(self, run_key: str) -> RunNames:
        """The run's names before this group. Raises NotFound."""
        return self.names.of(run_key)

    def head(self, run_key: str) -> Run:
        """The run's head after what the group has staged. Raises NotFound."""
        return self.group.heads.get(run_key) or self.names.of(run_key).head

    def staged(self, run_key: str, kind: str, hashed: int) -> Any:
        """What the group has staged under a name; None where it has not."""
        return self.group.names.get((run_key, kind), {}).get(hashed)


Plan = Callable[[Planning], Any]
"""Decides one write: stages rows and answers the result; where it raises, nothing is written."""
