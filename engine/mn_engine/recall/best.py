"""The best of many: as many of the smallest keys as are wanted, in order, without sorting the rest."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_STEP: Final = 16
"""One key in so many is looked at to guess how far the wanted ones go."""
_MARGIN: Final = 32


def smallest(keys: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The `count` smallest of distinct keys, ascending; all of them where there are no more."""
    if count >= len(keys):
        return np.sort(keys)
    sample = keys[::_STEP]
    guess = count // _STEP * 3 // 2 + _MARGIN
    if guess < len(sample):
        likely = keys[keys <= np.partition(sample, guess)[guess]]
        if len(likely) >= count:
            keys = likely
    return np.sort(np.partition(keys, count - 1)[:count]) if count else keys[:0]
