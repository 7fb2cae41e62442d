"""The session's journal: what became of each model call, and small durable notes.

What may happen to a call is decided by `mn_contract.invocations`, which is pure; a journal only stores what it decides,
atomically and durably, before it answers (invariant 10). Two journals keep one contract: `sqlite` under the session's
root, which other processes on the machine can share, and `remote`, the engine's own. `keeping` stands before either.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mn_contract.invocations import Attempt

if TYPE_CHECKING:
    from mn_sdk.context_session.journal.bindings import Bindings
    from mn_sdk.context_session.journal.notes import Notes
    from mn_sdk.context_session.journal.remote import Caller
    from mn_sdk.context_session.journal.rows import Clearing, Rows
    from mn_sdk.scope import SessionScope


class Invocations(Protocol):
    """The calls of one scope. Thread-safe. What a method returns is durable when it returns.

    A call made with roles that the scope does not bear is one it has not made, except that its name is taken.
    Errors are those of mn_contract.invocations; beside them DependencyUnavailable and StorageFull, and RunClosed: from
    everything on a cleared run, from a new claim and a dispatch on a cancelled one.
    """

    def begin(self, name: str, *, fingerprint: str, lease_ms: int, retry: str = "") -> Attempt:
        """A claimed attempt (PREPARED), or one whose durable response is to be replayed.

        Raises AmbiguousInvocation, InvocationInFlight, IdempotencyConflict.
        """

    def dispatch(self, attempt: Attempt, *, request_sha256: str, calls_max: int | None) -> Attempt:
        """The attempt, DISPATCHED. Raises ContextBudgetExceeded where the run has made `calls_max` calls, StaleRevision
        where another worker has claimed the attempt since."""

    def respond(self, attempt: Attempt, response: bytes, *, usable: bool, evidence: str = "") -> Attempt:
        """The attempt with its response, and `evidence` of where it was found, if it was. The same response again
        changes nothing. Another one, or one for an attempt that is settled otherwise, is IdempotencyConflict."""

    def fail(self, attempt: Attempt, *, evidence: str) -> Attempt:
        """The attempt, FAILED_DEFINITE: nothing was executed, and `evidence` says how that is known. Raises
        StaleRevision where another worker has claimed the attempt since."""

    def lose(self, attempt: Attempt, *, evidence: str) -> Attempt:
        """The attempt, AMBIGUOUS: nobody can tell whether it was executed. Raises StaleRevision, as `fail`."""

    def complete(self, attempt: Attempt) -> Attempt:
        """The attempt, written back. Idempotent."""

    def reconcile(self, name: str, *, response: bytes | None, evidence: str) -> Attempt:
        """The newest attempt, settled: with a response that was found, or (None) as not executed."""

    def newest(self, name: str) -> Attempt | None:
        """The newest attempt of this name; None where there is none."""

    def find(self, name: str, number: int | None = None) -> Attempt | None:
        """The attempt of this number, or the newest; None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """A session's journal."""

    invocations: Invocations
    bindings: Bindings
    notes: Notes
    rows: Rows

    def cursor(self, name: str, value: int | None = None) -> int:
        """The durable cursor of this name: sets it where a value is given; 0 before it was ever set."""
        return self.notes.cursor(name) if value is None else self.notes.set_cursor(name, value)

    def close(self) -> None:
        """Lets go of the files. Idempotent."""
        self.rows.close()


def open_journal(
    root: Path,
    scope: SessionScope,
    engine: Caller | None,
    *,
    state: Callable[[], int] | None,
    clearing: Clearing,
    patience: Callable[[float], float],
    check_new: Callable[[str], None] = lambda name: None,
) -> Journal:
    """The journal of a session: invocations in the engine where one is given, else under `root`; notes always there.

    `state` tells how the run stands (see Rows); `patience` cuts a wait in seconds to what the session has left;
    `check_new` is SqliteInvocations', for a journal that can be lost while the record is not.
    """
    from mn_sdk.context_session.journal.bindings import Bindings
    from mn_sdk.context_session.journal.database import Database
    from mn_sdk.context_session.journal.keeping import KeepingInvocations
    from mn_sdk.context_session.journal.notes import Notes
    from mn_sdk.context_session.journal.remote import RemoteInvocations
    from mn_sdk.context_session.journal.rows import Rows
    from mn_sdk.context_session.journal.sqlite import SqliteInvocations

    rows = Rows(Database(root), scope, clearing=clearing, state=state)
    invocations: Invocations = (
        SqliteInvocations(rows, now_ms=lambda: time.time_ns() // 1_000_000, check_new=check_new)
        if engine is None
        else RemoteInvocations(engine)
    )
    notes = Notes(rows)
    bindings = Bindings(notes)
    kept = KeepingInvocations(invocations, notes, bindings=bindings, roles=frozenset(scope.roles), patience=patience)
    kept.offer_all()
    return Journal(invocations=kept, bindings=bindings, notes=notes, rows=rows)


__all__ = ["Invocations", "Journal", "open_journal"]
