"""Commits: replays, conflicts, revisions, clashes and targets."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from mn_contract.errors import ContextBudgetExceeded, IdempotencyConflict, InvalidInput, NotFound, StaleRevision
from mn_engine.domain.access import OPEN
from mn_engine.domain.cards import CardKey, Relation, ordinal_of
from mn_engine.domain.merkle import Frontier, leaf_hash
from mn_engine.domain.runs import EMPTY_ROOT, next_root
from mn_engine.store.port import RESOLVED, SUPERSEDED, Store
from tests.storing import KEY, batch, card, event, everything, observe, open_run, resolving, supersedes

NUMBERS: Final = itertools.count()


def test_a_batch_is_one_revision_and_its_cards_are_numbered_through_it(store: Store) -> None:
    open_run(store)
    receipt = store.commit(batch(event("e1", card("a"), card("b")), event("e2", card("c"))))
    assert receipt.revision == 1
    assert [told.cards for told in receipt.events] == [
        (CardKey("ada", "a"), CardKey("ada", "b")),
        (CardKey("ada", "c"),),
    ]
    ordinals = store.index_columns(KEY, after=0, upto=1).cards["ordinal"].to_pylist()
    assert ordinals == [ordinal_of(1, 0), ordinal_of(1, 1), ordinal_of(1, 2)]
    assert observe(store, "d") == 2


def test_roots_chain_those_of_the_tree_over_what_was_recorded(store: Store) -> None:
    open_run(store)
    store.commit(batch(event("e1", card("a"))))
    arriving = store.upload(KEY)
    arriving.write(b"uploaded")
    arriving.finish(media_type="a/b", owner="ada", acl=OPEN, expected_sha256="")
    store.commit(batch(event("e2", card("b"), resolves=(CardKey("ada", "a"),)), event("e3", card("c"))))
    leaves = store.leaves(KEY, first=0, count=100)
    assert [leaf.kind for leaf in leaves] == [
        *("artifact", "card", "event"),
        "artifact",
        *("artifact", "card", "ending", "event"),
        *("artifact", "card", "event"),
    ]
    hashes = [leaf_hash(leaf.record) for leaf in leaves]
    assert store.leaf_hashes(KEY) == hashes
    first, second, third = (Frontier().extended(hashes[:size]) for size in (3, 4, 11))
    roots = [next_root(EMPTY_ROOT, 1, first)]
    roots.append(next_root(roots[0], 1, second))
    roots.append(next_root(roots[1], 2, third))
    assert [at.root for at in store.roots(KEY) if at.size] == roots
    assert store.run(KEY).root == roots[2]
    assert store.run(KEY).frontier == third


def test_the_same_event_again_is_answered_from_the_record(store: Store) -> None:
    """Invariant 9."""
    open_run(store)
    first = store.commit(batch(event("e", card("a"))))
    observe(store, "later")
    before = everything(store)
    again = store.commit(batch(event("e", card("a"))))
    assert again.revision == 2, "the run's revision, to which a replay adds nothing"
    assert again.events[0].replayed
    assert (again.events[0].revision, again.events[0].cards) == (1, first.events[0].cards)
    assert everything(store) == before


def test_other_content_under_the_same_key_is_refused(store: Store) -> None:
    """Invariant 9."""
    open_run(store)
    observe(store, "e")
    before = everything(store)
    with pytest.raises(IdempotencyConflict) as refused:
        store.commit(batch(event("new", card("n")), event("e", card("other"), content="other")))
    assert refused.value.detail["key"] == "e"
    assert everything(store) == before, "the batch is refused whole"


def test_event_keys_are_each_principals_own(store: Store) -> None:
    """Invariant 7: a clash would tell one principal of another's event."""
    open_run(store)
    observe(store, "e", owner="ada")
    receipt = store.commit(batch(event("e", card("e", owner="bob"), owner="bob", content="other")))
    assert not receipt.events[0].replayed


