"""Deadlines as the engine sees them: something to ask, never a clock to read."""

from __future__ import annotations

from collections.abc import Callable

Expired = Callable[[], bool]
"""Whether the caller's deadline has passed or the caller has gone."""


def never() -> bool:
    """For callers without a deadline."""
    return False
