"""A session's policy: sizes and shares. Defaults are the design's, not a statement about any model."""

from __future__ import annotations

from dataclasses import dataclass

from mn_contract.errors import InvalidInput
from mn_contract.limits import RUN_STORED_BYTES_MAX
from mn_sdk.arguments import read_number, read_whole


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
            read_whole(getattr(self, name), name)
        if self.max_calls is not None:
            read_whole(self.max_calls, "max_calls")
        if self.max_storage_bytes is not None:
            read_whole(self.max_storage_bytes, "max_storage_bytes", 1, RUN_STORED_BYTES_MAX)
        for name in ("packet_target", "counter_evidence_share", "supporting_evidence_share"):
            read_number(getattr(self, name), name, 0, 1)
        if self.counter_evidence_share + self.supporting_evidence_share > 1:
            raise InvalidInput("the two evidence shares together must be at most 1", field="counter_evidence_share")
        if self.input_budget <= 0:
            raise InvalidInput(
                f"a window of {self.window_tokens} tokens leaves no input after {self.output_tokens} for output and "
                f"{self.safety_tokens} for safety",
                field="window_tokens",
            )
        if self.deadline_seconds is not None and read_number(self.deadline_seconds, "deadline_seconds") <= 0:
            raise InvalidInput("deadline_seconds must be more than 0", field="deadline_seconds")

    @property
    def input_budget(self) -> int:
        """Tokens that a complete request may take."""
        return self.window_tokens - self.output_tokens - self.safety_tokens
