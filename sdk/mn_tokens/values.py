"""What a count is: tokens, what they rest on, and what each part of the request costs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """One line of the ledger. `part` is a path into the request: `messages[3]`, `tools[0] search`, `reply`."""

    part: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The cost of a complete request.

    `tokens` is the sum of the ledger. `margin` is how many more the provider may bill; admission adds it. `exact` says
    that tokenizer and framing are known for this model and that nothing in the request is outside of what is known.
    """

    tokens: int
    margin: int
    exact: bool
    tokenizer: str
    ledger: tuple[Part, ...]

    @property
    def upper(self) -> int:
        """What admission reckons with."""
        return self.tokens + self.margin
