"""Invocations that keep a paid response which the journal did not take (invariant 10).

A response in hand is the only proof of what was paid for. While the journal cannot be written it is offered again, for
a bounded time, and then kept beside it: in the session's notes, in memory where even those cannot be written. It is
offered again when a session is opened under the same root, before the next call of any name, and first of all by
whatever looks at the call of that name; only with the roles that the call was made with, for without them there is no
such call (invariant 7). What the journal refuses, because somebody has settled the attempt otherwise meanwhile, stays
kept, and the call is not made again before its caller has said so with a `retry`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
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
from mn_contract.invocations import REPLAYABLE, Attempt, State
from mn_sdk.context_session.journal import Invocations
from mn_sdk.context_session.journal.notes import Notes

PATIENCE_SECONDS: Final = 30.0
"""How long a response is offered to a journal that cannot be written: an engine's restart."""
_PAUSE_SECONDS: Final = 0.1
_PAUSE_SECONDS_MAX: Final = 2.0
_PASSING: Final = (DependencyUnavailable, StorageFull)
"""Errors after which the same write may succeed."""
_REFUSED: Final = (IdempotencyConflict, NotFound)
"""Errors by which the journal says that the attempt is settled otherwise, or that it does not know it."""
KIND: Final = "response"
ASIDE: Final = "response aside"
"""The kinds of note that hold what is offered, and what its caller has gone on without."""
OFFERED_AT_ONCE_MAX: Final = 16
"""Responses of other names that one call stops for."""


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
        self._in_memory: set[str] = set()
        self._passed_over: set[str] = set()

    def begin(self, name: str, *, fingerprint: str, lease_ms: int, retry: str = "") -> Attempt:
        """See Invocations. Raises IdempotencyConflict, with the response under `detail["response"]`, where one is kept
        that the journal refuses, and the call would be made again. With a `retry` it is; the response is set aside."""
        waiting = self._waiting()
        refused = self._offer_kept(name)[1] if name in waiting or name in self._kept else None
        if refused is not None and self._is_answered(name):
            refused = None
        if refused is not None and not retry:
            raise _unwanted(name, refused)
        begun = self._inner.begin(name, fingerprint=fingerprint, lease_ms=lease_ms, retry=retry)
        if refused is not None:
            self._set_aside(name, refused)
        self._offer_each(waiting)
        return begun

    def offer_all(self) -> None:
        """Has the journal take what is kept for any name. What it cannot take now is no error here: it stays kept, and
        the first answer that the journal is away ends this."""
        self._offer_each(self._waiting())

    def dispatch(self, attempt: Attempt, *, request_sha256: str, calls_max: int | None) -> Attempt:
        """See Invocations."""
        return self._inner.dispatch(attempt, request_sha256=request_sha256, calls_max=calls_max)

    def respond(self, attempt: Attempt, response: bytes, *, usable: bool, evidence: str = "") -> Attempt:
        """See Invocations. Where the journal does not take the response, the error has it under `detail["response"]`:
        the object that `ContextSession.reconcile` takes, or the text of what is no JSON. `detail["kept"]` says where it
        is kept: `notes`, `memory` or `nowhere`."""
        kept = _Kept(attempt.attempt, usable, attempt.roles, response)
        with self._lock:
            self._kept[attempt.name] = kept
        try:
            responded = self._offered(attempt, kept, evidence)
        except BaseException as error:  # an interrupt, too, must not lose it
            where = self._keep(attempt.name, kept, error)
            if isinstance(error, ContextError):
                raise _carrying(error, attempt, kept, where) from error
            raise
        self._forget(attempt.name)
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
        """See Invocations. With the response that was kept it is settled already. Raises IdempotencyConflict, as
        `begin`, where a response to the newest attempt is kept and it is said not to have been executed."""
        taken, refused = self._offer_kept(name)
        if taken is not None and taken.response == response:
            return taken
        if refused is not None and response is None:
            newest = self._inner.newest(name)
            if newest is not None and newest.attempt == refused.attempt:
                raise _unwanted(name, refused)
        return self._inner.reconcile(name, response=response, evidence=evidence)

    def newest(self, name: str) -> Attempt | None:
        """See Invocations."""
        return self.find(name)

    def find(self, name: str, number: int | None = None) -> Attempt | None:
        """See Invocations."""
        self._offer_kept(name)
        return self._inner.find(name, number)

    def _offered(self, attempt: Attempt, kept: _Kept, evidence: str) -> Attempt:
        """The attempt with its response, offered until it is taken or patience ends."""
        until = self._clock() + self._patience(PATIENCE_SECONDS)
        pause = _PAUSE_SECONDS
        while True:
            try:
                return self._inner.respond(attempt, kept.response, usable=kept.usable, evidence=evidence)
            except _PASSING:
                if self._clock() + pause > until:
                    raise
            self._sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)

    def _keep(self, name: str, kept: _Kept, error: BaseException) -> str:
        """Keeps a response that was not taken; says where. Of a cleared run nothing is kept (invariant 15), nor what
        answers a call that this session cannot have made (invariant 7)."""
        if isinstance(error, RunClosed) or not kept.roles <= self._roles:
            self._forget(name)
            return "nowhere"
        self._passed_over.discard(name)
        try:
            self._notes.put(KIND, name, kept.encoded())
        except _PASSING:
            with self._lock:
                self._in_memory.add(name)
            return "memory"
        return "notes"

    def _waiting(self) -> list[str]:
        """The names for which something is kept, one that is being offered just now left out."""
        with self._lock:
            in_memory = sorted(self._in_memory)
        return [*in_memory, *self._notes.names(KIND)]

    def _offer_each(self, names: Iterable[str]) -> None:
        for name in [name for name in names if name not in self._passed_over][:OFFERED_AT_ONCE_MAX]:
            try:
                taken, _ = self._offer_kept(name)
            except _PASSING:
                return
            except ContextError:
                taken = None
            if taken is None:
                self._passed_over.add(name)

    def _offer_kept(self, name: str) -> tuple[Attempt | None, _Kept | None]:
        """Has the journal take what is kept for this name, if anything is; answers the attempt that took it, and what
        was refused. Raises where the journal cannot be written yet."""
        with self._lock:
            kept = self._kept.get(name)
        if kept is None:
            note = self._notes.get(KIND, name)
            if note is None:
                return None, None
            kept = _Kept.decode(note)
        if not kept.roles <= self._roles:
            return None, None
        try:
            taken = self._inner.respond(_dispatched(name, kept), kept.response, usable=kept.usable)
        except _REFUSED:
            return None, kept
        self._forget(name)
        self._notes.remove(KIND, name)
        return taken, None

    def _is_answered(self, name: str) -> bool:
        """Whether the call would be replayed."""
        newest = self._inner.newest(name)
        return newest is not None and newest.state in REPLAYABLE

    def _set_aside(self, name: str, kept: _Kept) -> None:
        """Keeps a response that is offered no more."""
        self._notes.put(ASIDE, f"{name}/{kept.attempt}", kept.encoded())
        self._notes.remove(KIND, name)
        self._forget(name)

    def _forget(self, name: str) -> None:
        """Lets go of what memory holds for a name."""
        with self._lock:
            self._kept.pop(name, None)
            self._in_memory.discard(name)


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


def _unwanted(name: str, kept: _Kept) -> IdempotencyConflict:
    """The error for a call that would be made again although a response to it is kept."""
    return IdempotencyConflict(
        f"a response to call {name!r} (attempt {kept.attempt}) is kept under the session's root, and the journal has "
        "that attempt as settled otherwise, or not at all; nothing was sent. detail['response'] is the response: use "
        "it, or name a retry to have the call made, and paid for, again",
        key=name,
        name=name,
        attempt=kept.attempt,
        kept="notes",
        response=_shown(kept),
    )


def _carrying(error: ContextError, attempt: Attempt, kept: _Kept, where: str) -> ContextError:
    """The error again, with the response."""
    next_step = {
        "notes": "it is kept under the session's root; call again under the same name, and it is replayed",
        "memory": "it is kept while this session is open; call again under the same name, and it is replayed",
        "nowhere": "it is not kept: the run is cleared, or the call is another's",
    }[where]
    if isinstance(error, _REFUSED) and where != "nowhere":
        next_step = "the journal has the attempt as settled otherwise, or not at all; it is kept all the same"
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
