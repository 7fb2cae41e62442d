"""Folding: of memories that say the same in the same words, one stands for all, and names those that it speaks for.

The same words are the same pieces in the same order, to the letter: words, numbers, signs, line breaks. "the", the
capital that a word begins with, and a full stop at the end may differ, because they say nothing; "few" and "a few" say
two things, so do "us" and "US". Layer, kind, stance, claims, entities and validity must be the same, and nothing that
anything visible contradicts is folded at all: a fold never hides a difference (invariant 3).

Nobody speaks for another: memories are folded only into one of the same principal's that is trusted as much and as new.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from operator import ge
from typing import Any, Final

from mn_contract.facts import same
from mn_engine.domain.cards import LAYERS, Card, Kind
from mn_engine.domain.seen import Seen
from mn_engine.select.cmp.utility import time_of, trust_of

_PIECE: Final = re.compile(r"\S+|\n\s*")
"""What stands between spaces; and a line break, with what indents the line after it."""
_SAYS_NOTHING: Final = frozenset({"the"})
_KEPT: Final = frozenset({Kind.CONSTRAINT, Kind.OBLIGATION})
"""Each of these is an order of its own."""
_HAPPENING: Final = frozenset({"recency", "decisions", "open_loops"})
"""The same words at another time are another event in these layers."""


def fold(seen: Sequence[Seen], *, apart: frozenset[int] = frozenset()) -> dict[int, int]:
    """Place -> the place that speaks for it, which itself is in none. Memories at places `apart` fold into nothing and
    speak for nothing."""
    into: dict[int, int] = {}
    for places in _alike(seen, apart):
        standing = {place: _standing(seen[place].stored.card) for place in places}
        speakers: list[int] = []
        for place in sorted(places, key=standing.__getitem__, reverse=True):  # whoever could speak for another is first
            better = (one for one in speakers if all(map(ge, standing[one], standing[place])))
            speaker = next(better, None)
            if speaker is None:
                speakers.append(place)
            else:
                into[place] = speaker
    return into


def _alike(seen: Sequence[Seen], apart: frozenset[int]) -> Iterator[list[int]]:
    """Places of memories that say the same; looked at to the letter where their words are the same in lower case."""
    about: dict[tuple[Any, ...], list[int]] = {}
    for place, one in enumerate(seen):
        said = None if place in apart else _said(one)
        if said is not None:
            about.setdefault(said, []).append(place)
    for places in about.values():
        if len(places) > 1:
            alike: dict[tuple[str, ...], list[int]] = {}
            for place in places:
                alike.setdefault(tuple(_pieces(seen[place].stored.card.text)), []).append(place)
            yield from alike.values()


def _standing(card: Card) -> tuple[float, ...]:
    """What whoever speaks for a memory has at least as much of: trust, as it is reckoned and as it is shown (-1: nobody
    said), and time."""
    shown = card.trust if card.confidence is None else card.confidence
    return trust_of(card), -1.0 if shown is None else shown, time_of(card)


def _said(seen: Seen) -> tuple[Any, ...] | None:
    """What must be equal in memories that are folded, their text roughly; None where one must not be folded."""
    card = seen.stored.card
    if seen.conflicts or card.kind in _KEPT or card.derived:
        return None
    return (
        card.owner,
        LAYERS[card.kind],
        card.kind,
        card.stance,
        frozenset(card.claims),
        frozenset(map(same, card.entities)),
        card.fact,
        card.validation,
        card.valid_from,
        card.valid_until,
        card.occurred_at if LAYERS[card.kind][0] in _HAPPENING else None,
        tuple([word for word in _normal(card.text).lower().split() if word not in _SAYS_NOTHING]),
    )


def _pieces(text: str) -> list[str]:
    """The pieces of a text that say something."""
    pieces = _PIECE.findall(_normal(text))
    return [piece for piece in map(_lowered, pieces) if piece not in _SAYS_NOTHING]


def _normal(text: str) -> str:
    """A text without what stands around it, and its full stop."""
    return unicodedata.normalize("NFC", text).strip().removesuffix(".")


def _lowered(piece: str) -> str:
    """A word without the capital that it begins with; a name of one letter, a number, capitals as they stand."""
    return piece[0].lower() + piece[1:] if piece[1:].islower() else piece
