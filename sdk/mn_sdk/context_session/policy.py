"""A session's policy: sizes and shares. Defaults are the design's, not a statement about any model."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mn_contract.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class ContextPolicy:
    """What a session allows itself. Tokens are the model's, bytes are bytes, seconds are seconds; None means no limit.

    `input_budget = window_tokens - output_tokens - safety_tokens` is what a request may take. `packet_target` is the
    share of it that recalled records aim at. Non-final turns stop `final_call_reserve` calls before `max_calls`.
    """

    window_tokens: int = 16384
    output_tokens: int = 2048
    safety_tokens: int = 512
    packet_target: float = 0.70
    counter_evidence_share: float = 0.20
    supporting_evidence_share: float = 0.0
    max_calls: int | None = None
    final_call_reserve: int = 0
    max_storage_bytes: int | None = None
    deadline_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("window_tokens", "output_tokens", "safety_tokens", "final_call_reserve"):
            _check_count(name, getattr(self, name))
        for name in ("max_calls", "max_storage_bytes"):
            if getattr(self, name) is not None:
                _check_count(name, getattr(self, name))
        for name in ("packet_target", "counter_evidence_share", "supporting_evidence_share"):
            share = getattr(self, name)
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
                raise InvalidInput(f"{name} must be 0 to 1", field=name)
        if self.counter_evidence_share + self.supporting_evidence_share > 1:
            raise InvalidInput("the two evidence shares together must be at most 1", field="counter_evidence_share")
        if self.input_budget <= 0:
            raise InvalidInput(
                f"a window of {self.window_tokens} tokens leaves no input after {self.output_tokens} for output and "
                f"{self.safety_tokens} for safety",
                field="window_tokens",
            )
        seconds = self.deadline_seconds
        if seconds is not None and not (
            isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < math.inf
        ):
            raise InvalidInput("deadline_seconds must be more than 0", field="deadline_seconds")

    @property
    def input_budget(self) -> int:
        """Tokens that a complete request may take."""
        return self.window_tokens - self.output_tokens - self.safety_tokens


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInput(f"{name} must be a whole number, 0 or more", field=name)
