"""What every journal promises of model calls (invariant 10)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from mn_contract.errors import (
    AmbiguousInvocation,
    ContextBudgetExceeded,
    ContextError,
    IdempotencyConflict,
    InvalidInput,
    InvocationInFlight,
    NotFound,
    RunClosed,
    StaleRevision,
)
from mn_contract.invocations import Attempt, State
from mn_sdk.context_session.journal import Invocations
from tests.contract.journal.conftest import Workers

F1, F2, SENT = "1" * 64, "2" * 64, "a" * 64
LEASE_MS = 60_000


def begin(journal: Invocations, name: str = "call", *, fingerprint: str = F1, retry: str = "") -> Attempt:
    return journal.begin(name, fingerprint=fingerprint, lease_ms=LEASE_MS, retry=retry)


def dispatched(journal: Invocations, name: str = "call", *, retry: str = "") -> Attempt:
    return journal.dispatch(begin(journal, name, retry=retry), request_sha256=SENT, calls_max=None)


def test_a_call_goes_from_claim_to_written_back(workers: Workers) -> None:
    journal = workers.worker("w1")
    attempt = begin(journal)
    assert (attempt.attempt, attempt.state) == (1, State.PREPARED)
    attempt = journal.dispatch(attempt, request_sha256=SENT, calls_max=None)
    assert (attempt.state, attempt.request_sha256) == (State.DISPATCHED, SENT)
    attempt = journal.respond(attempt, b"answer", usable=True)
    assert (attempt.state, attempt.response) == (State.RESPONDED, b"answer")
    assert journal.complete(attempt).state is State.COMPLETED
    assert journal.complete(attempt).state is State.COMPLETED
    newest = workers.worker("w2").newest("call")
    assert newest is not None
    assert (newest.state, newest.response, newest.usable) == (State.COMPLETED, b"answer", True)


def test_a_durable_response_is_what_a_later_claim_gets(workers: Workers) -> None:
    journal = workers.worker("w1")
    journal.respond(dispatched(journal), b"answer", usable=False)
    again = begin(workers.worker("w2"))
    assert (again.state, again.response, again.usable) == (State.RESPONDED, b"answer", False)


def test_an_empty_response_is_a_response(workers: Workers) -> None:
    journal = workers.worker("w1")
    journal.respond(dispatched(journal), b"", usable=False)
    assert begin(journal).response == b""


def test_another_request_under_the_name_is_a_conflict(workers: Workers) -> None:
    journal = workers.worker("w1")
    journal.respond(dispatched(journal), b"answer", usable=True)
    with pytest.raises(IdempotencyConflict):
        begin(journal, fingerprint=F2)


def test_a_claim_of_another_live_worker_is_in_flight_until_its_lease_ends(workers: Workers) -> None:
    first, second = workers.worker("w1"), workers.worker("w2")
    stale = begin(first)
    with pytest.raises(InvocationInFlight):
        begin(second)
    workers.clock.now_ms += LEASE_MS + 1
    taken = begin(second)
    assert taken.epoch == stale.epoch + 1
    with pytest.raises(StaleRevision):
        first.dispatch(stale, request_sha256=SENT, calls_max=None)
    assert second.dispatch(taken, request_sha256=SENT, calls_max=None).state is State.DISPATCHED


def test_a_worker_whose_claim_was_taken_over_cannot_tell_what_became_of_the_call(workers: Workers) -> None:
    """It gives up what it holds no longer: were it believed, the call that is out would count as not executed, and the
    next worker would make it again."""
    slow, quick = workers.worker("w1"), workers.worker("w2")
    stale = begin(slow)
    workers.clock.now_ms += LEASE_MS + 1
    taken = begin(quick)
    for _ in range(2):
        for act in (slow.fail, slow.lose):
            with pytest.raises(StaleRevision):
                act(stale, evidence="not sent")
        if taken.state is State.PREPARED:
            taken = quick.dispatch(taken, request_sha256=SENT, calls_max=None)
    assert quick.respond(taken, b"answer", usable=True).state is State.RESPONDED


def test_a_dead_workers_claim_is_taken_over_at_once(workers: Workers) -> None:
    begin(workers.worker("w1"))
    workers.dead.add("w1")
    assert begin(workers.worker("w2")).state is State.PREPARED


def test_a_dead_workers_dispatch_is_ambiguous_and_stays_so(workers: Workers) -> None:
    dispatched(workers.worker("w1"))
    workers.dead.add("w1")
    for _ in range(2):
        with pytest.raises(AmbiguousInvocation):
            begin(workers.worker("w2"))
    newest = workers.worker("w2").newest("call")
    assert newest is not None
    assert newest.state is State.AMBIGUOUS


def test_a_late_response_attaches_to_its_own_attempt(workers: Workers) -> None:
    journal = workers.worker("w1")
    first = dispatched(journal)
    journal.lose(first, evidence="timeout")
    second = dispatched(journal, retry="r1")
    assert second.attempt == 2
    assert journal.respond(first, b"late", usable=True, evidence="a log").attempt == 1
    kept = journal.find("call", 1)
    assert kept is not None
    assert (kept.state, kept.response, kept.evidence) == (State.SUPERSEDED, b"late", "a log")
    assert journal.respond(second, b"second", usable=True).state is State.RESPONDED
    newest = journal.newest("call")
    assert newest is not None
    assert newest.response == b"second"


def test_a_retry_identity_is_used_once(workers: Workers) -> None:
    journal = workers.worker("w1")
    journal.lose(dispatched(journal), evidence="timeout")
    journal.lose(dispatched(journal, retry="r1"), evidence="timeout")
    journal.lose(dispatched(journal, retry="r2"), evidence="timeout")
    with pytest.raises(IdempotencyConflict):
        begin(journal, retry="r1")


def test_a_retry_that_takes_over_a_dead_workers_claim_is_spent(workers: Workers) -> None:
    begin(workers.worker("w1"))
    workers.dead.add("w1")
    second = workers.worker("w2")
    attempt = dispatched(second, retry="r1")
    assert (attempt.attempt, attempt.retry) == (1, "r1")
    second.lose(attempt, evidence="timeout")
    with pytest.raises(AmbiguousInvocation):
        begin(second, retry="r1")
    second.lose(dispatched(second, retry="r2"), evidence="timeout")
    with pytest.raises(IdempotencyConflict):
        begin(second, retry="r1")


def test_a_retry_is_spent_where_a_later_one_was_declined(workers: Workers) -> None:
    journal = workers.worker("w1")
    journal.lose(dispatched(journal), evidence="timeout")
    journal.lose(dispatched(journal, retry="r1"), evidence="timeout")
    journal.fail(dispatched(journal, retry="r2"), evidence="declined with 429")
    for spent in ("r1", "r2"):
        with pytest.raises(IdempotencyConflict):
            begin(journal, retry=spent)
    assert dispatched(journal, retry="r3").attempt == 4


def test_a_retry_that_never_left_may_be_named_again(workers: Workers) -> None:
    journal = workers.worker("w1")
    journal.lose(dispatched(journal), evidence="timeout")
    journal.fail(begin(journal, retry="r1"), evidence="not sent")
    assert dispatched(journal, retry="r1").attempt == 3


def test_what_was_not_executed_may_be_called_again_with_anything(workers: Workers) -> None:
    journal = workers.worker("w1")
    journal.fail(dispatched(journal), evidence="declined with 429")
    again = begin(journal, fingerprint=F2)
    assert (again.attempt, again.state) == (2, State.PREPARED)


def test_another_response_of_an_attempt_is_a_conflict(workers: Workers) -> None:
    journal = workers.worker("w1")
    attempt = dispatched(journal)
    journal.respond(attempt, b"answer", usable=True)
    assert journal.respond(attempt, b"answer", usable=True).response == b"answer"
    with pytest.raises(IdempotencyConflict):
        journal.respond(attempt, b"other", usable=True)


def test_an_unknown_outcome_is_reconciled_either_way(workers: Workers) -> None:
    journal = workers.worker("w1")
    journal.lose(dispatched(journal, "a"), evidence="timeout")
    journal.lose(dispatched(journal, "b"), evidence="timeout")
    assert journal.reconcile("a", response=b"found", evidence="log").state is State.RECONCILED
    assert journal.reconcile("a", response=b"found", evidence="log").state is State.RECONCILED
    assert journal.reconcile("b", response=None, evidence="log").state is State.FAILED_DEFINITE
    replayed = begin(journal, "a")
    assert (replayed.state, replayed.response) == (State.RECONCILED, b"found")
    assert journal.complete(replayed).state is State.RECONCILED
    with pytest.raises(IdempotencyConflict):
        journal.reconcile("a", response=b"other", evidence="log")


def test_a_live_dispatch_is_not_reconciled_and_a_dead_one_is(workers: Workers) -> None:
    dispatched(workers.worker("w1"))
    other = workers.worker("w2")
    with pytest.raises(InvocationInFlight):
        other.reconcile("call", response=None, evidence="log")
    workers.dead.add("w1")
    assert other.reconcile("call", response=None, evidence="log").state is State.FAILED_DEFINITE


def test_what_was_never_dispatched_is_not_found(workers: Workers) -> None:
    journal = workers.worker("w1")
    assert journal.newest("call") is None
    with pytest.raises(NotFound):
        journal.reconcile("call", response=b"x", evidence="log")
    begin(journal)
    with pytest.raises(NotFound):
        journal.reconcile("call", response=b"x", evidence="log")


def test_names_are_of_one_principal_and_one_run(workers: Workers) -> None:
    dispatched(workers.worker("w1"))
    assert begin(workers.worker("w2", principal="bob")).attempt == 1
    assert begin(workers.worker("w2", run_id="other")).attempt == 1
    assert workers.worker("w2", principal="carol").newest("call") is None


def test_what_was_asked_with_a_role_is_not_seen_without_it(workers: Workers) -> None:
    """Invariant 7: the packet of a call showed what its roles may read, and so may its response."""
    with_role, without = workers.worker("w1", roles=("auditor", "lead")), workers.worker("w2", roles=("lead",))
    attempt = dispatched(with_role)
    for act in (
        lambda: without.reconcile("call", response=b"made up", evidence="log"),
        lambda: without.lose(attempt, evidence="?"),
        lambda: without.fail(attempt, evidence="?"),
    ):
        with pytest.raises(NotFound):
            act()
    attempt = with_role.respond(attempt, b"secret", usable=True)
    assert without.newest("call") is None
    with pytest.raises(NotFound):
        without.complete(attempt)
    with pytest.raises(IdempotencyConflict) as conflict:
        begin(without)
    assert "secret" not in str(conflict.value.detail)
    with_more = workers.worker("w3", roles=("lead", "auditor", "third"))
    assert begin(with_more).response == b"secret"
    assert with_more.complete(attempt).response == b"secret"


@pytest.mark.parametrize("state", [state for state in State if state is not State.SUPERSEDED])
def test_the_name_of_a_call_made_with_other_roles_is_taken_whatever_became_of_it(
    workers: Workers, state: State
) -> None:
    """Invariant 7: and nothing of the call is told, so that every state gets one answer."""
    with_role, without = workers.worker("w1", roles=("auditor",)), workers.worker("w2")
    attempt = begin(with_role)
    if state is not State.PREPARED:
        attempt = with_role.dispatch(attempt, request_sha256=SENT, calls_max=None)
    if state in (State.RESPONDED, State.COMPLETED):
        attempt = with_role.respond(attempt, b"secret", usable=True)
    if state is State.COMPLETED:
        with_role.complete(attempt)
    if state is State.FAILED_DEFINITE:
        with_role.fail(attempt, evidence="secret")
    if state in (State.AMBIGUOUS, State.RECONCILED):
        attempt = with_role.lose(attempt, evidence="secret")
    if state is State.RECONCILED:
        with_role.reconcile("call", response=b"secret", evidence="secret")
    before = with_role.newest("call")
    workers.dead.add("w1")
    for asked in ({}, {"fingerprint": F2}, {"retry": "r1"}):
        with pytest.raises(IdempotencyConflict) as conflict:
            begin(without, **asked)
        assert conflict.value.detail == {"key": "call"}
        assert conflict.value.message == (
            "call 'call' was made with another request or other roles; give this one a name of its own"
        )
    for act in (
        lambda: without.respond(attempt, b"guess", usable=True),
        lambda: without.dispatch(attempt, request_sha256=SENT, calls_max=None),
        lambda: without.fail(attempt, evidence="guess"),
    ):
        with pytest.raises(NotFound):
            act()
    assert with_role.newest("call") == before


def test_an_attempt_tells_the_roles_it_was_made_with(workers: Workers) -> None:
    attempt = dispatched(workers.worker("w1", roles=("lead", "auditor")))
    with_more = workers.worker("w2", roles=("auditor", "lead", "third"))
    assert with_more.respond(attempt, b"answer", usable=True).roles == {"auditor", "lead"}
    assert begin(with_more).roles == {"auditor", "lead"}


def test_a_cancelled_run_begins_and_dispatches_nothing_and_settles_what_was_paid_for(workers: Workers) -> None:
    journal = workers.worker("w1")
    answered, waiting, lost = dispatched(journal, "answered"), dispatched(journal, "waiting"), dispatched(journal, "l")
    journal.respond(answered, b"paid", usable=True)
    journal.lose(lost, evidence="timeout")
    claimed = begin(journal, "claimed")
    workers.cancel()
    for refused in (
        lambda: begin(journal, "new"),
        lambda: begin(journal, "l", retry="r1"),
        lambda: journal.dispatch(claimed, request_sha256=SENT, calls_max=None),
    ):
        with pytest.raises(RunClosed) as closed:
            refused()
        assert closed.value.reason == "RUN_CANCELLED"
    assert begin(journal, "answered").response == b"paid"
    assert journal.complete(answered).state is State.COMPLETED
    assert journal.respond(waiting, b"late", usable=True).response == b"late"
    assert journal.reconcile("l", response=None, evidence="log").state is State.FAILED_DEFINITE
    assert journal.fail(claimed, evidence="not sent").state is State.FAILED_DEFINITE


def test_of_a_cleared_run_nothing_is_answered_and_nothing_is_left(workers: Workers) -> None:
    """Invariant 15, for the journal: its file lies beside the record, or away from it."""
    journal, other = workers.journal("w1"), workers.journal("w2", principal="bob")
    for number in range(60):
        journal.notes.put("report", f"SECRET-{number}", b"SECRET " * number * 20)
        other.notes.put("report", f"SECRET-{number}", b"SECRET " * (60 - number))
    journal.cursor("SECRET", 7)
    calls = journal.invocations
    answered = calls.respond(dispatched(calls, "SECRET-1"), b"SECRET", usable=True)
    out = dispatched(calls, "SECRET-2")
    kept = workers.journal("w1", run_id="other")
    kept.cursor("public", 3)
    kept.invocations.respond(dispatched(kept.invocations, "public"), b"public", usable=True)
    workers.clear()
    for act in (
        lambda: calls.newest("SECRET-1"),  # the first, so that one whose engine is elsewhere learns of it
        lambda: begin(calls, "SECRET-1"),
        lambda: begin(calls, "new"),
        lambda: calls.dispatch(out, request_sha256=SENT, calls_max=None),
        lambda: calls.respond(out, b"SECRET", usable=True),
        lambda: calls.fail(out, evidence="SECRET"),
        lambda: calls.complete(answered),
        lambda: calls.reconcile("SECRET-2", response=b"SECRET", evidence="SECRET"),
        lambda: journal.cursor("SECRET"),
        lambda: journal.cursor("SECRET", 8),
        lambda: journal.notes.get("report", "SECRET-1"),
        lambda: journal.notes.put("report", "SECRET-1", b"SECRET"),
        lambda: journal.notes.number("page", b"SECRET"),
        lambda: journal.notes.remove("report", "SECRET-1"),
    ):
        with pytest.raises(RunClosed) as closed:
            act()
        assert closed.value.reason == "RUN_CLEARED"
    assert not [file for file in workers.root.iterdir() if b"SECRET" in file.read_bytes()]
    assert kept.cursor("public") == 3
    assert begin(kept.invocations, "public").response == b"public"


def test_calls_are_counted_over_the_run_and_what_was_not_executed_is_free(workers: Workers) -> None:
    alice, bob = workers.worker("w1"), workers.worker("w2", principal="bob")
    dispatched(alice, "a")
    alice.fail(dispatched(alice, "b"), evidence="declined")
    claimed = begin(bob, "c")
    with pytest.raises(ContextBudgetExceeded) as over:
        bob.dispatch(claimed, request_sha256=SENT, calls_max=1)
    assert (over.value.detail["limit"], over.value.detail["used"]) == (1, 1)
    assert bob.dispatch(claimed, request_sha256=SENT, calls_max=2).state is State.DISPATCHED


def test_a_claim_given_up_before_dispatch_is_free(workers: Workers) -> None:
    journal = workers.worker("w1")
    assert journal.fail(begin(journal), evidence="not sent").state is State.FAILED_DEFINITE
    assert begin(workers.worker("w2")).attempt == 2


@pytest.mark.parametrize("name", ["", "with space", "x" * 161, "ünïcode"])
def test_a_name_is_an_id(workers: Workers, name: str) -> None:
    journal = workers.worker("w1")
    for act in (lambda: begin(journal, name), lambda: journal.newest(name)):
        with pytest.raises(InvalidInput):
            act()


def test_of_many_workers_that_race_one_dispatches(workers: Workers) -> None:
    count = 8
    barrier = Barrier(count)
    journals = [workers.worker(f"w{number}") for number in range(count)]

    def race(journal: Invocations) -> bool:
        barrier.wait(30)
        try:
            dispatched(journal)
        except (InvocationInFlight, StaleRevision):
            return False
        return True

    with ThreadPoolExecutor(count) as pool:
        assert sum(pool.map(race, journals)) == 1


def test_errors_are_the_contracts(workers: Workers) -> None:
    journal = workers.worker("w1")
    attempt = begin(journal)
    with pytest.raises(ContextError):
        journal.respond(attempt, b"before dispatch", usable=True)
    with pytest.raises(ContextError):
        journal.complete(attempt)