def test_a_batch_of_old_and_new_events_commits_the_new_ones(store: Store) -> None:
    open_run(store)
    observe(store, "old")
    receipt = store.commit(batch(event("old", card("old")), event("new", card("new"))))
    assert [(told.key, told.replayed, told.revision) for told in receipt.events] == [
        ("old", True, 1),
        ("new", False, 2),
    ]


def test_an_expected_revision_that_has_passed_is_refused(store: Store) -> None:
    """Invariant 9."""
    open_run(store)
    observe(store, "a")
    for wrong in (0, 2):
        with pytest.raises(StaleRevision) as refused:
            store.commit(batch(event("b", card("b")), expected=wrong))
        assert refused.value.detail == {"expected": wrong, "newest": 1}
    assert store.commit(batch(event("b", card("b")), expected=1)).revision == 2


def test_a_replay_is_answered_whatever_revision_it_expects(store: Store) -> None:
    """Invariant 9: the retry of a write that went through carries the revision of before it."""
    open_run(store)
    store.commit(batch(event("a", card("a")), expected=0))
    observe(store, "b")
    assert store.commit(batch(event("a", card("a")), expected=0)).events[0].replayed


def test_a_card_id_is_used_once_by_its_writer(store: Store) -> None:
    open_run(store)
    observe(store, "a")
    before = everything(store)
    with pytest.raises(IdempotencyConflict) as refused:
        store.commit(batch(event("e2", card("a", "other text"))))
    assert refused.value.detail["key"] == "a"
    with pytest.raises(IdempotencyConflict):
        store.commit(batch(event("e3", card("x")), event("e4", card("x", "other text"))))
    assert everything(store) == before
    observe(store, "a", owner="bob")


def test_a_card_may_point_at_cards_of_the_record_and_of_its_own_batch(store: Store) -> None:
    open_run(store)
    observe(store, "a")
    relation = (Relation("follows", CardKey("ada", "c")), *supersedes("a"))
    store.commit(batch(event("e1", card("b", relations=relation)), event("e2", card("c"))))
    relations = store.index_columns(KEY, after=0, upto=2).relations.to_pylist()
    assert relations == [
        {"source_ordinal": ordinal_of(2, 0), "type": "follows", "target_hash": CardKey("ada", "c").hash},
        {"source_ordinal": ordinal_of(2, 0), "type": "supersedes", "target_hash": CardKey("ada", "a").hash},
    ]


@pytest.mark.parametrize("where", ["relation", "resolves", "another's"])
def test_what_points_at_a_card_that_is_not_there_is_refused(store: Store, where: str) -> None:
    open_run(store)
    observe(store, "a", owner="bob")
    before = everything(store)
    wrong = {
        "relation": event("e", card("b", relations=supersedes("nowhere"))),
        "resolves": event("e", card("b"), resolves=(CardKey("ada", "nowhere"),)),
        "another's": event("e", card("b", relations=supersedes("a"))),
    }[where]
    with pytest.raises(NotFound):
        store.commit(batch(wrong))
    assert everything(store) == before


