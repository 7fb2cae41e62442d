"""The invocation table (invariant 10), by hand and against every sequence of commands."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_contract.errors import (
    AmbiguousInvocation,
    ContextError,
    IdempotencyConflict,
    InvocationInFlight,
    NotFound,
    StaleRevision,
)
from mn_contract.invocations import (
    MAY_BE_BILLED,
    TRANSITIONS,
    Attempt,
    Begin,
    Command,
    State,
    begin,
    dispatch,
    move,
    reconcile,
    respond,
    spent_retries,
)

F, G = "f" * 64, "a" * 64
ROLES = frozenset({"auditor", "lead"})


def wish(
    holder: str = "w1", *, retry: str = "", fingerprint: str = F, abandoned: str = "", roles: frozenset[str] = ROLES
) -> Begin:
    return Begin(
        name="n",
        holder=holder,
        lease_ms=1000,
        fingerprint=fingerprint,
        roles=roles,
        retry=retry,
        abandoned=abandoned,
    )


def attempt(state: State, **changes: object) -> Attempt:
    known = {"holder": "w1", "lease_until_ms": 1000, "fingerprint": F, "epoch": 1, "attempt": 1, "roles": ROLES}
    values = {**known, **changes}
    return Attempt(name="n", state=state, **values)  # type: ignore[arg-type]


def test_a_new_name_is_prepared_and_a_live_claim_is_in_flight_to_others() -> None:
    begun = begin(None, frozenset(), wish(), 0)
    assert (begun.attempt.state, begun.attempt.attempt) == (State.PREPARED, 1)
    with pytest.raises(InvocationInFlight) as caught:
        begin(begun.attempt, frozenset(), wish("w2"), 500)
    assert caught.value.detail["retry_after_ms"] == 500


@pytest.mark.parametrize("abandoned", ["", "w1"])
def test_a_claim_whose_worker_ended_is_taken_over_with_a_higher_epoch(abandoned: str) -> None:
    """After the lease, or at once where the worker is known to be dead."""
    first = begin(None, frozenset(), wish(), 0).attempt
    now = 500 if abandoned else 1000
    second = begin(first, frozenset(), wish("w2", abandoned=abandoned), now).attempt
    assert second.epoch == first.epoch + 1
    with pytest.raises(StaleRevision):
        dispatch(second, epoch=first.epoch, request_sha256=G)
    assert dispatch(second, epoch=second.epoch, request_sha256=G).state is State.DISPATCHED


def test_a_dispatch_whose_worker_ended_is_ambiguous_and_never_begun_again() -> None:
    lost = attempt(State.DISPATCHED)
    begun = begin(lost, frozenset(), wish("w2"), 1000)
    assert isinstance(begun.error, AmbiguousInvocation)
    assert [written.state for written in begun.write] == [State.AMBIGUOUS]
    again = begin(begun.attempt, frozenset(), wish("w2"), 5000)
    assert isinstance(again.error, AmbiguousInvocation)


def test_an_explicit_retry_supersedes_and_is_good_once() -> None:
    lost = attempt(State.AMBIGUOUS)
    begun = begin(lost, frozenset(), wish(retry="again"), 0)
    assert [written.state for written in begun.write] == [State.SUPERSEDED, State.PREPARED]
    assert begun.attempt.attempt == 2
    second = replace(begun.attempt, state=State.AMBIGUOUS)
    resumed = begin(second, frozenset({"again"}), wish(retry="again"), 0)
    assert isinstance(resumed.error, AmbiguousInvocation), "the same retry resumes its own attempt"
    with pytest.raises(IdempotencyConflict):
        begin(replace(second, retry="third"), frozenset({"again", "third"}), wish(retry="again"), 0)


@pytest.mark.parametrize("state", [State.RESPONDED, State.COMPLETED, State.RECONCILED])
def test_a_durable_response_is_replayed_to_the_same_request_only(state: State) -> None:
    stored = attempt(state, response=b"r")
    begun = begin(stored, frozenset(), wish("w2"), 0)
    assert begun.replayed
    assert begun.write == ()
    with pytest.raises(IdempotencyConflict):
        begin(stored, frozenset(), wish("w2", fingerprint=G), 0)


def test_after_a_definite_failure_the_name_is_free_for_any_request() -> None:
    begun = begin(attempt(State.FAILED_DEFINITE), frozenset(), wish(fingerprint=G), 0)
    assert (begun.attempt.attempt, begun.attempt.fingerprint, begun.error) == (2, G, None)


def test_a_late_response_attaches_to_its_own_attempt() -> None:
    assert respond(attempt(State.AMBIGUOUS), b"r", usable=True).state is State.RESPONDED
    late = respond(attempt(State.SUPERSEDED), b"r", usable=True)
    assert (late.state, late.response) == (State.SUPERSEDED, b"r")
    assert respond(late, b"r", usable=True) == late
    with pytest.raises(IdempotencyConflict):
        respond(late, b"other", usable=True)


def test_reconciling_settles_once() -> None:
    lost = attempt(State.DISPATCHED)
    with pytest.raises(InvocationInFlight):
        reconcile(lost, response=b"r", evidence="log", now_ms=0, abandoned="")
    found = reconcile(lost, response=b"r", evidence="log", now_ms=0, abandoned="w1")
    assert (found.state, found.response) == (State.RECONCILED, b"r")
    assert reconcile(found, response=b"r", evidence="log", now_ms=0, abandoned="") == found
    with pytest.raises(IdempotencyConflict):
        reconcile(found, response=None, evidence="log", now_ms=0, abandoned="")
    assert reconcile(lost, response=None, evidence="log", now_ms=9999, abandoned="").state is State.FAILED_DEFINITE
    with pytest.raises(NotFound):
        reconcile(attempt(State.PREPARED), response=None, evidence="log", now_ms=0, abandoned="")


@given(st.lists(st.sampled_from(Command), max_size=12))
def test_no_sequence_of_commands_dispatches_an_attempt_twice_or_forgets_that_it_may_be_billed(
    commands: list[Command],
) -> None:
    current, dispatches = attempt(State.PREPARED), 0
    for command in commands:
        if (current.state, command) not in TRANSITIONS:
            with pytest.raises(IdempotencyConflict):
                move(current, command)
            continue
        before = current.state
        current = move(current, command)
        dispatches += command is Command.DISPATCH
        if before in MAY_BE_BILLED and current.state not in MAY_BE_BILLED:
            assert command is Command.FAIL, "only a proof that nothing was executed unbills an attempt"
    assert dispatches <= 1


class History:
    """A name's attempts as any journal keeps them, and what each retry identity that was wished has dispatched."""

    def __init__(self) -> None:
        self.attempts: dict[int, Attempt] = {}
        self.dispatches: Counter[str] = Counter()

    @property
    def newest(self) -> Attempt | None:
        return self.attempts[max(self.attempts)] if self.attempts else None

    def write(self, *attempts: Attempt) -> None:
        self.attempts.update({one.attempt: one for one in attempts})

    def work(self, wish: Begin, actions: tuple[str, ...], now_ms: int) -> None:
        """A worker that begins, does so much, and says nothing more."""
        begun = begin(self.newest, spent_retries(self.attempts.values()), wish, now_ms)
        self.write(*begun.write)
        if begun.error is not None or begun.replayed:
            return
        for action in actions:
            stored = self.attempts[begun.attempt.attempt]
            if action == "dispatch":
                self.write(dispatch(stored, epoch=begun.attempt.epoch, request_sha256=G))
                self.dispatches[wish.retry] += 1
            elif action == "respond":
                self.write(respond(stored, b"r", usable=True))
            else:
                self.write(move(stored, Command(action), evidence="e"))

    def settle(self, response: bytes | None, now_ms: int) -> None:
        self.write(reconcile(self.newest, response=response, evidence="e", now_ms=now_ms, abandoned="w1"))


