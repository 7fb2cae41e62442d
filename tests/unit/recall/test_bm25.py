"""Integer BM25 against the formula in exact fractions."""

from __future__ import annotations

from fractions import Fraction
from math import log2

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mn_engine.recall.bm25 import IDF_BITS, LENGTH_AVERAGE, idf, log2_fixed, weights
from mn_engine.recall.columns import Ragged
from tests.unit.recall.corpus import SAMPLE


@SAMPLE
@given(st.integers(1, 1 << 80))
def test_the_fixed_logarithm_is_the_floor_of_the_true_one(value: int) -> None:
    """2**log <= value < 2**(log + 1 ulp), in exact integers."""
    found = log2_fixed(value)
    assert abs(found / (1 << IDF_BITS) - log2(value)) < 2 / (1 << IDF_BITS)
    if value.bit_length() < 40:  # the comparison itself is exact, and slow for large values
        assert 1 << found <= value ** (1 << IDF_BITS) < 1 << (found + 1)


@SAMPLE
@given(st.integers(0, 1 << 24), st.data())
def test_a_rarer_term_is_never_worth_less(cards: int, data: st.DataObject) -> None:
    having = data.draw(st.integers(0, cards))
    assert idf(cards, having) >= max(idf(cards, having + 1), 1)


@SAMPLE
@given(st.lists(st.tuples(st.integers(1, 255), st.integers(1, 20_000)), min_size=1, max_size=20))
def test_weights_are_bm25_rounded_to_a_byte(drawn: list[tuple[int, int]]) -> None:
    counts = np.asarray([tf for tf, _ in drawn], np.uint8)
    lengths = np.asarray([length for _, length in drawn], np.uint32)
    rows = Ragged(offsets=np.arange(len(drawn) + 1), values=np.zeros(len(drawn), np.uint32))
    for (tf, length), weight in zip(drawn, weights(counts, lengths, rows).tolist(), strict=True):
        norm = Fraction(3, 2) * (Fraction(1, 4) + Fraction(3, 4) * Fraction(length, LENGTH_AVERAGE))
        assert abs(weight - max(255 * tf / (tf + norm), 1)) < Fraction(77, 100), (
            "a half, and what a norm in 1024ths loses"
        )
