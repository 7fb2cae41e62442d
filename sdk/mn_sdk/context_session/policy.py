"""A session's policy: sizes and shares. Defaults are the design's, not a statement about any model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from mn_contract.errors import InvalidInput
from mn_contract.limits import RUN_STORED_BYTES_MAX
from mn_sdk.arguments import read_flag, read_number, read_whole

_OUTPUT_TOKENS: Final = 2048


@dataclass(frozen=True, slots=True)
class ContextPolicy:
    """What a session allows itself. Tokens are the model's, bytes are bytes, seconds are seconds; None means no limit.

    `input_budget = window_tokens - output_tokens - safety_tokens` is what a request may take. `packet_target` is the
    share of it that recalled records aim at. Non-final turns stop `final_call_reserve` calls before `max_calls`. With
    `model_limits` a model whose limits litellm's table knows gets no more than they allow.
    """

    window_tokens: int = 16384
    output_tokens: int = _OUTPUT_TOKENS
    safety_tokens: int = 512
    packet_target: float = 0.70
    counter_evidence_share: float = 0.20
    supporting_evidence_share: float = 0.0
    max_calls: int | None = None
    final_call_reserve: int = 0
    max_storage_bytes: int | None = None
    deadline_seconds: float | None = None
    model_limits: bool = True

    @classmethod
    def for_model(cls, model: str, **settings: Any) -> ContextPolicy:
        """A policy with the window of a model that litellm's table knows; `settings` are the other fields, and override
        it. Raises InvalidInput where the table does not know the window."""
        from mn_tokens import model_limits

        limits = model_limits(model) if isinstance(model, str) else None
        if limits is None or limits.input_tokens is None:
            raise InvalidInput(
                f"litellm's table knows no window of {model!r}: state it, as ContextPolicy(window_tokens=...)",
                field="model",
            )
        output = {} if limits.output_tokens is None else {"output_tokens": min(_OUTPUT_TOKENS, limits.output_tokens)}
        return cls(**{"window_tokens": limits.input_tokens, **output, **settings})

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
        read_flag(self.model_limits, "model_limits")
        if self.deadline_seconds is not None and read_number(self.deadline_seconds, "deadline_seconds") <= 0:
            raise InvalidInput("deadline_seconds must be more than 0", field="deadline_seconds")

    @property
    def input_budget(self) -> int:
        """Tokens that a complete request may take, as far as the policy goes."""
        return self.window_tokens - self.output_tokens - self.safety_tokens

    def window_of(self, model: str) -> int:
        """The window that a call of a model has, in tokens."""
        from mn_tokens import model_limits

        limits = model_limits(model) if self.model_limits else None
        known = None if limits is None else limits.input_tokens
        return self.window_tokens if known is None else min(self.window_tokens, known)

    def budget_of(self, model: str, *, output_tokens: int = 0) -> int:
        """Tokens that a complete request of a model may take, where the call itself allows so much output: more than
        the policy reserves leaves less input. Raises InvalidInput where it leaves none."""
        window, most = self.window_of(model), self._output_of(model)
        if most is not None and output_tokens > most:
            raise InvalidInput(f"{model} writes {most} tokens at most, not {output_tokens}", field="max_tokens")
        budget = window - max(self.output_tokens, output_tokens) - self.safety_tokens
        if budget > 0:
            return budget
        if output_tokens > self.output_tokens:
            raise InvalidInput(
                f"max_tokens of {output_tokens} leaves no input in a window of {window}", field="max_tokens"
            )
        raise InvalidInput(
            f"{model} has a window of {window} tokens, which {self.output_tokens} for output and {self.safety_tokens} "
            "for safety use up: set output_tokens lower",
            field="output_tokens",
        )

    def output_room(self, model: str, input_tokens: int) -> int:
        """Tokens that an answer may have beside an input of so many."""
        room = self.window_of(model) - input_tokens - self.safety_tokens
        most = self._output_of(model)
        return max(room if most is None else min(room, most), 1)

    def _output_of(self, model: str) -> int | None:
        from mn_tokens import model_limits

        limits = model_limits(model) if self.model_limits else None
        return None if limits is None else limits.output_tokens
