"""Bulk tables: the same laws as commits, column by column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from mn_contract.errors import (
    ContextBudgetExceeded,
    IdempotencyConflict,
    InvalidInput,
    NotFound,
    RunClosed,
)
from mn_engine.domain.cards import ordinal_of
from mn_engine.domain.events import BatchReceipt
from mn_engine.store.memory import MemoryStore
from mn_engine.store.port import Store
from tests.storing import (
    KEY,
    NOW,
    artifact,
    batch,
    bulk,
    card,
    event,
    everything,
    handles,
    observe,
    open_run,
    sha,
    supersedes,
)

CARDS = tuple(card(f"c{number}", f"text {number} 🜲") for number in range(50))


def put(store: Store, table: pa.Table, *, key: str = "bulk", content: str = "", owner: str = "ada") -> int:
    """Commits a bulk event; answers the revision."""
    fingerprint = sha(f"{key} {content}".encode())
    return store.commit_table(KEY, owner=owner, key=key, fingerprint=fingerprint, cards=table).revision


def test_a_table_is_one_event_and_one_revision(store: Store) -> None:
    open_run(store)
    observe(store, "before")
    fingerprint = sha(b"bulk ")
    receipt = store.commit_table(KEY, owner="ada", key="bulk", fingerprint=fingerprint, cards=bulk(*CARDS))
    assert receipt.revision == 2
    (told,) = receipt.events
    assert (told.key, told.revision, told.replayed, told.cards) == ("bulk", 2, False, ())
    assert store.event(KEY, "ada", "bulk") == told
    columns = store.index_columns(KEY, after=1, upto=2).cards
    assert columns["ordinal"].to_pylist() == [ordinal_of(2, place) for place in range(50)]
    stored = store.cards(KEY, columns["ordinal"].to_pylist(), revision=2)
    assert [found.card for found in stored] == [prepared.card for prepared in CARDS]


def test_a_table_reads_like_the_same_cards_one_by_one(store: Store) -> None:
    open_run(store)
    put(store, bulk(*CARDS))
    other = open_run(store, "other")
    store.commit(batch(event("bulk", *CARDS, artifacts=()), run=other))
    one, two = everything(store), everything(store, other)
    assert one["cards"] == two["cards"]
    assert one["head"].stored_bytes == two["head"].stored_bytes


def test_artifacts_of_a_table_come_with_it_and_are_charged_once(store: Store) -> None:
    open_run(store)
    there = artifact(b"there before")
    store.commit(batch(event("before", artifacts=(there,))))
    before = store.run(KEY)
    sent = [there, artifact(b"new"), artifact(b"new"), artifact(b"new", owner="bob")]

    def commit(**more: Any) -> BatchReceipt:
        return store.commit_table(
            KEY, owner="ada", key="bulk", fingerprint=sha(b"b"), cards=bulk(*CARDS), artifacts=sent, **more
        )

    with pytest.raises(ContextBudgetExceeded):
        commit(expired=lambda: True)
    assert store.run(KEY) == before
    commit(recorded_at=NOW + 7)
    texts = sum(len(one.card.text.encode()) for one in CARDS)
    assert store.run(KEY).stored_bytes == before.stored_bytes + texts + 2 * len(b"new")
    assert store.read_ranges(KEY, [(sha(b"new"), 0, 3)]) == [b"new"]
    assert len(handles(store, sha(b"new"))) == 2
    assert store.run(KEY).frontier.size == before.frontier.size + 2 + len(CARDS) + 1
    assert (store.revision_at(KEY, NOW + 6), store.revision_at(KEY, NOW + 7)) == (0, 2)
    after = everything(store)
    assert commit().events[0].replayed
    assert everything(store) == after


def test_a_deadline_that_passes_in_the_queue_writes_nothing(store: Store) -> None:
    """As for batches: asked again before the commit, where the store has a queue."""
    open_run(store)
    answers = iter([False])
    try:
        store.commit_table(
            KEY, owner="ada", key="bulk", fingerprint=sha(b"b"), cards=bulk(*CARDS), expired=lambda: next(answers, True)
        )
    except ContextBudgetExceeded:
        assert store.run(KEY).revision == 0
    else:
        assert next(answers, None) is None, "a store without a queue asked once, in the moment of the commit"
        assert isinstance(store, MemoryStore)


def test_artifacts_of_a_table_that_is_refused_are_not_kept(store: Store) -> None:
    open_run(store)
    observe(store, "c7")
    before = everything(store)
    with pytest.raises(IdempotencyConflict):
        store.commit_table(
            KEY, owner="ada", key="bulk", fingerprint=sha(b"b"), cards=bulk(*CARDS), artifacts=[artifact(b"new")]
        )
    assert everything(store) == before
    assert handles(store, sha(b"new")) == ()


def test_the_same_table_again_is_a_replay_and_another_one_a_conflict(store: Store) -> None:
    """Invariant 9."""
    open_run(store)
    put(store, bulk(*CARDS))
    before = everything(store)
    fingerprint = sha(b"bulk ")
    again = store.commit_table(KEY, owner="ada", key="bulk", fingerprint=fingerprint, cards=bulk(*CARDS))
    assert again.events[0].replayed
    with pytest.raises(IdempotencyConflict):
        put(store, bulk(card("x")), content="other")
    assert everything(store) == before


def test_a_table_with_an_id_that_is_taken_is_refused_whole(store: Store) -> None:
    open_run(store)
    observe(store, "c7")
    before = everything(store)
    with pytest.raises(IdempotencyConflict) as refused:
        put(store, bulk(*CARDS))
    assert refused.value.detail["key"] == "c7"
    assert everything(store) == before
    with pytest.raises(IdempotencyConflict):
        put(store, bulk(card("z1"), card("c7", "other")))
    open_run(store)
    put(store, bulk(card("c8")), key="first")
    with pytest.raises(IdempotencyConflict):
        put(store, bulk(card("c8", "again")), key="second")


def test_a_later_event_may_point_at_a_tables_cards_and_may_not_reuse_their_ids(store: Store) -> None:
    open_run(store)
    put(store, bulk(*CARDS))
    with pytest.raises(IdempotencyConflict):
        observe(store, "c3")
    with pytest.raises(NotFound):
        observe(store, "n", relations=supersedes("c50"))
    observe(store, "n", relations=supersedes("c3"))
    (stored,) = store.cards(KEY, [ordinal_of(1, 3)], revision=2)
    assert stored.superseded_revision == 2


def test_a_table_over_the_budget_writes_nothing(store: Store) -> None:
    open_run(store, max_stored_bytes=sum(len(prepared.card.text.encode()) for prepared in CARDS) - 1)
    before = everything(store)
    with pytest.raises(ContextBudgetExceeded):
        put(store, bulk(*CARDS))
    assert everything(store) == before
    put(store, bulk(*CARDS[1:]))


def test_a_closed_run_takes_no_table(store: Store) -> None:
    open_run(store)
    store.cancel_run(KEY, reason="")
    with pytest.raises(RunClosed):
        put(store, bulk(*CARDS))


def broken_tables() -> dict[str, pa.Table]:
    """Tables that are no bulk tables, by what is wrong with them."""
    good = bulk(*CARDS)
    text = good.schema.get_field_index("text")
    not_utf8 = pa.StringArray.from_buffers(
        1, pa.py_buffer(b"\x00\x00\x00\x00\x02\x00\x00\x00"), pa.py_buffer(b"\xff\xfe")
    )
    return {
        "no rows": good.slice(0, 0),
        "a column too few": good.drop_columns(["text"]),
        "a column too many": good.append_column("more", pa.array([0] * 50)),
        "another order": good.select(list(reversed(good.column_names))),
        "another type": good.set_column(text, "text", good["text"].cast(pa.large_string())),
        "a null": good.set_column(text, "text", pa.array([None] + ["t"] * 49, pa.string())),
        "not UTF-8": good.slice(0, 1).set_column(text, "text", not_utf8),
        "an id twice": bulk(CARDS[0], CARDS[1], CARDS[0]),
        "meta of another card": good.set_column(
            good.schema.get_field_index("meta"), "meta", pa.array(good["meta"].to_pylist()[::-1])
        ),
        "meta of another owner": bulk(card("x", owner="bob")),
        "meta that is no object": good.set_column(good.schema.get_field_index("meta"), "meta", pa.array(["[]"] * 50)),
        "meta that is no JSON": good.set_column(good.schema.get_field_index("meta"), "meta", pa.array(["{"] * 50)),
        "a relation": bulk(card("x", relations=supersedes("c0"))),
    }


@pytest.mark.parametrize("wrong", broken_tables())
def test_what_is_no_bulk_table_is_refused_by_a_typed_error(store: Store, wrong: str) -> None:
    open_run(store)
    observe(store, "c0")
    before = everything(store)
    with pytest.raises(InvalidInput):
        put(store, broken_tables()[wrong])
    assert everything(store) == before
