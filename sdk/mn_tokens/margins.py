"""How far a count may be under what is billed, by what the tokens are spent on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from mn_tokens.values import Kind

_ROUNDING: Final = 2
"""Fewer tokens than that are room for rounding; for texts, whatever their length, the share is."""


@dataclass(frozen=True, slots=True)
class Bound:
    """`share` of a kind's tokens and `constant` tokens more, where the request has any of that kind."""

    share: float
    constant: int = 0

    def widest(self, other: Bound) -> Bound:
        """What holds where either does."""
        return Bound(max(self.share, other.share), max(self.constant, other.constant))


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
    """A bound for each kind of tokens. They add up: a request with tools and a schema has the room of both.

    Bounds were read off recorded requests: for each kind about the smallest that leaves the billed count of nearly all
    of them under it.
    """

    text: Bound
    call: Bound
    tools: Bound
    schema: Bound
    strange: Bound = Bound(0.25, 8)

    def doubts(self, spent: Mapping[Kind, int]) -> list[Kind]:
        """The kinds of tokens in a request that have more room than for rounding: their rules are not known whole."""
        return [kind for kind, tokens in spent.items() if kind != "text" and self._room(kind, tokens) >= _ROUNDING]

    def of(self, spent: Mapping[Kind, int]) -> int:
        """Whole tokens, for the tokens that were counted of each kind."""
        return int(sum(self._room(kind, tokens) for kind, tokens in spent.items()))

    def _room(self, kind: Kind, tokens: int) -> float:
        bound: Bound = getattr(self, kind)
        return bound.share * tokens + bound.constant

    def widest(self, other: Margin) -> Margin:
        """What holds where either does."""
        return Margin(**{one.name: getattr(self, one.name).widest(getattr(other, one.name)) for one in fields(self)})
