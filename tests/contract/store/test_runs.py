"""Runs: opening, budgets, cancelling and clearing."""

from __future__ import annotations

import pytest

from mn_contract.errors import ContextBudgetExceeded, NotFound, RunClosed
from mn_engine.domain.runs import EMPTY_ROOT, RunState
from mn_engine.store.port import Store
from tests.storing import JOB, NOW, RUN, artifact, batch, card, event, observe, open_run


def test_a_new_run_is_empty_and_open(store: Store) -> None:
    run = store.open_run(JOB, RUN, max_stored_bytes=None, now=NOW)
    assert (run.revision, run.root, run.state, run.stored_bytes) == (0, EMPTY_ROOT, RunState.OPEN, 0)
    assert run.opened_at == NOW


def test_opening_again_changes_nothing(store: Store) -> None:
    first = store.open_run(JOB, RUN, max_stored_bytes=100, now=NOW)
    assert store.open_run(JOB, RUN, max_stored_bytes=None, now=NOW + 1) == first


def test_opening_with_a_budget_replaces_the_budget_and_nothing_else(store: Store) -> None:
    key = open_run(store, max_stored_bytes=10_000)
    observe(store, "a")
    before = store.run(key)
    store.open_run(JOB, RUN, max_stored_bytes=20_000, now=NOW)
    after = store.run(key)
    assert after.max_stored_bytes == 20_000
    assert (after.revision, after.root, after.stored_bytes) == (before.revision, before.root, before.stored_bytes)


def test_an_unknown_run_is_not_found_by_any_call(store: Store) -> None:
    unknown = "0" * 32
    calls = [
        lambda: store.run(unknown),
        lambda: store.cancel_run(unknown, reason=""),
        lambda: store.clear_run(unknown, reason="", now=NOW),
        lambda: store.commit(batch(event("e"), run=unknown)),
        lambda: store.event(unknown, "ada", "e"),
        lambda: store.upload(unknown),
        lambda: store.artifacts(unknown, ["0" * 64]),
        lambda: store.read_ranges(unknown, []),
        lambda: store.index_columns(unknown, after=0, upto=1),
        lambda: store.cards(unknown, [], revision=0),
        lambda: store.decide_invocation(unknown, "ada", "n", lambda known: ()),
        lambda: store.invocations(unknown, "ada", "n"),
    ]
    for call in calls:
        with pytest.raises(NotFound):
            call()


def test_a_cancelled_run_is_read_and_no_longer_written(store: Store) -> None:
    key = open_run(store)
    observe(store, "a")
    assert store.cancel_run(key, reason="enough").state is RunState.CANCELLED
    for write in (lambda: observe(store, "b"), lambda: store.upload(key)):
        with pytest.raises(RunClosed) as refused:
            write()
        assert refused.value.reason == "RUN_CANCELLED"
    assert store.index_columns(key, after=0, upto=1).cards.num_rows == 1


def test_an_event_committed_before_a_cancel_is_still_answered(store: Store) -> None:
    """Invariant 9: a retry whose first answer was lost learns what became of it, whatever happened since."""
    key = open_run(store)
    observe(store, "a")
    store.cancel_run(key, reason="")
    assert store.commit(batch(event("a", card("a")))).events[0].replayed


def test_the_first_reason_of_a_cancel_stays(store: Store) -> None:
    key = open_run(store)
    store.cancel_run(key, reason="first")
    assert store.cancel_run(key, reason="second").reason == "first"


def test_a_cleared_run_answers_nothing_but_its_tombstone(store: Store) -> None:
    """Invariant 15: no answer, count or cursor shows it, and later writes are refused."""
    key = open_run(store)
    observe(store, "a", text="to be forgotten")
    before = store.run(key)
    tombstone = store.clear_run(key, reason="asked to", now=NOW + 5)
    assert (tombstone.revision, tombstone.root, tombstone.cleared_at) == (before.revision, before.root, NOW + 5)
    assert store.run(key).state is RunState.CLEARED
    assert store.run(key).stored_bytes == 0
    put = artifact(b"to be forgotten")
    calls = [
        lambda: store.open_run(JOB, RUN, max_stored_bytes=None, now=NOW),
        lambda: store.open_run(JOB, RUN, max_stored_bytes=7, now=NOW),
        lambda: observe(store, "b"),
        lambda: store.commit(batch(event("a", card("a", text="to be forgotten")))),
        lambda: store.cancel_run(key, reason=""),
        lambda: store.event(key, "ada", "a"),
        lambda: store.upload(key),
        lambda: store.artifacts(key, [put.handle.sha256]),
        lambda: store.read_ranges(key, [(put.handle.sha256, 0, 1)]),
        lambda: store.index_columns(key, after=0, upto=1),
        lambda: store.cards(key, [1 << 20], revision=1),
        lambda: store.decide_invocation(key, "ada", "n", lambda known: ()),
        lambda: store.invocations(key, "ada", "n"),
    ]
    for call in calls:
        with pytest.raises(RunClosed) as refused:
            call()
        assert refused.value.reason == "RUN_CLEARED"


def test_clearing_again_answers_the_same_tombstone(store: Store) -> None:
    key = open_run(store)
    first = store.clear_run(key, reason="", now=NOW)
    assert store.clear_run(key, reason="other", now=NOW + 1) == first


def test_runs_of_one_job_do_not_see_each_other(store: Store) -> None:
    one, other = open_run(store, "one"), open_run(store, "other")
    observe(store, "a", run=one)
    assert store.run(other).revision == 0
    assert store.index_columns(other, after=0, upto=9).cards.num_rows == 0
    assert store.event(other, "ada", "a") is None
    assert observe(store, "a", run=other) == 1
    store.clear_run(one, reason="", now=NOW)
    assert store.index_columns(other, after=0, upto=9).cards.num_rows == 1


def test_the_storage_budget_counts_texts_summaries_and_artifacts_once(store: Store) -> None:
    key = open_run(store, max_stored_bytes=1000)
    made = card("a", "x" * 100, summary="y" * 10)
    store.commit(batch(event("a", made, artifacts=(artifact(b"x" * 100), artifact(b"x" * 100)))))
    assert store.run(key).stored_bytes == 100 + 10 + 100
    store.commit(batch(event("b", artifacts=(artifact(b"x" * 100),))))
    assert store.run(key).stored_bytes == 210, "the same handle again costs nothing"
    store.commit(batch(event("c", artifacts=(artifact(b"x" * 100, owner="bob"),))))
    assert store.run(key).stored_bytes == 310, "a handle of another principal is charged: nobody learns of the first"


def test_a_write_over_the_budget_is_refused_with_numbers_and_writes_nothing(store: Store) -> None:
    """Invariant 13: over budget fails with metrics and writes nothing."""
    key = open_run(store, max_stored_bytes=300)
    store.commit(batch(event("a", card("a", "x" * 100))))
    before = store.run(key)
    with pytest.raises(ContextBudgetExceeded) as refused:
        store.commit(batch(event("b", card("b", "z" * 100))))
    assert refused.value.detail == {"budget": "storage", "limit": 300, "used": 200, "needed": 200}
    assert store.run(key) == before
    assert store.event(key, "ada", "b") is None
    assert store.index_columns(key, after=0, upto=9).cards.num_rows == 1
    store.commit(batch(event("c", card("c", "z" * 50))))
    assert store.run(key).stored_bytes == 300, "what fits exactly goes in"
