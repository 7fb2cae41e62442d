"""What a turn did, as numbers, names and hashes: what was recalled, admitted and left out, and why. Durable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from mn_contract.canonical import encoded
from mn_tokens import Count


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnReport:
    """One turn.

    `items` are {id, role, bytes, retrievers, rank} and `parts` the ledger of tokens. `tokens` counts the complete
    request, `margin` is what was added because the provider may bill more, `exact` says that the tokenizer is known.
    `reasons` say why more may be billed. `usage` is what the provider reported to have billed, empty where it reported
    nothing; `drift` says that this was more than count and margin.
    `selector` says what came of asking a model selector; empty where none is configured.
    `written_back` is empty where the response is in the record, else the reason of the error that kept it out; the next
    turn of this name then writes it back.
    """

    name: str
    attempt: int = 0
    model: str = ""
    request_sha256: str = ""
    window: int = 0
    input_budget: int = 0
    tokens: int = 0
    margin: int = 0
    exact: bool = False
    tokenizer: str = ""
    reasons: tuple[str, ...] = ()
    parts: tuple[Mapping[str, Any], ...] = ()
    left_out_of_current: tuple[str, ...] = ()
    revision: int = 0
    packet_digest: str = ""
    packet_bytes: int = 0
    items: tuple[Mapping[str, Any], ...] = ()
    coverage: Mapping[str, Any] | None = None
    more: bool = False
    next_rotation: int = 0
    selector: str = ""
    ranges_verified: int = 0
    rounds: int = 0
    usage: Mapping[str, int] = field(default_factory=dict)
    drift: str = ""
    written_back: str = ""

    def encoded(self) -> bytes:
        """Canonical JSON."""
        return encoded({entry.name: getattr(self, entry.name) for entry in fields(self)})

    def counted(self, count: Count) -> TurnReport:
        """The report, saying what the request takes."""
        return replace(
            self,
            tokens=count.tokens,
            margin=count.margin,
            exact=count.exact,
            tokenizer=count.tokenizer,
            reasons=count.reasons,
            parts=tuple({"part": part.part, "tokens": part.tokens} for part in count.ledger),
        )

    def answered(self, *, usage: Mapping[str, int], written_back: str) -> TurnReport:
        """The report, saying what was billed and how the write-back went."""
        return replace(self, usage=usage, written_back=written_back)

    @classmethod
    def decode(cls, data: bytes) -> TurnReport:
        """The inverse of encoded."""
        document = json.loads(data)
        for name in ("parts", "reasons", "left_out_of_current", "items"):
            document[name] = tuple(document[name])
        return cls(**document)
