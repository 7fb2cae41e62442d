"""BM25 in integers: the same score on every processor (invariant 5).

A term's weight in a card is quantized to a byte when the index is built, against a constant average length, so that new
cards change no old weight; the inverse document frequency is fixed-point and counted over what the asker can see.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mn_engine.recall.columns import Ragged

LENGTH_AVERAGE: Final = 100
"""Terms of an average card; a constant of the analysis version, not of the run."""
_SCALE: Final = 1024
_K1_SCALED: Final = 1536
"""k1 = 1.5"""
_B_NUM, _B_DEN = 3, 4
"""b = 0.75"""
WEIGHT_MAX: Final = 255
IDF_BITS: Final = 10
"""Fraction bits of an inverse document frequency."""


def weights(counts: NDArray[np.uint8], lengths: NDArray[np.uint32], terms: Ragged) -> NDArray[np.uint8]:
    """round(255 tf / (tf + k1 (1 - b + b length / average))) of every term of every card; at least 1.

    `counts` are side by side with the values of `terms`, `lengths` with its rows.
    """
    spread = _K1_SCALED * _B_NUM * lengths.astype(np.int64) // (_B_DEN * LENGTH_AVERAGE)
    norms = (_K1_SCALED * (_B_DEN - _B_NUM) // _B_DEN + spread).astype(np.int32)
    # Most terms stand in a card once, so that each card has one weight for nearly all of its terms.
    weighed = np.repeat(_weight(np.ones(len(norms), np.uint8), norms), terms.lengths())
    several = np.flatnonzero(counts != 1)
    rows = terms.owners()[several]
    weighed[several] = _weight(counts[several], norms[rows])
    return weighed


def _weight(counts: NDArray[np.uint8], norms: NDArray[np.int32]) -> NDArray[np.uint8]:
    tf = counts.astype(np.int32) * np.int32(_SCALE)
    below = tf + norms
    rounded = (np.int32(WEIGHT_MAX) * tf + (below >> 1)) // below
    weighed: NDArray[np.uint8] = np.maximum(rounded, 1).astype(np.uint8)
    return weighed


@lru_cache(maxsize=1 << 16)
def idf(cards: int, having: int) -> int:
    """log2((cards + 1) / (having + 1/2)) with IDF_BITS fraction bits; never below 1."""
    return max(log2_fixed(2 * (cards + 1)) - log2_fixed(2 * having + 1), 1)


def log2_fixed(value: int) -> int:
    """floor(2**IDF_BITS * log2(value)) of a positive integer, by repeated squaring: no floating point."""
    whole = value.bit_length() - 1
    fraction = (value << 62) >> whole  # in [2**62, 2**63)
    result = whole
    for _ in range(IDF_BITS):
        fraction = fraction * fraction >> 62
        bit = fraction >> 63
        fraction >>= bit
        result = result << 1 | bit
    return result
