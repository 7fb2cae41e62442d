"""Sessions: states are moved on atomically, kept durably, and go with their run."""

from __future__ import annotations

import threading

import pytest

from mn_contract.errors import InvalidInput, NotFound, RunClosed
from mn_engine.store.port import Store
from tests.storing import KEY, NOW, open_run


def move(store: Store, session: str = "chat", principal: str = "ada", run_key: str = KEY) -> int:
    """Counts a session's turns; answers the number of this one."""

    def decide(state: str) -> tuple[str, int]:
        turn = int(state or 0) + 1
        return str(turn), turn

    return store.decide_session(run_key, principal, session, decide)


def test_each_turn_sees_the_last_ones_state(store: Store) -> None:
    open_run(store)
    assert [move(store) for _ in range(3)] == [1, 2, 3]


def test_sessions_of_others_runs_and_names_are_their_own(store: Store) -> None:
    """Invariant 7."""
    open_run(store)
    other = open_run(store, "other")
    move(store)
    assert move(store, principal="bob") == 1
    assert move(store, "another") == 1
    assert move(store, run_key=other) == 1
    assert move(store) == 2


def test_a_turn_that_raises_changes_nothing(store: Store) -> None:
    open_run(store)
    move(store)

    def decide(state: str) -> tuple[str, int]:
        raise InvalidInput(f"not after {state}", field="state")

    with pytest.raises(InvalidInput, match="not after 1"):
        store.decide_session(KEY, "ada", "chat", decide)
    assert move(store) == 2


def test_concurrent_turns_follow_each_other(store: Store) -> None:
    open_run(store)
    turns: list[int] = []
    threads = [threading.Thread(target=lambda: turns.extend(move(store) for _ in range(10))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(turns) == list(range(1, 61))


def test_a_run_that_is_over_has_no_more_turns(store: Store) -> None:
    """Invariant 15."""
    with pytest.raises(NotFound):
        move(store)
    open_run(store)
    move(store)
    store.cancel_run(KEY, reason="enough")
    with pytest.raises(RunClosed):
        move(store)
    store.clear_run(KEY, reason="gone", now=NOW)
    with pytest.raises(RunClosed):
        move(store)


def test_states_outlive_compaction(store: Store) -> None:
    open_run(store)
    for _ in range(5):
        move(store)
    store.compact()
    assert move(store) == 6
