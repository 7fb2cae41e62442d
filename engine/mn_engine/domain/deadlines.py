"""Deadlines as the engine sees them: something to ask, never a clock to read."""

from __future__ import annotations

import math
from collections.abc import Callable

Remaining = Callable[[], float]
"""Seconds until the caller's deadline; 0 or less where it has passed or the caller has gone."""
Expired = Callable[[], bool]
"""Whether the caller's deadline has passed or the caller has gone."""


def endless() -> float:
    """For callers without a deadline."""
    return math.inf


def never() -> bool:
    """For callers without a deadline."""
    return False