WISHES = st.builds(
    wish, st.sampled_from(["w1", "w2"]), retry=st.sampled_from(["", "a", "b"]), abandoned=st.sampled_from(["", "w1"])
)
WORK = st.sampled_from([
    (), ("fail",), ("dispatch",), ("dispatch", "lose"), ("dispatch", "fail"), ("dispatch", "respond"),
    ("dispatch", "lose", "respond"),
])  # fmt: skip
SETTLED = st.sampled_from([None, b"r"])


@given(st.lists(st.tuples(st.tuples(WISHES, WORK) | SETTLED, st.sampled_from([1, 2000])), max_size=12))
def test_no_history_dispatches_a_retry_identity_twice(
    steps: list[tuple[tuple[Begin, tuple[str, ...]] | bytes | None, int]],
) -> None:
    """Whatever its workers were in the middle of when they ended, and whatever is reconciled in between."""
    history, now_ms = History(), 0
    for step, passed_ms in steps:
        now_ms += passed_ms
        with suppress(ContextError):
            if isinstance(step, tuple):
                history.work(*step, now_ms)
            else:
                history.settle(step, now_ms)
    assert all(count == 1 for retry, count in history.dispatches.items() if retry)


def test_a_retry_that_takes_a_claim_over_is_spent_by_its_dispatch() -> None:
    claimed = begin(attempt(State.PREPARED), frozenset(), wish("w2", retry="a", abandoned="w1"), 0).attempt
    sent = dispatch(claimed, epoch=claimed.epoch, request_sha256=G)
    assert spent_retries([sent]) == {"a"}
    lost = move(sent, Command.LOSE, evidence="e")
    assert isinstance(begin(lost, spent_retries([lost]), wish("w2", retry="a"), 0).error, AmbiguousInvocation)


def test_what_a_retry_allowed_is_used_up_by_the_call_that_comes_instead() -> None:
    """Invariant 10: an ambiguous call, a retry that never left, a plain call: there is no third dispatch."""
    unsent = replace(attempt(State.FAILED_DEFINITE), attempt=2, retry="a", request_sha256="")
    plain = begin(unsent, spent_retries([unsent]), wish(), 0).attempt
    assert (plain.attempt, plain.retry) == (3, "a")
    lost = move(dispatch(plain, epoch=plain.epoch, request_sha256=G), Command.LOSE, evidence="x")
    for again in (wish(), wish(retry="a")):
        assert isinstance(begin(lost, spent_retries([unsent, lost]), again, 0).error, AmbiguousInvocation)


def test_a_claim_that_is_taken_over_stays_that_of_its_retry() -> None:
    """Else the retry would be unspent after its dispatch, and allow another one."""
    prepared = replace(attempt(State.PREPARED), attempt=2, retry="a")
    taken = begin(prepared, frozenset(), wish("w2"), prepared.lease_until_ms + 1).attempt
    assert (taken.attempt, taken.retry) == (2, "a")
    assert spent_retries([dispatch(taken, epoch=taken.epoch, request_sha256=G)]) == {"a"}


def test_a_retry_whose_dispatch_was_declined_is_spent_and_one_that_never_left_is_not() -> None:
    declined = attempt(State.FAILED_DEFINITE, retry="a", request_sha256=G)
    with pytest.raises(IdempotencyConflict):
        begin(declined, spent_retries([declined]), wish(retry="a"), 0)
    assert begin(declined, spent_retries([declined]), wish(), 0).attempt.attempt == 2
    unsent = replace(declined, request_sha256="")
    assert begin(unsent, spent_retries([unsent]), wish(retry="a"), 0).attempt.attempt == 2
