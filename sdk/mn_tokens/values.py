"""What a count is: tokens, what they rest on, and what each part of the request costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "call", "tools", "schema", "strange"]
"""What a part's tokens are spent on: words and their framing, calls and their results, tools on offer, the answer's
form, or what no rule knows. Margins go by it."""


@dataclass(frozen=True, slots=True)
class Part:
    """One line of the ledger. `part` is a path into the request: `messages[3]`, `tools[0] search`, `reply`; `fields`
    says what of it costs what, where it has several. `beyond` are tokens that may be billed besides, for what is in the
    part but is not known to be shown to the model; `certain` says whether a rule knows all of it."""

    part: str
    tokens: int
    kind: Kind = "text"
    fields: tuple[tuple[str, int], ...] = ()
    beyond: int = 0
    certain: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The cost of a complete request.

    `tokens` is the sum of the ledger. `margin` is how many more the provider may bill, and `reasons` say why it may;
    admission adds it. `widened` of them are for what the model was seen to bill (`Calibration`). `exact` says that
    tokenizer and framing are known for this model, from recorded requests, and that nothing in the request is outside
    of what is known: its margin, if any, is for rounding.
    """

    tokens: int
    margin: int
    exact: bool
    tokenizer: str
    ledger: tuple[Part, ...]
    reasons: tuple[str, ...] = ()
    widened: int = 0

    @property
    def upper(self) -> int:
        """What admission reckons with."""
        return self.tokens + self.margin
