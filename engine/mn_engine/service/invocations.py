"""Model calls billed at most once: the rules of mn_contract.invocations over the store (invariant 10).

A closed run begins and dispatches nothing, but what was dispatched may still be answered and settled: a paid response
is not lost to a cancel. An attempt made with roles that the scope does not bear is not found, and its name is taken
(invariant 7).
"""

from __future__ import annotations

from collections.abc import Callable

from mn_contract.errors import ContextBudgetExceeded, NotFound
from mn_contract.invocations import (
    Attempt,
    Begin,
    Begun,
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
from mn_engine.domain.scope import Scope
from mn_engine.service.engine import Call, Engine
from mn_engine.store.port import Invocations

DecideOne = Callable[[Invocations], Attempt]


def begin_invocation(
    engine: Engine,
    scope: Scope,
    call: Call,
    *,
    name: str,
    holder: str,
    lease_ms: int,
    fingerprint: str,
    retry: str,
    abandoned: str,
) -> Attempt:
    """A claimed attempt, or the one whose durable response is to be replayed."""
    call.check()
    wish = Begin(
        name=name,
        holder=holder,
        lease_ms=lease_ms,
        fingerprint=fingerprint,
        roles=scope.roles,
        retry=retry,
        abandoned=abandoned,
    )
    decided: list[Begun] = []

    def decide(known: Invocations) -> tuple[Attempt, ...]:
        begun = begin(known.newest, known.spent_retries, wish, _now_ms(engine))
        if not begun.replayed:
            engine.store.run(scope.run_key).check_writable()
        decided[:] = [begun]
        return begun.write

    engine.store.decide_invocation(scope.run_key, scope.principal, wish.name, decide)
    (begun,) = decided
    if begun.error is not None:
        raise begun.error
    return begun.attempt


def dispatch_invocation(
    engine: Engine,
    scope: Scope,
    call: Call,
    *,
    name: str,
    attempt: int,
    epoch: int,
    request_sha256: str,
    max_calls: int | None,
) -> Attempt:
    """The attempt, durably DISPATCHED."""
    call.check()

    def decide(known: Invocations) -> Attempt:
        engine.store.run(scope.run_key).check_writable()
        moved = dispatch(_of(known, scope, attempt), epoch=epoch, request_sha256=request_sha256)
        if max_calls is not None and known.run_calls >= max_calls:
            raise ContextBudgetExceeded(
                f"the run has made {known.run_calls} of its {max_calls} calls; this one was not sent",
                budget="calls",
                limit=max_calls,
                used=known.run_calls,
                needed=1,
            )
        return moved

    return _decide(engine, scope, name, decide)


def respond_invocation(
    engine: Engine,
    scope: Scope,
    call: Call,
    *,
    name: str,
    attempt: int,
    epoch: int,
    outcome: State,
    response: bytes,
    usable: bool,
    evidence: str,
) -> Attempt:
    """The attempt with what became of it."""

    def decide(known: Invocations) -> Attempt:
        of = _of(known, scope, attempt)
        if outcome is State.RESPONDED:
            return respond(of, response, usable=usable, evidence=evidence)
        return settle(of, outcome, epoch=epoch, evidence=evidence)

    return _decide(engine, scope, name, decide)


def complete_invocation(engine: Engine, scope: Scope, call: Call, *, name: str, attempt: int) -> Attempt:
    """The attempt, written back."""
    return _decide(engine, scope, name, lambda known: move(_of(known, scope, attempt), Command.COMPLETE))


def reconcile_invocation(
    engine: Engine, scope: Scope, call: Call, *, name: str, response: bytes | None, evidence: str, abandoned: str
) -> Attempt:
    """The newest attempt, settled: with a response that was found, or as not executed (None)."""

    def decide(known: Invocations) -> Attempt:
        return reconcile(
            _newest(known, scope), response=response, evidence=evidence, now_ms=_now_ms(engine), abandoned=abandoned
        )

    return _decide(engine, scope, name, decide)


def get_invocation(engine: Engine, scope: Scope, call: Call, *, name: str, attempt: int | None) -> tuple[Attempt, int]:
    """The attempt of this number, or the newest, and how many of the whole run's attempts may have been billed."""
    check_id(name, "name")
    engine.store.run(scope.run_key).check_readable()
    known = engine.store.invocations(scope.run_key, scope.principal, name)
    found = _newest(known, scope) if attempt is None else _of(known, scope, attempt)
    if found is None:
        raise NotFound("there is no invocation of this name")
    return found, known.run_calls


def _decide(engine: Engine, scope: Scope, name: str, decide: DecideOne) -> Attempt:
    """Stores what `decide` makes of one attempt; an attempt that it leaves as it is is not written again."""
    check_id(name, "name")
    decided: list[Attempt] = []

    def changed(known: Invocations) -> tuple[Attempt, ...]:
        after = decide(known)
        decided[:] = [after]
        return () if known.by_attempt.get(after.attempt) == after else (after,)

    engine.store.decide_invocation(scope.run_key, scope.principal, name, changed)
    return decided[0]


def _newest(known: Invocations, scope: Scope) -> Attempt | None:
    newest = known.newest
    return newest if newest is not None and is_visible(newest, scope.roles) else None


def _of(known: Invocations, scope: Scope, number: int) -> Attempt:
    attempt = known.by_attempt.get(number)
    if attempt is None or not is_visible(attempt, scope.roles):
        raise NotFound("there is no such attempt of an invocation of this name")
    return attempt


def _now_ms(engine: Engine) -> int:
    return engine.clock() // 1000
