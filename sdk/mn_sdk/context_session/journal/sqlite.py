"""The journal under the session's root. Processes share it: each decision is one exclusive transaction.

As in the engine's, a closed run begins and dispatches nothing, what was dispatched on a cancelled one may still be
answered and settled, and an attempt made with roles that the scope does not bear is not found (invariant 7).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, Final

from mn_contract.errors import ContextBudgetExceeded, NotFound
from mn_contract.invocations import (
    MAY_BE_BILLED,
    Attempt,
    Begin,
    Command,
    State,
    begin,
    dispatch,
    is_visible,
    move,
    reconcile,
    respond,
    settle,
)
from mn_contract.names import check_id
from mn_sdk.context_session.journal.database import check_row, row_sha256
from mn_sdk.context_session.journal.holder import is_gone, own_holder
from mn_sdk.context_session.journal.rows import Rows

_COLUMNS: Final = (
    "attempt, state, epoch, holder, lease_until_ms, fingerprint, roles, request_sha256, retry, response, usable, "
    "evidence, row_sha256"
)
_KEY: Final = "(job_id, run_id, principal, name) = (?, ?, ?, ?)"
_BILLED: Final = tuple(sorted(state.value for state in MAY_BE_BILLED))


class SqliteInvocations:
    """See Invocations. `now_ms` is the clock that leases are measured by. `check_new` is asked before a name is claimed
    that nothing is known of, and raises where the journal should know it."""

    def __init__(
        self,
        rows: Rows,
        *,
        now_ms: Callable[[], int],
        holder: Callable[[], str] = own_holder,
        gone: Callable[[str], bool] = is_gone,
        check_new: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._rows = rows
        self._check_new = check_new
        self._scope = rows.scope
        self._roles = frozenset(rows.scope.roles)
        self._now_ms = now_ms
        self._holder = holder
        self._gone = gone

    def begin(self, name: str, *, fingerprint: str, lease_ms: int, retry: str = "") -> Attempt:
        """See Invocations."""
        wish = Begin(
            name=name,
            holder=self._holder(),
            lease_ms=lease_ms,
            fingerprint=fingerprint,
            roles=self._roles,
            retry=retry,
        )
        if self._is_new(name):  # outside of the transaction: a record that is still being read must not hold up others
            self._check_new(name)
        with self._rows.write() as connection:
            newest = self._newest(connection, name)
            begun = begin(newest, self._retries(connection, name), self._knowing(wish, newest), self._now_ms())
            if not begun.replayed:
                self._rows.check_open()
            for attempt in begun.write:
                self._store(connection, attempt)
        if begun.error is not None:
            raise begun.error
        return begun.attempt

    def dispatch(self, attempt: Attempt, *, request_sha256: str, calls_max: int | None) -> Attempt:
        """See Invocations."""
        with self._rows.write() as connection:
            self._rows.check_open()
            stored = self._of(connection, attempt)
            moved = dispatch(stored, epoch=attempt.epoch, request_sha256=request_sha256)
            used = self._calls(connection)
            if calls_max is not None and used >= calls_max:
                raise ContextBudgetExceeded(
                    f"the run has made {used} of its {calls_max} calls; this one was not sent",
                    budget="calls",
                    limit=calls_max,
                    used=used,
                    needed=1,
                )
            self._store(connection, moved)
        return moved

    def respond(self, attempt: Attempt, response: bytes, *, usable: bool, evidence: str = "") -> Attempt:
        """See Invocations."""
        with self._rows.write() as connection:
            stored = self._of(connection, attempt)
            responded = respond(stored, response, usable=usable, evidence=evidence)
            if responded != stored:
                self._store(connection, responded)
        return responded

    def fail(self, attempt: Attempt, *, evidence: str) -> Attempt:
        """See Invocations."""
        return self._settle(attempt, State.FAILED_DEFINITE, evidence)

    def lose(self, attempt: Attempt, *, evidence: str) -> Attempt:
        """See Invocations."""
        return self._settle(attempt, State.AMBIGUOUS, evidence)

    def complete(self, attempt: Attempt) -> Attempt:
        """See Invocations."""
        return self._move(attempt, lambda stored: move(stored, Command.COMPLETE))

    def reconcile(self, name: str, *, response: bytes | None, evidence: str) -> Attempt:
        """See Invocations."""
        check_id(name, "name")
        with self._rows.write() as connection:
            newest = self._visible_newest(connection, name)
            abandoned = newest.holder if newest is not None and self._gone(newest.holder) else ""
            settled = reconcile(
                newest, response=response, evidence=evidence, now_ms=self._now_ms(), abandoned=abandoned
            )
            if settled != newest:
                self._store(connection, settled)
        return settled

    def newest(self, name: str) -> Attempt | None:
        """See Invocations."""
        return self.find(name)

    def find(self, name: str, number: int | None = None) -> Attempt | None:
        """See Invocations."""
        check_id(name, "name")
        with self._rows.read() as connection:
            if number is None:
                return self._visible_newest(connection, name)
            return self._visible(connection, name, number)

    def _settle(self, attempt: Attempt, outcome: State, evidence: str) -> Attempt:
        return self._move(attempt, lambda stored: settle(stored, outcome, epoch=attempt.epoch, evidence=evidence))

    def _move(self, attempt: Attempt, change: Callable[[Attempt], Attempt]) -> Attempt:
        with self._rows.write() as connection:
            stored = self._of(connection, attempt)
            moved = change(stored)
            if moved != stored:
                self._store(connection, moved)
        return moved

    def _knowing(self, wish: Begin, newest: Attempt | None) -> Begin:
        """The wish, with what this machine knows of the present holder."""
        if newest is None or newest.holder == wish.holder or not self._gone(newest.holder):
            return wish
        return Begin(
            name=wish.name,
            holder=wish.holder,
            lease_ms=wish.lease_ms,
            fingerprint=wish.fingerprint,
            roles=wish.roles,
            retry=wish.retry,
            abandoned=newest.holder,
        )

    def _key(self, name: str) -> tuple[str, str, str, str]:
        return self._scope.job_id, self._scope.run_id, self._scope.principal, name

    def _newest(self, connection: sqlite3.Connection, name: str) -> Attempt | None:
        row = connection.execute(
            f"SELECT {_COLUMNS} FROM attempts WHERE {_KEY} ORDER BY attempt DESC LIMIT 1", self._key(name)
        ).fetchone()
        return None if row is None else _attempt(self._key(name), row)

    def _is_new(self, name: str) -> bool:
        with self._rows.read() as connection:
            found = connection.execute(f"SELECT 1 FROM attempts WHERE {_KEY} LIMIT 1", self._key(name)).fetchone()
        return found is None

    def _visible_newest(self, connection: sqlite3.Connection, name: str) -> Attempt | None:
        newest = self._newest(connection, name)
        return newest if newest is not None and is_visible(newest, self._roles) else None

    def _visible(self, connection: sqlite3.Connection, name: str, number: int) -> Attempt | None:
        row = connection.execute(
            f"SELECT {_COLUMNS} FROM attempts WHERE {_KEY} AND attempt = ?", (*self._key(name), number)
        ).fetchone()
        stored = None if row is None else _attempt(self._key(name), row)
        return stored if stored is not None and is_visible(stored, self._roles) else None

    def _of(self, connection: sqlite3.Connection, attempt: Attempt) -> Attempt:
        stored = self._visible(connection, attempt.name, attempt.attempt)
        if stored is None:
            raise NotFound("there is no such attempt of an invocation of this name")
        return stored

    def _retries(self, connection: sqlite3.Connection, name: str) -> frozenset[str]:
        # `spent_retries` of mn_contract.invocations, without a look at the responses.
        rows = connection.execute(
            f"SELECT retry FROM attempts WHERE {_KEY} AND retry <> '' AND request_sha256 <> ''", self._key(name)
        )
        return frozenset(retry for (retry,) in rows)

    def _calls(self, connection: sqlite3.Connection) -> int:
        """Attempts of the whole run that may have been billed."""
        marks = ", ".join("?" for _ in _BILLED)
        (count,) = connection.execute(
            f"SELECT count(*) FROM attempts WHERE job_id = ? AND run_id = ? AND state IN ({marks})",
            (self._scope.job_id, self._scope.run_id, *_BILLED),
        ).fetchone()
        return int(count)

    def _store(self, connection: sqlite3.Connection, attempt: Attempt) -> None:
        row = (
            *self._key(attempt.name),
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
            int(attempt.usable),
            attempt.evidence,
        )
        connection.execute(
            "INSERT OR REPLACE INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, row_sha256(*row)),
        )


def _attempt(key: tuple[str, str, str, str], row: tuple[Any, ...]) -> Attempt:
    *values, kept = row
    check_row(*key, *values, kept=kept)
    number, state, epoch, holder, lease, fingerprint, roles, request, retry, response, usable, evidence = values
    return Attempt(
        name=key[-1],
        attempt=number,
        state=State(state),
        epoch=epoch,
        holder=holder,
        lease_until_ms=lease,
        fingerprint=fingerprint,
        roles=frozenset(filter(None, roles.split(","))),
        request_sha256=request,
        retry=retry,
        response=response,
        usable=bool(usable),
        evidence=evidence,
    )
