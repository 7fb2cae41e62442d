"""Folding: of near-duplicates that say the same, one stands for all, and names those that it speaks for.

A memory is folded into one that is offered before it, that says every word of it and hardly more, of the same layer,
kind, stance and claims. Negations and numbers must be the same ones, and nothing that anything visible contradicts is
folded at all: a fold never hides a difference (invariant 3).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mn_engine.domain.cards import LAYERS, Kind
from mn_engine.domain.seen import Seen
from mn_engine.recall.analysis import terms
from mn_engine.select.cmp.table import FOLD_SIMILARITY, ONE

_NEGATION: Final = re.compile(
    r"\b(?:not?|never|none|nobody|nothing|neither|nor|without|cannot|except|unless|until|only|if)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
"""Words that turn what a sentence says, or bind it; stop words of the analysis, so that no term tells of them."""
_NUMBER: Final = re.compile(r"[\w.,:/%+-]*\d[\w.,:/%+-]*")
_KEPT: Final = frozenset({Kind.CONSTRAINT, Kind.OBLIGATION})
"""Each of these is an order of its own."""
_HAPPENING: Final = frozenset({"recency", "decisions", "open_loops"})
"""The same words at another time are another event in these layers."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What must be equal in memories that are folded, and the words of which one must have the other's."""

    alike: tuple[Any, ...]
    words: frozenset[str]


def fold(seen: Sequence[Seen], similarity: NDArray[np.int32], *, apart: frozenset[int] = frozenset()) -> dict[int, int]:
    """Place -> the place before it that speaks for it, of memories in the order in which they are offered.

    `similarity` is of every two, in 1024ths. Memories at places `apart` fold into nothing and speak for nothing.
    """
    into: dict[int, int] = {}
    said: dict[int, _Said | None] = {}

    def said_at(place: int) -> _Said | None:
        if place not in said:
            said[place] = None if place in apart else _said(seen[place])
        return said[place]

    near = np.tril(similarity >= FOLD_SIMILARITY, -1)
    for place in np.flatnonzero(near.any(axis=1)).tolist():
        own = said_at(place)
        for other in np.flatnonzero(near[place]).tolist() if own else ():
            better = None if other in into else said_at(other)
            if own and better and own.alike == better.alike and _covers(better.words, own.words):
                into[place] = other
                break
    return into


def _covers(more: frozenset[str], less: frozenset[str]) -> bool:
    return less <= more and len(less) * ONE >= len(more) * FOLD_SIMILARITY


def _said(seen: Seen) -> _Said | None:
    """What a memory says, as far as folding goes; None where it must not be folded."""
    card = seen.stored.card
    if seen.conflicts or card.kind in _KEPT or card.derived:
        return None
    text = card.text
    return _Said(
        (
            LAYERS[card.kind],
            card.kind,
            card.stance,
            frozenset(card.claims),
            card.validation,
            card.valid_from,
            card.valid_until,
            card.occurred_at if LAYERS[card.kind][0] in _HAPPENING else None,
            Counter(found.lower() for found in _NEGATION.findall(text)),
            Counter(_NUMBER.findall(text)),
        ),
        frozenset(terms(text)),
    )
