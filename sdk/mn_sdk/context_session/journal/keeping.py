"""Invocations that keep a paid response which the journal did not take (invariant 10).

A response in hand is the only proof of what was paid for. While the journal cannot be written it is offered again, for
a bounded time, and then kept beside it, each attempt's for itself and with its evidence: in the session's notes, in
memory where even those cannot be written. It is offered again when a session is opened under the same root, before the
next call of any name, and first of all by whatever looks at the call of that name; only with the roles that the call
was made with, for without them there is no such call (invariant 7). What the journal refuses, because somebody has
settled the attempt otherwise meanwhile, stays kept, and the call is not made again before its caller has said so with a
`retry`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from mn_contract.canonical import encoded
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
from mn_sdk.context_session.journal.bindings import Bindings
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


_Key = tuple[str, int]
"""A call's name and the attempt's number."""


@dataclass(frozen=True, slots=True)
class _Kept:
    name: str
    attempt: int
    usable: bool
    roles: frozenset[str]
    evidence: str
    response: bytes

    @property
    def key(self) -> _Key:
        return self.name, self.attempt

    def encoded(self) -> bytes:
        head = {"usable": self.usable, "roles": sorted(self.roles), "evidence": self.evidence}
        return encoded(head) + b"\n" + self.response

    @classmethod
    def decode(cls, key: _Key, note: bytes) -> _Kept:
        text, _, response = note.partition(b"\n")
        head = json.loads(text)
        return cls(*key, head["usable"], frozenset(head["roles"]), head["evidence"], response)


def _note_name(key: _Key) -> str:
    name, attempt = key
    return f"{name}/{attempt}"


def _key_of(note_name: str) -> _Key:
    name, _, attempt = note_name.rpartition("/")
    return name, int(attempt)


class KeepingInvocations:
    """See Invocations; `inner` is the journal, `roles` are the session's. `bindings` are kept before a call is
    dispatched. `patience` cuts a wait in seconds to what the session has left."""

    def __init__(
        self,
        inner: Invocations,
        notes: Notes,
        *,
        bindings: Bindings,
        roles: frozenset[str],
        patience: Callable[[float], float],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._inner = inner
        self._notes = notes
        self._bindings = bindings
        self._roles = roles
        self._patience = patience
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._kept: dict[_Key, _Kept] = {}
        self._in_memory: set[_Key] = set()
        self._passed_over: set[_Key] = set()

    def begin(self, name: str, *, fingerprint: str, lease_ms: int, retry: str = "") -> Attempt:
        """See Invocations. Raises IdempotencyConflict, with the response under `detail["response"]`, where one is kept
        that the journal refuses, and the call would be made again. With a `retry` it is; the response is set aside."""
        waiting = self._waiting()
        _, refused = self._offer_kept(name, waiting)
        if refused and self._is_answered(name):
            refused = []
        if refused and not retry:
            raise _unwanted(refused[-1])
        begun = self._inner.begin(name, fingerprint=fingerprint, lease_ms=lease_ms, retry=retry)
        for kept in refused:
            self._set_aside(kept)
        self._offer_each(waiting)
        return begun

    def offer_all(self) -> None:
        """Has the journal take what is kept for any name. What it cannot take now is no error here: it stays kept, and
        the first answer that the journal is away ends this."""
        self._offer_each(self._waiting())

    def dispatch(self, attempt: Attempt, *, request_sha256: str, calls_max: int | None) -> Attempt:
        """See Invocations."""
        self._bindings.keep(attempt)
        return self._inner.dispatch(attempt, request_sha256=request_sha256, calls_max=calls_max)

    def respond(self, attempt: Attempt, response: bytes, *, usable: bool, evidence: str = "") -> Attempt:
        """See Invocations. Where the journal does not take the response, the error has it under `detail["response"]`:
        the object that `ContextSession.reconcile` takes, or the text of what is no JSON. `detail["kept"]` says where it
        is kept: `notes`, `memory` or `nowhere`."""
        kept = _Kept(attempt.name, attempt.attempt, usable, attempt.roles, evidence, response)
        with self._lock:
            self._kept[kept.key] = kept
        try:
            responded = self._offered(attempt, kept)
        except BaseException as error:  # an interrupt, too, must not lose it
            where = self._keep(kept, error)
            if isinstance(error, ContextError):
                raise _carrying(error, kept, where) from error
            raise
        self._forget(kept)
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
        taken, refused = self._offer_kept(name, self._waiting())
        newest = self._inner.newest(name) if taken or refused else None
        if newest is not None and newest.attempt in taken and newest.response == response:
            return newest
        if newest is not None and response is None:
            for kept in refused:
                if kept.attempt == newest.attempt:
                    raise _unwanted(kept)
        return self._inner.reconcile(name, response=response, evidence=evidence)

    def newest(self, name: str) -> Attempt | None:
        """See Invocations."""
        return self.find(name)

    def find(self, name: str, number: int | None = None) -> Attempt | None:
        """See Invocations."""
        self._offer_kept(name, self._waiting())
        return self._inner.find(name, number)

    def _offered(self, attempt: Attempt, kept: _Kept) -> Attempt:
        """The attempt with its response, offered until it is taken or patience ends."""
        until = self._clock() + self._patience(PATIENCE_SECONDS)
        pause = _PAUSE_SECONDS
        while True:
            try:
                return self._inner.respond(attempt, kept.response, usable=kept.usable, evidence=kept.evidence)
            except _PASSING:
                if self._clock() + pause > until:
                    raise
            self._sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)

    def _keep(self, kept: _Kept, error: BaseException) -> str:
        """Keeps a response that was not taken; says where. Of a cleared run nothing is kept (invariant 15), nor what
        answers a call that this session cannot have made (invariant 7)."""
        if isinstance(error, RunClosed) or not kept.roles <= self._roles:
            self._forget(kept)
            return "nowhere"
        self._passed_over.discard(kept.key)
        try:
            self._notes.put(KIND, _note_name(kept.key), kept.encoded())
        except _PASSING:
            with self._lock:
                self._in_memory.add(kept.key)
            return "memory"
        return "notes"

    def _waiting(self) -> list[_Key]:
        """What something is kept for, one that is being offered just now left out."""
        with self._lock:
            in_memory = sorted(self._in_memory)
        return [*in_memory, *map(_key_of, self._notes.names(KIND))]

    def _offer_each(self, keys: Iterable[_Key]) -> None:
        for key in [key for key in keys if key not in self._passed_over][:OFFERED_AT_ONCE_MAX]:
            kept = self._find_kept(key)
            try:
                taken = None if kept is None else self._offer(kept)
            except _PASSING:
                return
            except ContextError:
                taken = None
            if taken is None:
                self._passed_over.add(key)

    def _offer_kept(self, name: str, waiting: Iterable[_Key]) -> tuple[set[int], list[_Kept]]:
        """Has the journal take what is kept for a name, if anything is; answers the attempts that took it, and what was
        refused, that of the newest attempt last. Raises where the journal cannot be written yet."""
        with self._lock:
            offered = {key for key in self._kept if key[0] == name}
        offered.update(key for key in waiting if key[0] == name)
        found = (self._find_kept(key) for key in sorted(offered))
        taken: set[int] = set()
        refused: list[_Kept] = []
        for kept in found:
            if kept is None:
                continue
            if self._offer(kept) is None:
                refused.append(kept)
            else:
                taken.add(kept.attempt)
        return taken, refused

    def _find_kept(self, key: _Key) -> _Kept | None:
        """What is kept for an attempt; None where nothing is that this session may offer."""
        with self._lock:
            kept = self._kept.get(key)
        if kept is None:
            note = self._notes.get(KIND, _note_name(key))
            kept = None if note is None else _Kept.decode(key, note)
        return kept if kept is not None and kept.roles <= self._roles else None

    def _offer(self, kept: _Kept) -> Attempt | None:
        """The attempt with its response, where the journal takes it; None where it refuses."""
        try:
            taken = self._inner.respond(_dispatched(kept), kept.response, usable=kept.usable, evidence=kept.evidence)
        except _REFUSED:
            return None
        self._forget(kept)
        self._notes.remove(KIND, _note_name(kept.key))
        return taken

    def _is_answered(self, name: str) -> bool:
        """Whether the call would be replayed."""
        newest = self._inner.newest(name)
        return newest is not None and newest.state in REPLAYABLE

    def _set_aside(self, kept: _Kept) -> None:
        """Keeps a response that is offered no more."""
        self._notes.put(ASIDE, _note_name(kept.key), kept.encoded())
        self._notes.remove(KIND, _note_name(kept.key))
        self._forget(kept)

    def _forget(self, kept: _Kept) -> None:
        """Lets go of what memory holds of it."""
        with self._lock:
            self._kept.pop(kept.key, None)
            self._in_memory.discard(kept.key)


def _dispatched(kept: _Kept) -> Attempt:
    """What a response is offered to: a journal knows the rest."""
    return Attempt(
        name=kept.name,
        attempt=kept.attempt,
        state=State.DISPATCHED,
        epoch=0,
        holder="",
        lease_until_ms=0,
        fingerprint="",
        roles=kept.roles,
    )


def _unwanted(kept: _Kept) -> IdempotencyConflict:
    """The error for a call that would be made again although a response to it is kept."""
    return IdempotencyConflict(
        f"a response to call {kept.name!r} (attempt {kept.attempt}) is kept under the session's root, and the journal "
        "has that attempt as settled otherwise, or not at all; nothing was sent. detail['response'] is the response: "
        "use it, or name a retry to have the call made, and paid for, again",
        key=kept.name,
        name=kept.name,
        attempt=kept.attempt,
        kept="notes",
        response=_shown(kept),
    )


def _carrying(error: ContextError, kept: _Kept, where: str) -> ContextError:
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
        f"call {kept.name!r} (attempt {kept.attempt}) was answered, and the journal did not take the response: "
        f"{next_step}. detail['response'] is what reconcile(response=...) takes. {error.message}",
        {**error.detail, "name": kept.name, "attempt": kept.attempt, "kept": where, "response": _shown(kept)},
    )


def _shown(kept: _Kept) -> Any:
    """The response as an error's detail carries it: its JSON, or the text of what is none."""
    try:
        return json.loads(kept.response)
    except (ValueError, RecursionError):
        return kept.response.decode("utf-8", "replace")
