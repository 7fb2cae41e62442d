"""Invocations: what is decided about one is stored whole, at once, and found again."""

from __future__ import annotations

import threading

import pytest

from mn_contract.errors import InvocationInFlight, StaleRevision
from mn_contract.invocations import Attempt, Begin, Command, State, begin, dispatch, move, respond
from mn_engine.store.port import Invocations, Store
from tests.storing import KEY, open_run, sha

PRINT = sha(b"request")
ROLES = frozenset({"auditor", "lead"})


def begin_it(store: Store, name: str = "n", *, principal: str = "ada", holder: str = "w", retry: str = "") -> Attempt:
    """Begins an invocation at time 0."""
    wish = Begin(name=name, holder=holder, lease_ms=1000, fingerprint=PRINT, roles=ROLES, retry=retry)

    def decide(known: Invocations) -> tuple[Attempt, ...]:
        return begin(known.newest, known.spent_retries, wish, 0).write

    return store.decide_invocation(KEY, principal, name, decide)[-1]


def dispatch_it(store: Store, name: str = "n", *, principal: str = "ada", epoch: int = 1) -> Attempt:
    """Dispatches the newest attempt."""

    def decide(known: Invocations) -> tuple[Attempt, ...]:
        assert known.newest is not None
        return (dispatch(known.newest, epoch=epoch, request_sha256=PRINT),)

    return store.decide_invocation(KEY, principal, name, decide)[0]


def test_nothing_is_known_of_a_new_name(store: Store) -> None:
    open_run(store)
    assert store.invocations(KEY, "ada", "n") == Invocations(newest=None, by_attempt={}, run_calls=0)


def test_each_decision_sees_what_the_last_one_stored(store: Store) -> None:
    open_run(store)
    begun = begin_it(store)
    assert store.invocations(KEY, "ada", "n").newest == begun
    dispatched = dispatch_it(store)
    known = store.invocations(KEY, "ada", "n")
    assert known.newest == dispatched
    assert dispatched.state is State.DISPATCHED

    response = b"\x00 response \xff"
    store.decide_invocation(KEY, "ada", "n", lambda known: (respond(dispatched, response, usable=False),))
    newest = store.invocations(KEY, "ada", "n").newest
    assert newest is not None
    assert (newest.response, newest.usable, newest.state) == (response, False, State.RESPONDED)


def test_a_decision_that_raises_stores_nothing(store: Store) -> None:
    open_run(store)
    begin_it(store)
    before = store.invocations(KEY, "ada", "n")
    with pytest.raises(StaleRevision):
        dispatch_it(store, epoch=7)
    with pytest.raises(InvocationInFlight):
        begin_it(store, holder="other")
    assert store.invocations(KEY, "ada", "n") == before


def test_a_decision_that_fails_otherwise_fails_alone_and_the_store_goes_on(store: Store) -> None:
    open_run(store)
    with pytest.raises(ZeroDivisionError):
        store.decide_invocation(KEY, "ada", "n", lambda known: (1 // 0,))  # type: ignore[arg-type, return-value]
    begin_it(store)


def test_all_of_a_decision_is_stored(store: Store) -> None:
    """An explicit retry supersedes the lost attempt and begins the next one, both or none."""
    open_run(store)
    begin_it(store)
    dispatch_it(store)
    wish = Begin(name="n", holder="w2", lease_ms=1, fingerprint=PRINT, roles=ROLES, retry="r1", abandoned="w")
    store.decide_invocation(KEY, "ada", "n", lambda known: begin(known.newest, known.spent_retries, wish, 5000).write)
    known = store.invocations(KEY, "ada", "n")
    assert {number: attempt.state for number, attempt in known.by_attempt.items()} == {
        1: State.SUPERSEDED,
        2: State.PREPARED,
    }
    assert known.spent_retries == frozenset(), "nothing of it has been dispatched"
    dispatch_it(store)
    assert store.invocations(KEY, "ada", "n").spent_retries == frozenset({"r1"})


def test_calls_that_may_be_billed_are_counted_over_the_whole_run(store: Store) -> None:
    open_run(store)
    begin_it(store)
    begin_it(store, principal="bob")
    assert store.invocations(KEY, "ada", "n").run_calls == 0
    dispatched = dispatch_it(store)
    dispatch_it(store, principal="bob")
    assert store.invocations(KEY, "ada", "other").run_calls == 2
    seen: list[int] = []
    store.decide_invocation(KEY, "eve", "n", lambda known: (seen.append(known.run_calls), ())[1])  # type: ignore[func-returns-value]
    assert seen == [2]
    store.decide_invocation(KEY, "ada", "n", lambda known: (move(dispatched, Command.FAIL, evidence="refused"),))
    assert store.invocations(KEY, "ada", "n").run_calls == 1


def test_names_are_each_principals_own(store: Store) -> None:
    """Invariant 7."""
    open_run(store)
    begin_it(store, principal="ada")
    assert store.invocations(KEY, "bob", "n").newest is None
    assert begin_it(store, principal="bob").epoch == 1


def test_of_many_workers_at_once_one_gets_the_invocation(store: Store) -> None:
    """Invariant 10."""
    open_run(store)
    won: list[str] = []
    start = threading.Barrier(8)

    def work(holder: str) -> None:
        start.wait(10)
        try:
            begin_it(store, holder=holder)
        except InvocationInFlight:
            return
        won.append(holder)

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(won) == 1
