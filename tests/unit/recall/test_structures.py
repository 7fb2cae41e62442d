"""The index's building blocks against dictionaries: snapshots share, and nobody's items change (invariant 4)."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mn_engine.recall import postings as postings_module
from mn_engine.recall.best import smallest
from mn_engine.recall.growing import Growing
from mn_engine.recall.lookup import Lookup
from mn_engine.recall.postings import Postings
from mn_engine.recall.segments import Sorted, Sorting
from tests.unit.recall.corpus import SAMPLE

chunks = st.lists(st.lists(st.integers(0, 5), max_size=40), max_size=8)


@SAMPLE
@example([[1], [2], [3], [4]], [0, 1, 2, 2])  # the third and the fourth grow from one snapshot that has room
@given(chunks, st.lists(st.integers(0, 8), max_size=8))
def test_growing_keeps_every_snapshot_even_where_two_grow_from_one(added: list[list[int]], parents: list[int]) -> None:
    snapshots: list[tuple[Growing, list[int]]] = [(Growing.empty(np.int64), [])]
    for chunk, parent in zip(added, [*parents, *range(8)], strict=False):
        growing, items = snapshots[parent % len(snapshots)]
        snapshots.append((growing.extended(np.asarray(chunk, np.int64)), items + chunk))
    for growing, items in snapshots:
        assert growing.array.tolist() == items
        assert len(growing) == len(items)


@SAMPLE
@given(chunks)
def test_postings_find_what_was_added_in_every_snapshot(added: list[list[int]]) -> None:
    check_postings(added)


@SAMPLE
@given(chunks)
def test_large_additions_answer_the_same_before_and_after_they_are_sorted(added: list[list[int]]) -> None:
    """Invariant 5: when a segment sorts itself is nobody's business."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings_module, "_LARGE", 10)
        patch.setattr(postings_module, "_PATIENCE", 9)
        check_postings(added)


def test_large_additions_are_sorted_piece_by_piece_as_they_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings_module, "_LARGE", 4)
    cards = np.repeat(np.arange(10, dtype=np.uint32), 3)
    postings = Postings().extended(np.arange(30, dtype=np.uint32) % np.uint32(7), cards, np.ones(30, np.uint8))
    pieces = [segment for segment in postings._segments if isinstance(segment, Sorting)]
    assert 1 < len(pieces) == len(postings._segments) <= 8
    sorted_pieces, answers = [], set()
    for _ in range(9 * len(pieces)):
        answers.add(str(postings.find([3])))
        sorted_pieces.append(sum(isinstance(piece._now, Sorted) for piece in pieces))
    assert sorted_pieces == sorted(sorted_pieces)
    assert set(sorted_pieces) == set(range(len(pieces) + 1)), "never two at once"
    assert len(answers) == 1


def check_postings(added: list[list[int]]) -> None:
    postings, expected, first = Postings(), defaultdict[int, list[tuple[int, int]]](list), 0
    seen = [(postings, dict(expected))]
    for chunk in added:
        cards = np.arange(first, first + len(chunk), dtype=np.uint32)
        postings = postings.extended(np.asarray(chunk, np.uint32), cards, (cards % 255 + 1).astype(np.uint8))
        for place, hashed in zip(cards.tolist(), chunk, strict=True):
            expected[hashed].append((place, place % 255 + 1))
        first += len(chunk)
        seen.append((postings, {hashed: list(found) for hashed, found in expected.items()}))
    for snapshot, wanted in seen:
        for hashed in range(7):
            cards, weights, _ = snapshot.find([hashed])
            assert list(zip(cards.tolist(), weights.tolist(), strict=True)) == wanted.get(hashed, [])


@SAMPLE
@given(chunks)
def test_a_lookup_finds_every_place_of_a_hash_and_one_place_of_each(added: list[list[int]]) -> None:
    lookup, expected, first = Lookup(), defaultdict[int, list[int]](list), 0
    for chunk in added:
        places = np.arange(first, first + len(chunk), dtype=np.uint32)
        lookup = lookup.extended(np.asarray(chunk, np.uint64) << np.uint64(60), places)
        for place, hashed in zip(places.tolist(), chunk, strict=True):
            expected[hashed << 60].append(place)
        first += len(chunk)
    for number in range(7):
        assert lookup.find(number << 60) == expected[number << 60]
    each = lookup.find_each(np.arange(7, dtype=np.uint64) << np.uint64(60)).tolist()
    assert all(
        place in expected[number << 60] or (place == -1 and not expected[number << 60])
        for number, place in enumerate(each)
    )


def test_segments_stay_few() -> None:
    """Catching up card by card must not make looking up slower and slower."""
    postings, lookup = Postings(), Lookup()
    for place in range(1000):
        one = np.asarray([place], np.uint32)
        postings = postings.extended(one % np.uint32(7), one, np.ones(1, np.uint8))
        lookup = lookup.extended(one.astype(np.uint64), one)
    assert len(postings._segments) <= 11
    assert len(lookup._segments) <= 11


@SAMPLE
@given(st.integers(0, 3000), st.integers(0, 3200), st.integers(0, 2**32), st.booleans())
def test_the_smallest_keys_are_those_of_a_whole_sort(keys: int, count: int, seed: int, ascending: bool) -> None:
    """Also where the keys that are looked at first say nothing of the others."""
    drawn = np.random.default_rng(seed).permutation(keys).astype(np.int64)
    given_keys = np.sort(drawn) if ascending else drawn
    assert smallest(given_keys, count).tolist() == sorted(drawn.tolist())[:count]
