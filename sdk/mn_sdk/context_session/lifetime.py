"""Whether a session may go on: the run not cancelled, the deadline not passed. Asked around every step that matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mn_contract.errors import ContextBudgetExceeded, RunClosed


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """`deadline` in epoch seconds by `clock`; None means none."""

    cancelled: Callable[[], bool]
    deadline: float | None
    clock: Callable[[], float]

    def check(self) -> None:
        """Raises RunClosed where the run was cancelled, ContextBudgetExceeded where the deadline has passed."""
        if self.cancelled():
            raise RunClosed("the run was cancelled; nothing more is started", reason="RUN_CANCELLED", state="cancelled")
        if self.deadline is not None and self.clock() >= self.deadline:
            raise ContextBudgetExceeded(
                "the session's deadline has passed; nothing more is started",
                budget="deadline",
                limit=self.deadline,
                used=self.clock(),
            )

    def remaining(self, seconds: float) -> float:
        """`seconds`, or what is left until the deadline where that is less."""
        if self.deadline is None:
            return seconds
        return max(min(seconds, self.deadline - self.clock()), 0.001)
