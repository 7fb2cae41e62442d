"""What texts mean, as vectors of small integers: the same on every processor (invariant 5).

A vector has LENGTH, so a product of two is at most LENGTH squared: a sum that single precision holds exactly, in
whatever order it is added up. So products may use whatever is fastest on a machine.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

DIMENSIONS: Final = 256
LENGTH: Final = 512
"""The Euclidean length of a vector, as far as rounding and cutting at a byte allow."""
COSINE_BITS: Final = 10
"""Fraction bits of a cosine."""
_SUM_MAX: Final = 1 << 27
"""Below this, the squares of DIMENSIONS numbers add up to less than 1 << 63."""


def cosines(vectors: NDArray[np.int8], one: NDArray[np.int8]) -> NDArray[np.int64]:
    """The cosine of each row with a vector, in 1024ths."""
    # Not by BLAS, whose threads wait for each other longer than so small a product takes where processors are busy.
    products = np.einsum("ij,j->i", vectors.astype(np.float32), one.astype(np.float32))
    found: NDArray[np.int64] = (products.astype(np.int64) << COSINE_BITS) // LENGTH**2
    return found


def quantized(sums: NDArray[np.int64]) -> NDArray[np.int8]:
    """Rows of integers as vectors of LENGTH, in integers all the way."""
    while (large := np.abs(sums).max(axis=1, initial=0) >= _SUM_MAX).any():  # their squares would not fit
        sums = np.where(large[:, None], sums >> 1, sums)
    lengths = _roots((sums * sums).sum(axis=1))[:, None]
    scaled = (2 * sums * LENGTH + lengths) // (2 * lengths)
    vectors: NDArray[np.int8] = np.clip(scaled, -127, 127).astype(np.int8)
    return vectors


def _roots(squares: NDArray[np.int64]) -> NDArray[np.int64]:
    """floor(sqrt(x)), exactly, and 1 of 0: Newton's method from above. Where it starts moves no result."""
    roots = np.sqrt(squares).astype(np.int64) + 1
    while True:
        better = np.maximum((roots + squares // roots) >> 1, 1)
        if (better >= roots).all():
            return roots
        roots = np.minimum(roots, better)
