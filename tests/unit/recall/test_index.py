"""The derived index: built at once or revision by revision it is the same (5), and a snapshot never changes (4)."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_contract.errors import ContextBudgetExceeded
from mn_engine.domain.cards import CONTRADICTS, SUPERSEDES, Card, CardKey, Relation
from mn_engine.domain.packets import Decision
from mn_engine.recall import index as index_module
from mn_engine.recall.columns import rows_from_arrow
from mn_engine.recall.embedder import NoEmbedder
from mn_engine.recall.index import RunIndex
from mn_engine.recall.rank import rank
from mn_engine.recall.view import View
from tests.unit.recall.corpus import SAMPLE, Record, batches_of_cards, card, decisions, recorded, scope


def contents(index: RunIndex) -> dict[str, Any]:
    """All that an index holds, whatever its segments."""
    postings = {
        name: b"".join(sorted(key.tobytes() for segment in getattr(index, name)._segments for key in segment.packed()))
        for name in ("terms", "labels")
    }
    hashes = {
        name: sorted(
            (int(hashed), int(place))
            for segment in getattr(index, name)._segments
            for hashed, place in zip(segment.hashes, segment.places, strict=True)
        )
        for name in ("keys", "ids")
    }
    columns = {name: (column.array.dtype.str, column.array.tobytes()) for name, column in index.columns.items()}
    return {"revision": index.revision, "readers": index.readers, **columns, **postings, **hashes}


@SAMPLE
@given(batches_of_cards(), st.sets(st.integers(1, 12)))
def test_an_index_caught_up_in_steps_equals_one_built_at_once(batches: list[list[Card]], stops: set[int]) -> None:
    """Invariant 5, byte for byte."""
    record = recorded(batches)
    stepwise = record.index(cuts=(stop for stop in stops if stop < record.revision))
    assert contents(stepwise) == contents(record.index())


@SAMPLE
@given(batches_of_cards(), decisions)
def test_a_snapshot_answers_the_same_after_the_index_has_grown(batches: list[list[Card]], decision: Any) -> None:
    """Invariant 4: a reader's snapshot, and an older revision seen through a newer index, stay as they were."""
    record = recorded(batches)
    snapshots = [(RunIndex.empty(), contents(RunIndex.empty()))]
    for revision in range(1, record.revision + 1):
        index = record.extended(snapshots[-1][0], revision - 1, revision)
        snapshots.append((index, contents(index)))
    newest = snapshots[-1][0]
    for revision, (index, as_built) in enumerate(snapshots):
        assert contents(index) == as_built
        then, now = (rank(View(one, scope(), revision), decision, NoEmbedder()) for one in (index, newest))
        assert [array.tolist() for array in (then.places, then.scores, then.found_by)] == [
            array.tolist() for array in (now.places, now.scores, now.found_by)
        ]


def test_two_indexes_can_grow_from_one_snapshot() -> None:
    """An index that was dropped while it was caught up must not write into the one that replaced it."""
    record, fork = (recorded([[card(name)] for name in ("a", "b", last)]) for last in ("c", "d"))
    shared = record.index(2, cuts=(1,))
    one, other = record.extended(shared, 2, 3), fork.extended(shared, 2, 3)
    assert contents(one) == contents(record.index())
    assert contents(other) == contents(fork.index())


def test_readers_keep_their_revision_while_a_writer_extends() -> None:
    """Invariant 4 under concurrency: one writer, three readers on snapshots of different age."""
    record = recorded([[card(f"c{at}", f"parser x{at % 5}")] for at in range(60)])
    decision, snapshots = Decision(focus="parser x3"), [record.index(20), record.index(40)]
    extended = threading.Event()

    def ranked(index: RunIndex) -> tuple[list[int], list[int]]:
        ranking = rank(View(index, scope(), index.revision), decision, NoEmbedder())
        return ranking.places.tolist(), ranking.scores.tolist()

    def read(index: RunIndex) -> bool:
        expected, same = ranked(index), True
        while same and not extended.is_set():
            same = ranked(index) == expected
        return same

    with ThreadPoolExecutor(3) as readers:
        answers = [readers.submit(read, index) for index in (*snapshots, snapshots[1])]
        index = snapshots[1]
        try:
            for revision in range(41, 61):
                index = record.extended(index, revision - 1, revision)
        finally:
            extended.set()
        assert [answer.result(timeout=30) for answer in answers] == [True] * 3
    assert contents(index) == contents(record.index())


def test_cards_of_one_batch_may_point_at_each_other_in_any_order() -> None:
    later = card("b", "two")
    first = card("a", "one", relations=(Relation(CONTRADICTS, later.key),))
    last = card("c", "three", relations=(Relation(SUPERSEDES, first.key),))
    view = recorded([[first, later, last]]).view()
    assert [view.key(view.ordinal(int(place))).id for place in np.flatnonzero(view.visible)] == ["b", "c"]
    assert [view.key(ordinal).id for ordinal in view.conflicts(view.resolve("a", live=False))] == ["b"]


def test_what_is_said_of_a_card_that_is_not_there_is_not_taken_for_another() -> None:
    """The record refuses such links; an index must not read one as the last card, say."""
    one = card(
        "a", relations=(Relation(CONTRADICTS, CardKey("alice", "b")), Relation(SUPERSEDES, CardKey("alice", "b")))
    )
    columns = recorded([[card("b"), one]]).store.index_columns(scope().run_key, after=0, upto=1)
    rows = rows_from_arrow(columns.cards.slice(1, 1), columns.relations, columns.endings)
    index = RunIndex.empty().extended(rows, upto=1)
    assert len(index.array("link_others")) == len(index.array("ended_places")) == 0
    assert View(index, scope(), 1).visible.tolist() == [True]


def test_an_index_takes_at_most_450_bytes_a_card_of_40_terms() -> None:
    words = ["".join(letters) for letters in product("bdfgklmnprtvz", repeat=3)]
    rng = np.random.default_rng(7)
    batches = [
        [card(f"card-{batch}-{place}", " ".join(rng.choice(words, 40, replace=False))) for place in range(200)]
        for batch in range(10)
    ]
    index = recorded(batches).index()
    assert len(index) == 2000
    assert index.nbytes - index.columns["vectors"].nbytes <= 450 * len(index)


def test_a_run_that_outgrows_its_index_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "CARDS_MAX", 2)
    record = recorded([[card("a"), card("b")], [card("c")]])
    fits = record.index(1)
    with pytest.raises(ContextBudgetExceeded) as caught:
        record.extended(fits, 1, 2)
    assert caught.value.detail == {"budget": "cards", "limit": 2}


def test_an_empty_run_has_an_empty_index() -> None:
    record = Record()
    assert len(record.index()) == 0
    assert record.view().visible.tolist() == []
