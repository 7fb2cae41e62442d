"""Vectors and neighbours, in integers."""

from __future__ import annotations

from math import isqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_engine.recall.lexicon import NEIGHBOURS_MAX, Lexicon
from mn_engine.recall.vectors import DIMENSIONS, LENGTH, cosines, quantized
from tests.unit.recall.corpus import SMALL

rows = st.lists(st.integers(-(2**24), 2**24), min_size=DIMENSIONS, max_size=DIMENSIONS)


@given(rows)
def test_a_vector_is_the_sum_at_the_length_rounded_and_cut_at_a_byte(row: list[int]) -> None:
    length = max(isqrt(sum(item * item for item in row)), 1)
    expected = [min(max((2 * item * LENGTH + length) // (2 * length), -127), 127) for item in row]
    assert quantized(np.asarray([row], np.int64))[0].tolist() == expected


def test_what_says_nothing_has_a_vector_of_zeros() -> None:
    assert not quantized(np.zeros((2, DIMENSIONS), np.int64)).any()


@given(st.lists(st.integers(-127, 127), min_size=DIMENSIONS, max_size=DIMENSIONS), st.permutations(range(DIMENSIONS)))
def test_a_cosine_does_not_depend_on_the_order_of_addition(row: list[int], order: list[int]) -> None:
    """Invariant 5: sums of products stay below what single precision holds exactly."""
    one = np.asarray(row, np.int8)
    (plain,), (mixed,) = cosines(one[None], one), cosines(one[order][None], one[order])
    assert plain == mixed == 1024 * sum(item * item for item in row) // LENGTH**2


def test_neighbours_are_the_nearest_words_but_the_word_itself() -> None:
    for hashed, vector in zip(SMALL.hashes, SMALL.vectors, strict=True):
        near = SMALL.lexicon.near(hashed)
        assert hashed not in dict(near)
        assert [cosine for _, cosine in near] == sorted((cosine for _, cosine in near), reverse=True)
        known = dict(zip(SMALL.hashes, cosines(SMALL.vectors, vector).tolist(), strict=True))
        assert all(known[other] == cosine >= 410 for other, cosine in near)


def test_a_word_has_a_bounded_number_of_neighbours() -> None:
    vectors = np.full((40, DIMENSIONS), 32, np.int8)
    assert len(Lexicon(range(40), vectors).near(7)) == NEIGHBOURS_MAX


@pytest.mark.parametrize("lexicon", [Lexicon.empty(), SMALL.lexicon])
def test_a_word_that_is_not_known_has_no_neighbours(lexicon: Lexicon) -> None:
    assert lexicon.near(12345) == ()


def test_a_sum_of_any_size_becomes_a_vector_of_the_same_direction() -> None:
    rng = np.random.default_rng(3)
    sums = rng.integers(-(1 << 20), 1 << 20, (4, DIMENSIONS))
    for bits in (0, 10, 30, 40):
        near = cosines(quantized(sums << bits), quantized(sums)[0])
        assert near[0] >= 1000
        assert quantized(sums << bits).tolist() == quantized(sums << bits).tolist()
