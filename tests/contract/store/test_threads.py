"""Many threads: every write counts once, readers see whole revisions, listeners hear of every commit."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from mn_contract.errors import ContextBudgetExceeded, IdempotencyConflict, StaleRevision
from mn_engine.domain.cards import revision_of
from mn_engine.domain.runs import RunState
from mn_engine.store.port import Store
from tests.storing import KEY, NOW, batch, card, event, observe, open_run

THREADS = 8
EACH = 12


def together(work: Callable[[int], None], threads: int = THREADS) -> None:
    """Runs `work` in many threads at once; raises the first failure."""
    failures: list[BaseException] = []
    start = threading.Barrier(threads)

    def guarded(number: int) -> None:
        try:
            start.wait(10)
            work(number)
        except BaseException as error:
            failures.append(error)

    running = [threading.Thread(target=guarded, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
    if failures:
        raise failures[0]


def test_commits_of_many_threads_each_get_a_revision_of_their_own(store: Store) -> None:
    open_run(store)
    revisions: list[int] = []

    def work(number: int) -> None:
        for place in range(EACH):
            revisions.append(observe(store, f"{number}-{place}"))

    together(work)
    assert sorted(revisions) == list(range(1, THREADS * EACH + 1))
    assert store.run(KEY).revision == THREADS * EACH
    assert store.index_columns(KEY, after=0, upto=THREADS * EACH).cards.num_rows == THREADS * EACH


def test_a_write_retried_by_many_threads_at_once_is_written_once(store: Store) -> None:
    """Invariant 9."""
    open_run(store)
    replayed: list[bool] = []
    together(lambda number: replayed.append(store.commit(batch(event("e", card("a")))).events[0].replayed))
    assert sorted(replayed) == [False] + [True] * (THREADS - 1)
    assert store.run(KEY).revision == 1


def test_of_many_different_writes_under_one_key_one_wins(store: Store) -> None:
    """Invariant 9."""
    open_run(store)
    outcomes: list[str] = []

    def work(number: int) -> None:
        try:
            store.commit(batch(event("e", card(f"c{number}"), content=str(number))))
            outcomes.append("kept")
        except IdempotencyConflict:
            outcomes.append("refused")

    together(work)
    assert sorted(outcomes) == ["kept"] + ["refused"] * (THREADS - 1)


def test_of_many_writers_that_expect_one_revision_one_wins(store: Store) -> None:
    """Invariant 9: the expected revision fences."""
    open_run(store)
    outcomes: list[str] = []

    def work(number: int) -> None:
        try:
            store.commit(batch(event(f"e{number}", card(f"c{number}")), expected=0))
            outcomes.append("kept")
        except StaleRevision:
            outcomes.append("refused")

    together(work)
    assert sorted(outcomes) == ["kept"] + ["refused"] * (THREADS - 1)


def test_a_budget_is_not_overdrawn_by_writers_at_once(store: Store) -> None:
    """Invariant 1, for storage."""
    open_run(store, max_stored_bytes=1000)
    kept: list[int] = []

    def work(number: int) -> None:
        for place in range(4):
            try:
                store.commit(batch(event(f"{number}-{place}", card(f"{number}-{place}", "x" * 100), artifacts=())))
                kept.append(number)
            except ContextBudgetExceeded:
                continue

    together(work)
    assert len(kept) == 10
    assert store.run(KEY).stored_bytes == 1000


def test_readers_see_whole_revisions_only(store: Store) -> None:
    """Invariant 4."""
    open_run(store)
    done = threading.Event()
    torn: list[str] = []

    def read() -> None:
        while not done.is_set():
            revision = store.run(KEY).revision
            cards = store.index_columns(KEY, after=0, upto=revision).cards
            counts: dict[int, int] = {}
            for ordinal in cards["ordinal"].to_pylist():
                counts[revision_of(ordinal)] = counts.get(revision_of(ordinal), 0) + 1
            if counts != dict.fromkeys(range(1, revision + 1), 3):
                torn.append(f"at {revision}: {counts}")

    reader = threading.Thread(target=read)
    reader.start()

    def write(number: int) -> None:
        for place in range(EACH):
            store.commit(batch(event(f"{number}-{place}", *(card(f"{number}-{place}-{part}") for part in range(3)))))

    try:
        together(write, 3)
    finally:
        done.set()
        reader.join(30)
    assert torn == []


def test_listeners_are_told_after_each_commit_cancel_and_clear(store: Store) -> None:
    open_run(store)
    heard: list[tuple[str, int, RunState]] = []
    store.listen(lambda key, revision, state: heard.append((key, revision, state)))
    observe(store, "a")
    observe(store, "a")
    store.cancel_run(KEY, reason="")
    store.clear_run(KEY, reason="", now=NOW)
    changes = [change for place, change in enumerate(heard) if change not in heard[:place]]
    assert changes == [(KEY, 1, RunState.OPEN), (KEY, 1, RunState.CANCELLED), (KEY, 1, RunState.CLEARED)]


def test_what_a_listener_hears_of_can_be_read(store: Store) -> None:
    """Durable before told."""
    open_run(store)
    read: list[int] = []
    failed: list[Exception] = []

    def hear(key: str, revision: int, state: RunState) -> None:
        try:
            read.append(store.run(key).revision - revision)
        except Exception as error:
            failed.append(error)

    store.listen(hear)
    observe(store, "a")
    assert (read, failed) == ([0], [])


@pytest.mark.parametrize("clearer", [0, 1])
def test_clearing_amid_writers_leaves_nothing_that_can_be_read(store: Store, clearer: int) -> None:
    """Invariant 15: the fence holds against writes under way."""
    from mn_contract.errors import RunClosed

    open_run(store)

    def work(number: int) -> None:
        if number == clearer:
            store.clear_run(KEY, reason="", now=NOW)
            return
        for place in range(EACH):
            try:
                observe(store, f"{number}-{place}")
            except RunClosed:
                return

    together(work)
    assert store.run(KEY).state is RunState.CLEARED
    with pytest.raises(RunClosed):
        store.index_columns(KEY, after=0, upto=999)
