"""Room: what a budget leaves for items, in bytes and in tokens at once. A card fits where both are left.

Without a token budget there is room for any number of tokens, so that there is one rule and no case apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

TOKENS_ANY: Final = 1 << 62
"""More tokens than any packet has."""


@lru_cache(maxsize=64)
def _decimal(share: float) -> Fraction:
    return Fraction(repr(share))


@dataclass(frozen=True, slots=True)
class Room:
    """So many bytes and tokens; less than nothing is nothing."""

    bytes: int
    tokens: int = TOKENS_ANY

    def share(self, share: float) -> Room:
        """That part of it, rounded down; a share is taken as the decimal that it is written as."""
        part = _decimal(share)
        return Room(int(part * self.bytes), self.tokens if self.unmetered else int(part * self.tokens))

    def less(self, bytes_used: int, tokens_used: int) -> Room:
        """What is left after that much."""
        return Room(self.bytes - bytes_used, self.tokens if self.unmetered else self.tokens - tokens_used)

    def more(self, bytes_freed: int, tokens_freed: int) -> Room:
        """What is left when that much comes free."""
        return self.less(-bytes_freed, -tokens_freed)

    def within(self, other: Room) -> Room:
        """The smaller of the two in either measure."""
        return Room(min(self.bytes, other.bytes), min(self.tokens, other.tokens))

    def union(self, other: Room) -> Room:
        """The larger of the two in either measure."""
        return Room(max(self.bytes, other.bytes), max(self.tokens, other.tokens))

    def holds(self, size: int, tokens: int) -> bool:
        """Whether something of this size fits."""
        return size <= self.bytes and tokens <= self.tokens

    def holding(self, sizes: NDArray[Any], tokens: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of some things fit, each alone."""
        fit: NDArray[np.bool_] = (sizes <= self.bytes) & (tokens <= self.tokens)
        return fit

    @property
    def unmetered(self) -> bool:
        """Whether tokens are not counted."""
        return self.tokens == TOKENS_ANY
