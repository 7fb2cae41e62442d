"""Invocations that keep a paid response which the journal did not take (invariant 10).

A response in hand is the only proof of what was paid for. While the journal cannot be written it is offered again, for
a bounded time, and then kept beside it: in the session's notes, in memory where even those cannot be written. Whatever
next looks at the call of that name, in this session or in another one under the same root, offers it first; only with
the roles that the call was made with, for without them there is no such call (invariant 7).
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from mn_contract.errors import (
    ContextError,
    DependencyUnavailable,
    IdempotencyConflict,
    NotFound,
    RunClosed,
    StorageFull,
    from_reason,
)
from mn_contract.invocations import Attempt, State
from mn_sdk.context_session.journal import Invocations
from mn_sdk.context_session.journal.notes import Notes

PATIENCE_SECONDS: Final = 30.0
"""How long a response is offered to a journal that cannot be written: an engine's restart."""
_PAUSE_SECONDS: Final = 0.1
_PAUSE_SECONDS_MAX: Final = 2.0
_PASSING: Final = (DependencyUnavailable, StorageFull)
"""Errors after which the same write may succeed."""
_REFUSED: Final = (IdempotencyConflict, RunClosed, NotFound)
"""Errors by which the journal says that the attempt is settled otherwise, or gone: it will never take the response."""
_KIND: Final = "response"


@dataclass(frozen=True, slots=True)
class _Kept:
    attempt: int
    usable: bool
    roles: frozenset[str]
    response: bytes

    def encoded(self) -> bytes:
        return " ".join([f"{self.attempt} {self.usable:d}", *sorted(self.roles)]).encode() + b"\n" + self.response

    @classmethod
    def decode(cls, note: bytes) -> _Kept:
        head, _, response = note.partition(b"\n")
        attempt, usable, *roles = head.decode().split()
        return cls(int(attempt), usable == "1", frozenset(roles), response)


class KeepingInvocations:
    """See Invocations; `inner` is the journal, `roles` are the session's. `patience` cuts a wait in seconds to what the
    session has left."""

    def __init__(
        self,
        inner: Invocations,
        notes: Notes,
        *,
        roles: frozenset[str],
        patience: Callable[[float], float],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._inner = inner
        self._notes = notes
        self._roles = roles
        self._patience = patience
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}

    def begin(self, name: str, *, fingerprint: str, lease_ms: int, retry: str = "") -> Attempt:
        """See Invocations."""
        self._offer_kept(name)
        return self._inner.begin(name, fingerprint=fingerprint, lease_ms=lease_ms, retry=retry)

    def dispatch(self, attempt: Attempt, *, request_sha256: str, calls_max: int | None) -> Attempt:
        """See Invocations."""
        return self._inner.dispatch(attempt, request_sha256=request_sha256, calls_max=calls_max)

    def respond(self, attempt: Attempt, response: bytes, *, usable: bool) -> Attempt:
        """See Invocations. Where the journal does not take the response, the error has it under `detail["response"]`:
        the object that `ContextSession.reconcile` takes, or the text of what is no JSON. `detail["kept"]` says where it
        is kept: `notes`, `memory` or `nowhere`."""
        kept = _Kept(attempt.attempt, usable, attempt.roles, response)
        with self._lock:
            self._kept[attempt.name] = kept
        try:
            responded = self._offered(attempt, kept)
        except BaseException as error:  # an interrupt, too, must not lose it
            where = self._keep(attempt.name, kept, error)
            if isinstance(error, ContextError):
                raise _carrying(error, attempt, kept, where) from error
            raise
        with self._lock:
            self._kept.pop(attempt.name, None)
        return responded

    def fail(self, attempt: Attempt, *, evidence: str) -> Attempt:
        """See Invocations."""
        return self._inner.fail(attempt, evidence=evidence)

    def lose(self, attempt: Attempt, *, evidence: str) -> Attempt:
        """See Invocations."""
        return self._inner.lose(attempt, evidence=evidence)

    def complete(self, attempt: Attempt) -> Attempt:
        """See Invocations."""
        return self._inner.complete(attempt)

    def reconcile(self, name: str, *, response: bytes | None, evidence: str) -> Attempt:
        """See Invocations. With the response that was kept it is settled already."""
        taken = self._offer_kept(name)
        if taken is not None and taken.response == response:
            return taken
        return self._inner.reconcile(name, response=response, evidence=evidence)

    def newest(self, name: str) -> Attempt | None:
        """See Invocations."""
        return self.find(name)

    def find(self, name: str, number: int | None = None) -> Attempt | None:
        """See Invocations."""
        self._offer_kept(name)
        return self._inner.find(name, number)

    def _offered(self, attempt: Attempt, kept: _Kept) -> Attempt:
        """The attempt with its response, offered until it is taken or patience ends."""
        until = self._clock() + self._patience(PATIENCE_SECONDS)
        pause = _PAUSE_SECONDS
        while True:
            try:
                return self._inner.respond(attempt, kept.response, usable=kept.usable)
            except _PASSING:
                if self._clock() + pause > until:
                    raise
            self._sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)

    def _keep(self, name: str, kept: _Kept, error: BaseException) -> str:
        """Keeps a response that was not taken; says where."""
        if isinstance(error, _REFUSED):
            with self._lock:
                self._kept.pop(name, None)
            return "nowhere"
        try:
            self._notes.put(_KIND, name, kept.encoded())
        except _PASSING:
            return "memory"
        return "notes"

    def _offer_kept(self, name: str) -> Attempt | None:
        """Has the journal take what is kept for this name, if anything is. Raises where it cannot be written yet."""
        with self._lock:
            kept = self._kept.get(name)
        if kept is None:
            note = self._notes.get(_KIND, name)
            if note is None:
                return None
            kept = _Kept.decode(note)
        if not kept.roles <= self._roles:
            return None
        taken = None
        with contextlib.suppress(*_REFUSED):  # settled otherwise since: there is nothing to offer any more
            taken = self._inner.respond(_dispatched(name, kept), kept.response, usable=kept.usable)
        with self._lock:
            self._kept.pop(name, None)
        self._notes.remove(_KIND, name)
        return taken


def _dispatched(name: str, kept: _Kept) -> Attempt:
    """What a response is offered to: a journal knows the rest."""
    return Attempt(
        name=name,
        attempt=kept.attempt,
        state=State.DISPATCHED,
        epoch=0,
        holder="",
        lease_until_ms=0,
        fingerprint="",
        roles=kept.roles,
    )


def _carrying(error: ContextError, attempt: Attempt, kept: _Kept, where: str) -> ContextError:
    """The error again, with the response."""
    next_step = {
        "notes": "it is kept under the session's root; call again under the same name, and it is replayed",
        "memory": "it is kept while this session is open; call again under the same name, and it is replayed",
        "nowhere": "the journal does not know the call any more, or as settled otherwise",
    }[where]
    return from_reason(
        error.reason,
        f"call {attempt.name!r} (attempt {attempt.attempt}) was answered, and the journal did not take the response: "
        f"{next_step}. detail['response'] is what reconcile(response=...) takes. {error.message}",
        {**error.detail, "name": attempt.name, "attempt": attempt.attempt, "kept": where, "response": _shown(kept)},
    )


def _shown(kept: _Kept) -> Any:
    """The response as an error's detail carries it: its JSON, or the text of what is none."""
    try:
        return json.loads(kept.response)
    except (ValueError, RecursionError):
        return kept.response.decode("utf-8", "replace")
