"""Pages of a plain ranking, for Recall: rank order, no budget."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mn_engine.domain.packets import Coverage, Decision, Left
from mn_engine.recall.rank import Ordered, Ranking, retrievers
from mn_engine.recall.view import View
from mn_engine.select.coverage import coverage
from mn_engine.select.cursor import START, Position
from mn_engine.select.stances import stances_toward


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One ranked card. `rank` counts from 1."""

    ordinal: int
    rank: int
    score: int
    retrievers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Ranked cards, what is said of the rest, and where the next page begins (None: nothing is left)."""

    items: tuple[Ranked, ...]
    coverage: Coverage
    next: Position | None


def recall_page(view: View, decision: Decision, ranking: Ranking, size: int, position: Position | None) -> Page:
    """`size` cards of the ranking from `position` on."""
    start = min((position or START).end, len(ranking))
    end = min(start + size, len(ranking))
    ordered = ranking.ordered(end)
    at = np.arange(len(ranking))
    return Page(
        items=tuple(_ranked(view, ordered, rank) for rank in range(start, end)),
        coverage=coverage(
            stances=stances_toward(view, decision)[ordered.places],
            kinds=view.column("kinds")[ordered.places],
            taken=(at >= start) & (at < end),
            left={Left.BUDGET: at >= end, Left.SERVED: at < start},
        ),
        next=Position(end=end) if end < len(ranking) else None,
    )


def _ranked(view: View, ordered: Ordered, rank: int) -> Ranked:
    return Ranked(
        ordinal=view.ordinal(int(ordered.places[rank])),
        rank=rank + 1,
        score=int(ordered.scores[rank]),
        retrievers=retrievers(int(ordered.found_by[rank])),
    )
