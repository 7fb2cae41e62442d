"""The life of a model call, as a table: at most one billable dispatch for a name (invariant 10).

An invocation is a name that the caller gives a logical call; each try at it is an attempt. A worker claims an attempt
(PREPARED), makes DISPATCHED durable, sends, and says what became of it. Whoever stores attempts (the session's journal,
the engine) asks these functions what may happen, and writes what they return; they read no clock and store nothing.

A name belongs to its principal, whatever roles it bears; what was asked and answered under it belongs to the roles that
the call was made with, because they decided what its packet showed (invariant 7).

    PREPARED ──dispatch──> DISPATCHED ──respond──> RESPONDED ──complete──> COMPLETED
                               │ ├──fail────────> FAILED_DEFINITE          (a new attempt is free)
                               │ └──lose────────> AMBIGUOUS ──respond────> RESPONDED   (late, to its own attempt)
                               └──(its worker died)──┘  │ ├──reconcile──> RECONCILED | FAILED_DEFINITE
                                                        │ └──supersede──> SUPERSEDED   (an explicit retry)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from mn_contract.errors import (
    AmbiguousInvocation,
    IdempotencyConflict,
    InvalidInput,
    InvocationInFlight,
    NotFound,
    StaleRevision,
)
from mn_contract.limits import EVIDENCE_BYTES_MAX, LEASE_MS_MAX, RESPONSE_BYTES_MAX
from mn_contract.names import check_id, check_sha256, check_text


class State(Enum):
    """Where an attempt stands."""

    PREPARED = "prepared"
    DISPATCHED = "dispatched"
    RESPONDED = "responded"
    COMPLETED = "completed"
    FAILED_DEFINITE = "failed_definite"
    AMBIGUOUS = "ambiguous"
    RECONCILED = "reconciled"
    SUPERSEDED = "superseded"


class Command(Enum):
    """What may happen to an attempt."""

    DISPATCH = "dispatch"
    RESPOND = "respond"
    FAIL = "fail"
    LOSE = "lose"
    COMPLETE = "complete"
    RECONCILE = "reconcile"
    SUPERSEDE = "supersede"


TRANSITIONS: Final[Mapping[tuple[State, Command], State]] = {
    (State.PREPARED, Command.DISPATCH): State.DISPATCHED,
    (State.PREPARED, Command.FAIL): State.FAILED_DEFINITE,
    (State.DISPATCHED, Command.RESPOND): State.RESPONDED,
    (State.DISPATCHED, Command.FAIL): State.FAILED_DEFINITE,
    (State.DISPATCHED, Command.LOSE): State.AMBIGUOUS,
    (State.AMBIGUOUS, Command.RESPOND): State.RESPONDED,
    (State.AMBIGUOUS, Command.RECONCILE): State.RECONCILED,
    (State.AMBIGUOUS, Command.FAIL): State.FAILED_DEFINITE,
    (State.AMBIGUOUS, Command.SUPERSEDE): State.SUPERSEDED,
    (State.SUPERSEDED, Command.RESPOND): State.SUPERSEDED,
    (State.RESPONDED, Command.COMPLETE): State.COMPLETED,
    (State.COMPLETED, Command.COMPLETE): State.COMPLETED,
    (State.RECONCILED, Command.COMPLETE): State.RECONCILED,
}
"""Every move there is. A pair that is not here is refused."""

_SETTLING: Final = {State.FAILED_DEFINITE: Command.FAIL, State.AMBIGUOUS: Command.LOSE}
"""What a worker may say of a call beside its response."""

REPLAYABLE: Final = frozenset({State.RESPONDED, State.COMPLETED, State.RECONCILED})
"""States with a durable response to replay."""

MAY_BE_BILLED: Final = frozenset(State) - {State.PREPARED, State.FAILED_DEFINITE}
"""States that count against a run's calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt, as it is stored. Times are milliseconds since the epoch, by the clock of whoever stores it."""

    name: str
    attempt: int
    state: State
    epoch: int
    holder: str
    lease_until_ms: int
    fingerprint: str
    roles: frozenset[str]
    """Those that its worker bore: without all of them it is not seen."""
    request_sha256: str = ""
    retry: str = ""
    response: bytes | None = None
    usable: bool = True
    evidence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """A worker's wish to go on with an invocation. `abandoned` is a holder the worker knows to be dead, or empty."""

    name: str
    holder: str
    lease_ms: int
    fingerprint: str
    roles: frozenset[str]
    retry: str = ""
    abandoned: str = ""

    def __post_init__(self) -> None:
        check_id(self.name, "name")
        check_id(self.holder, "holder")
        check_sha256(self.fingerprint, "fingerprint")
        if self.retry:
            check_id(self.retry, "retry")
        if self.abandoned:
            check_id(self.abandoned, "abandoned_holder")
        if not 1 <= self.lease_ms <= LEASE_MS_MAX:
            raise InvalidInput(f"lease_ms must be 1-{LEASE_MS_MAX}", field="lease_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What a begin decided. `write` is stored, in order, before `error` is raised or `attempt` is used."""

    attempt: Attempt
    write: tuple[Attempt, ...] = ()
    replayed: bool = False
    error: AmbiguousInvocation | None = None


def is_visible(attempt: Attempt, roles: frozenset[str]) -> bool:
    """Whether the attempt's principal may read it with these roles: all that it was made with."""
    return attempt.roles <= roles


def spent_retries(attempts: Iterable[Attempt]) -> frozenset[str]:
    """The retry identities that have led to a dispatch, whatever became of it: none leads to another."""
    return frozenset(attempt.retry for attempt in attempts if attempt.retry and attempt.request_sha256)


def begin(newest: Attempt | None, spent: frozenset[str], wish: Begin, now_ms: int) -> Begun:
    """What becomes of `wish`, given the name's newest attempt and its retry identities that are spent.

    Raises InvocationInFlight where another live worker holds it, IdempotencyConflict where the name was used for
    another request or with roles that `wish` lacks, or the retry identity for an earlier dispatch. An outcome nobody
    can prove comes back as `Begun.error`.
    """
    if newest is None:
        return _fresh(wish, 1, now_ms)
    if not is_visible(newest, wish.roles):
        raise _taken(newest.name)
    resumes = bool(wish.retry) and wish.retry == newest.retry
    if newest.state in REPLAYABLE:
        _check_same_request(newest, wish)
        return Begun(attempt=newest, replayed=True)
    if newest.state is State.FAILED_DEFINITE:
        _check_unspent(wish, spent)
        # What a retry allowed and did not come to is used up by the call that comes instead.
        return _fresh(replace(wish, retry=wish.retry or newest.retry), newest.attempt + 1, now_ms)
    if newest.state in (State.PREPARED, State.DISPATCHED):
        _check_free(newest, wish, now_ms)
    if newest.state is State.PREPARED:
        _check_unspent(wish, spent)
        claimed = replace(
            newest,
            epoch=newest.epoch + 1,
            holder=wish.holder,
            lease_until_ms=now_ms + wish.lease_ms,
            fingerprint=wish.fingerprint,
            roles=wish.roles,
            retry=wish.retry or newest.retry,  # a claim that supersedes stays the dispatch of the retry that asked it
        )
        return Begun(attempt=claimed, write=(claimed,))
    _check_same_request(newest, wish)
    lost = move(newest, Command.LOSE, evidence="its worker ended") if newest.state is State.DISPATCHED else newest
    if not wish.retry or resumes:
        written = () if lost is newest else (lost,)
        return Begun(attempt=lost, write=written, error=ambiguous(lost))
    _check_unspent(wish, spent)
    again = _fresh(wish, newest.attempt + 1, now_ms)
    return Begun(attempt=again.attempt, write=(move(lost, Command.SUPERSEDE), *again.write))


def dispatch(attempt: Attempt, *, epoch: int, request_sha256: str) -> Attempt:
    """DISPATCHED, for the worker whose epoch is the newest. Raises StaleRevision for any other."""
    check_sha256(request_sha256, "request_sha256")
    _check_epoch(attempt, epoch)
    return replace(move(attempt, Command.DISPATCH), request_sha256=request_sha256)


def settle(attempt: Attempt, outcome: State, *, epoch: int, evidence: str) -> Attempt:
    """FAILED_DEFINITE or AMBIGUOUS, for the worker whose epoch is the newest; unchanged where it is that already.

    Raises StaleRevision for any other: a worker whose claim was taken over cannot tell what became of the call.
    """
    command = _SETTLING.get(outcome)
    if command is None:
        raise InvalidInput("outcome must be responded, failed_definite or ambiguous", field="outcome")
    _check_epoch(attempt, epoch)
    return attempt if attempt.state is outcome else move(attempt, command, evidence=evidence)


def respond(attempt: Attempt, response: bytes, *, usable: bool, evidence: str = "") -> Attempt:
    """The attempt with its response, and `evidence` of where one was found that its worker did not receive. The same
    response again changes nothing; another one is IdempotencyConflict."""
    if len(response) > RESPONSE_BYTES_MAX:
        raise InvalidInput(f"response must be at most {RESPONSE_BYTES_MAX} bytes", field="response")
    if attempt.response is not None:
        if attempt.response == response:
            return attempt
        raise IdempotencyConflict(f"attempt {attempt.attempt} has another response", key=attempt.name)
    moved = move(attempt, Command.RESPOND, evidence=evidence or None)
    return replace(moved, response=response, usable=usable)


def reconcile(
    attempt: Attempt | None, *, response: bytes | None, evidence: str, now_ms: int, abandoned: str
) -> Attempt:
    """The attempt settled: by a response that was found (RECONCILED), or as not executed (FAILED_DEFINITE).

    Raises NotFound for a name never dispatched, InvocationInFlight while its worker lives, IdempotencyConflict where
    it is settled otherwise already.
    """
    check_evidence(evidence)
    if attempt is None or attempt.state is State.PREPARED:
        raise NotFound("there is no dispatched invocation of this name")
    if attempt.state is State.DISPATCHED:
        if attempt.lease_until_ms > now_ms and attempt.holder != abandoned:
            raise in_flight(attempt, now_ms)
        attempt = move(attempt, Command.LOSE, evidence="its worker ended")
    settled = State.FAILED_DEFINITE if response is None else State.RECONCILED
    if attempt.state is settled and attempt.response == response:
        return attempt
    if attempt.state is not State.AMBIGUOUS:
        raise IdempotencyConflict(f"the invocation is {attempt.state.value} already", key=attempt.name)
    if response is None:
        return move(attempt, Command.FAIL, evidence=evidence)
    if len(response) > RESPONSE_BYTES_MAX:
        raise InvalidInput(f"response must be at most {RESPONSE_BYTES_MAX} bytes", field="response")
    return replace(move(attempt, Command.RECONCILE, evidence=evidence), response=response, usable=True)


def check_evidence(value: str) -> str:
    """`value` where it is what a settlement can rest on. Raises InvalidInput."""
    if "\0" in check_text(value, "evidence", EVIDENCE_BYTES_MAX, bytes_min=1):
        raise InvalidInput("evidence must be text without NUL", field="evidence")
    return value


def move(attempt: Attempt, command: Command, *, evidence: str | None = None) -> Attempt:
    """The attempt after `command`. Raises IdempotencyConflict where TRANSITIONS has no such move."""
    target = TRANSITIONS.get((attempt.state, command))
    if target is None:
        raise IdempotencyConflict(
            f"an invocation that is {attempt.state.value} cannot {command.value}", key=attempt.name
        )
    if evidence is None:
        return replace(attempt, state=target)
    return replace(attempt, state=target, evidence=check_text(evidence, "evidence", EVIDENCE_BYTES_MAX))


def ambiguous(attempt: Attempt) -> AmbiguousInvocation:
    """The error for an attempt whose outcome nobody can prove."""
    return AmbiguousInvocation(
        f"call {attempt.name!r} (attempt {attempt.attempt}) was dispatched and its outcome is not known: it may have"
        " been billed. Settle it with reconcile(response=...) or reconcile(not_executed=True), or name a retry",
        name=attempt.name,
        attempt=attempt.attempt,
    )


def in_flight(attempt: Attempt, now_ms: int) -> InvocationInFlight:
    """The error for an attempt that another live worker holds."""
    return InvocationInFlight(
        f"call {attempt.name!r} is held by another worker; wait for it",
        name=attempt.name,
        holder=attempt.holder,
        retry_after_ms=max(attempt.lease_until_ms - now_ms, 1),
    )


def _fresh(wish: Begin, number: int, now_ms: int) -> Begun:
    attempt = Attempt(
        name=wish.name,
        attempt=number,
        state=State.PREPARED,
        epoch=1,
        holder=wish.holder,
        lease_until_ms=now_ms + wish.lease_ms,
        fingerprint=wish.fingerprint,
        roles=wish.roles,
        retry=wish.retry,
    )
    return Begun(attempt=attempt, write=(attempt,))


def _check_epoch(attempt: Attempt, epoch: int) -> None:
    if epoch != attempt.epoch:
        raise StaleRevision(
            "another worker has claimed this invocation since; begin it again", expected=epoch, newest=attempt.epoch
        )


def _check_free(newest: Attempt, wish: Begin, now_ms: int) -> None:
    # The same holder is a worker that lost its own answer; it may go on (and a dispatch of its own is ambiguous to it).
    if newest.lease_until_ms > now_ms and newest.holder not in (wish.holder, wish.abandoned):
        raise in_flight(newest, now_ms)


def _check_unspent(wish: Begin, spent: frozenset[str]) -> None:
    if wish.retry in spent:
        raise IdempotencyConflict(
            f"retry identity {wish.retry!r} has led to a dispatch of this call; name a new one", key=wish.retry
        )


def _check_same_request(newest: Attempt, wish: Begin) -> None:
    if newest.fingerprint != wish.fingerprint:
        raise _taken(newest.name)


def _taken(name: str) -> IdempotencyConflict:
    # One answer for both reasons, so that it tells nothing of a call that the asker may not see.
    return IdempotencyConflict(
        f"call {name!r} was made with another request or other roles; give this one a name of its own", key=name
    )