@pytest.mark.parametrize("ending", [supersedes, resolving])
@pytest.mark.parametrize("split", [False, True])
def test_a_card_ends_only_what_came_before_it(store: Store, ending: Callable[..., Any], split: bool) -> None:
    """A cycle would leave none of its cards live, and what they superseded would be gone with them."""
    open_run(store)
    observe(store, "rule")
    first = card("b", relations=(*supersedes("rule"), *ending("c")))
    second = card("c", relations=supersedes("b"))
    before = everything(store)
    events = [event("e1", first), event("e2", second)] if split else [event("e", first, second)]
    with pytest.raises(InvalidInput) as refused:
        store.commit(batch(*events))
    assert refused.value.field == "card.relations"
    assert everything(store) == before
    store.commit(batch(event("e3", card("b", relations=supersedes("rule")), second)))
    assert len(store.index_columns(KEY, after=1, upto=2).endings) == 2


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_accepted_batches_make_a_cycle(store: Store, data: st.DataObject) -> None:
    """Every card is ended by a later one, so the newest of those that end each other is live."""
    run = open_run(store, f"run-{next(NUMBERS)}")
    ids = iter("abcdefgh")
    for place in range(data.draw(st.integers(1, 3))):
        events = []
        for name in data.draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=2, unique=True)):
            made = []
            for card_id in itertools.islice(ids, data.draw(st.integers(0, 2))):
                targets = data.draw(st.sets(st.sampled_from("abcdefgh").filter(card_id.__ne__), max_size=2))
                ending = data.draw(st.sampled_from([supersedes, resolving]))
                made.append(card(card_id, relations=ending(*sorted(targets))))
            events.append(event(f"{name}{place}", *made))
        with contextlib.suppress(InvalidInput, NotFound):
            store.commit(batch(*events, run=run))
    columns = store.index_columns(run, after=0, upto=9)
    ordinals = dict(zip(columns.cards["key_hash"].to_pylist(), columns.cards["ordinal"].to_pylist(), strict=True))
    for row in columns.endings.to_pylist():
        assert ordinals[row["by_hash"]] > ordinals[row["target_hash"]]


def test_an_event_resolves_what_it_or_an_earlier_one_adds(store: Store) -> None:
    open_run(store)
    resolved = CardKey("ada", "b")
    with pytest.raises(InvalidInput) as refused:
        store.commit(batch(event("e1", card("a"), resolves=(resolved,)), event("e2", card("b"))))
    assert refused.value.field == "event.resolves"
    store.commit(batch(event("e1", card("b"), resolves=(resolved,)), event("e2", resolves=(resolved,))))
    assert len(store.index_columns(KEY, after=0, upto=1).endings) == 2


def test_endings_tell_what_was_superseded_and_resolved_and_by_whom(store: Store) -> None:
    open_run(store)
    for card_id in ("a", "b", "c"):
        observe(store, card_id)
    store.commit(batch(event("e", card("d", relations=(*supersedes("a"), *resolving("b"))))))
    store.commit(batch(event("f", resolves=(CardKey("ada", "c"),))))
    ada = {card_id: CardKey("ada", card_id).hash for card_id in "abcd"}
    assert store.index_columns(KEY, after=0, upto=9).endings.to_pylist() == [
        {"revision": 4, "target_hash": ada["a"], "kind": SUPERSEDED, "by_hash": ada["d"]},
        {"revision": 4, "target_hash": ada["b"], "kind": RESOLVED, "by_hash": ada["d"]},
        {"revision": 5, "target_hash": ada["c"], "kind": RESOLVED, "by_hash": None},
    ]


def test_a_deadline_that_has_passed_writes_nothing(store: Store) -> None:
    open_run(store)
    with pytest.raises(ContextBudgetExceeded) as refused:
        store.commit(batch(event("e", card("a"))), expired=lambda: True)
    assert refused.value.detail["budget"] == "deadline"
    assert store.run(KEY).revision == 0


def test_a_deadline_that_passes_in_the_queue_writes_nothing(store: Store) -> None:
    """Asked before the batch is queued and again before it is committed, where the store has a queue."""
    open_run(store)
    answers = iter([False])
    try:
        store.commit(batch(event("e", card("a"))), expired=lambda: next(answers, True))
    except ContextBudgetExceeded:
        assert store.run(KEY).revision == 0
        assert store.event(KEY, "ada", "e") is None
    else:
        assert next(answers, None) is None, "a store without a queue asked once, in the moment of the commit"


def test_an_events_receipt_is_found_by_its_key(store: Store) -> None:
    open_run(store)
    receipt = store.commit(batch(event("e", card("a"), card("b")))).events[0]
    assert store.event(KEY, "ada", "e") == receipt
    assert store.event(KEY, "ada", "f") is None
    assert store.event(KEY, "bob", "e") is None


def test_an_event_without_cards_makes_a_revision(store: Store) -> None:
    open_run(store)
    assert store.commit(batch(event("e"))).revision == 1
