"""What a durable store finds again when it is opened the next time."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from mn_contract.errors import ContextBudgetExceeded, IdempotencyConflict, NotFound, RunClosed
from mn_contract.invocations import Begin, begin
from mn_engine.domain.access import OPEN
from mn_engine.domain.cards import CardKey
from mn_engine.domain.runs import Removal, RunState
from mn_engine.store.port import Invocations, Store
from tests.storing import (
    JOB,
    KEY,
    NOW,
    batch,
    bulk,
    card,
    event,
    everything,
    observe,
    open_run,
    resolving,
    sha,
    supersedes,
)

Opener = Callable[[], Store]
PRINT = sha(b"request")
ROLES = frozenset({"auditor", "lead"})


def fill(store: Store) -> None:
    """A run with everything a run can have."""
    open_run(store, max_stored_bytes=1_000_000)
    for name in "abc":
        observe(store, name)
    store.commit(batch(event("e", card("d", relations=(*supersedes("a"), *resolving("b"))))))
    store.commit(batch(event("f", resolves=(CardKey("ada", "c"),))))
    store.commit_table(KEY, owner="ada", key="bulk", fingerprint=PRINT, cards=bulk(card("x"), card("y")))
    arriving = store.upload(KEY)
    arriving.write(b"z" * 100_000)
    arriving.finish(media_type="text/plain", owner="ada", acl=OPEN, expected_sha256="")
    wish = Begin(name="n", holder="w", lease_ms=5, fingerprint=PRINT, roles=ROLES)

    def decide(known: Invocations) -> object:
        return begin(known.newest, known.spent_retries, wish, 0).write

    store.decide_invocation(KEY, "ada", "n", decide)  # type: ignore[arg-type]


def test_everything_is_found_again(opener: Opener) -> None:
    store = opener()
    fill(store)
    before = everything(store)
    invocations, receipt = store.invocations(KEY, "ada", "n"), store.event(KEY, "ada", "e")
    store.close()
    again = opener()
    assert everything(again) == before
    assert again.invocations(KEY, "ada", "n") == invocations
    assert again.event(KEY, "ada", "e") == receipt
    assert again.read_ranges(KEY, [(sha(b"z" * 100_000), 99_998, 100_000)]) == [b"zz"]
    again.close()


def test_a_record_that_is_opened_again_is_read_in_steps_as_at_once(opener: Opener) -> None:
    """Whatever a step had, later ones may have links."""
    store = opener()
    open_run(store)
    for number in range(1, 9):
        observe(store, f"c{number}", relations=supersedes(f"c{number - 1}") if number in (2, 5, 8) else ())
    store.close()
    for stops in ((0, 1, 8), (0, 3, 8), (0, 2, 4, 6, 8), (3, 4, 8)):
        again = opener()
        found = [again.index_columns(KEY, after=after, upto=upto) for after, upto in pairwise(stops)]
        assert sum(columns.endings.num_rows for columns in found) == len([n for n in (2, 5, 8) if n > stops[0]]), stops
        assert sum(columns.relations.num_rows for columns in found) == len([n for n in (2, 5, 8) if n > stops[0]])
        again.close()


def test_the_laws_hold_across_openings(opener: Opener) -> None:
    """Invariant 9: replays, conflicts, clashes and budgets are decided from the record."""
    store = opener()
    fill(store)
    revision = store.run(KEY).revision
    store.close()
    again = opener()
    assert again.commit(batch(event("a", card("a")))).events[0].replayed
    for wrong in (event("a", card("other"), content="other"), event("new", card("a")), event("new", card("x"))):
        with pytest.raises(IdempotencyConflict):
            again.commit(batch(wrong))
    with pytest.raises(NotFound):
        again.commit(batch(event("new", card("new", relations=supersedes("nowhere")))))
    left = 1_000_000 - again.run(KEY).stored_bytes
    with pytest.raises(ContextBudgetExceeded):
        again.commit_table(
            KEY,
            owner="ada",
            key="bulk2",
            fingerprint=PRINT,
            cards=bulk(*(card(f"big{number}", "b" * 8000) for number in range(left // 8000 + 1))),
        )
    assert observe(again, "new", relations=supersedes("x")) == revision + 1
    again.close()


def test_fences_hold_across_openings(opener: Opener) -> None:
    """Invariant 15."""
    store = opener()
    cancelled, cleared = open_run(store, "cancelled"), open_run(store, "cleared")
    observe(store, "a", run=cleared)
    store.cancel_run(cancelled, reason="why")
    tombstone = store.clear_run(cleared, reason="", now=NOW)
    store.close()
    again = opener()
    assert (again.run(cancelled).state, again.run(cancelled).reason) == (RunState.CANCELLED, "why")
    assert again.run(cleared).tombstone == tombstone
    for key in (cancelled, cleared):
        with pytest.raises(RunClosed):
            observe(again, "b", run=key)
    with pytest.raises(RunClosed):
        again.open_run(JOB, "cleared", max_stored_bytes=None, now=NOW)
    again.close()


def test_compacting_changes_no_answer_but_the_tombstones(opener: Opener) -> None:
    """Invariant 15: the receipt says physical after the removal."""
    store = opener()
    fill(store)
    gone = open_run(store, "gone")
    observe(store, "a", run=gone)
    tombstone = store.clear_run(gone, reason="", now=NOW)
    assert tombstone.removal is Removal.LOGICAL
    before = everything(store)
    store.compact()
    for _ in range(2):
        assert everything(store) == before
        assert store.invocations(KEY, "ada", "n").newest is not None
        assert store.read_ranges(KEY, [(sha(b"z" * 100_000), 0, 2)]) == [b"zz"]
        after = store.run(gone).tombstone
        assert after is not None
        assert (after.revision, after.root, after.removal) == (tombstone.revision, tombstone.root, Removal.PHYSICAL)
        store.close()
        store = opener()
    assert store.commit(batch(event("a", card("a")))).events[0].replayed
    observe(store, "after")
    store.close()


def test_closing_twice_is_harmless_and_a_closed_record_says_so(opener: Opener) -> None:
    from mn_contract.errors import DependencyUnavailable

    store = opener()
    open_run(store)
    store.close()
    store.close()
    for call in (lambda: observe(store, "a"), lambda: store.index_columns(KEY, after=0, upto=1)):
        with pytest.raises(DependencyUnavailable):
            call()


@pytest.mark.parametrize("seed", range(4))
def test_what_was_committed_last_reads_as_what_was_there_for_long(opener: Opener, seed: int) -> None:
    """Any revisions of several runs, in any steps: of the record that wrote them, and of one that was opened anew."""
    rng, store = random.Random(seed), opener()
    written = {open_run(store, run): 0 for run in ("one", "two")}
    windows = []
    for number in range(70):
        run = rng.choice(list(written))
        some = [card(f"c{number}.{place}") for place in range(rng.choice((1, 1, 2, 40)))]
        if rng.random() < 0.03:
            store.commit_table(run, owner="ada", key=f"t{number}", fingerprint=sha(b"table"), cards=bulk(*some))
        else:
            ends = supersedes(some[0].card.id) if rng.random() < 0.3 else ()
            store.commit(batch(event(f"e{number}", *some, card(f"d{number}", relations=ends)), run=run))
        written[run] += 1
        for _ in range(3):
            upto = rng.choice((written[run], rng.randint(0, written[run])))
            after = max(0, upto - rng.choice((0, 1, 2, 5, 100)))
            windows.append((run, after, upto, store.index_columns(run, after=after, upto=upto)))
    store.close()
    anew = opener()
    for run, after, upto, found in windows:
        assert found == anew.index_columns(run, after=after, upto=upto), (run, after, upto)
    anew.close()
