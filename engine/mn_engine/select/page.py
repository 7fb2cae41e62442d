"""Pages of a plain ranking, for Recall: rank order, no budget."""

from __future__ import annotations

from dataclasses import dataclass

from mn_engine.domain.cards import Kind, Stance
from mn_engine.domain.packets import Coverage, CoverageStatus, Decision, Left
from mn_engine.recall.rank import Ranking, retrievers
from mn_engine.recall.view import View
from mn_engine.select.allocate import stances_toward
from mn_engine.select.cursor import START, Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One ranked card. `rank` counts from 1."""

    ordinal: int
    rank: int
    score: int
    retrievers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Ranked cards, what is said of the rest, and where the next page begins."""

    items: tuple[Ranked, ...]
    coverage: Coverage
    next: Position | None


def recall_page(view: View, decision: Decision, ranking: Ranking, size: int, position: Position | None) -> Page:
    """`size` cards of the ranking from `position` on."""
    start = min((position or START).start, len(ranking))
    end = min(start + size, len(ranking))
    items = tuple(
        Ranked(
            ordinal=view.ordinal(int(ranking.places[at])),
            rank=at + 1,
            score=int(ranking.scores[at]),
            retrievers=retrievers(int(ranking.found_by[at])),
        )
        for at in range(start, end)
    )
    return Page(
        items=items,
        coverage=_coverage(view, decision, ranking, start, end),
        next=Position(start=end) if end < len(ranking) else None,
    )


def _coverage(view: View, decision: Decision, ranking: Ranking, start: int, end: int) -> Coverage:
    stances = stances_toward(view, decision)[ranking.places]
    kinds = view.column("kinds")[ranking.places]
    remains = len(ranking) - end
    status = CoverageStatus.DEGRADED if remains else CoverageStatus.COMPLETE
    left = ((Left.BUDGET, remains), (Left.SERVED, start))
    return Coverage(
        status=status if len(ranking) else CoverageStatus.MISSING,
        relevant=len(ranking),
        stances=tuple(
            (stance, int((stances == stance).sum()), int((stances[start:end] == stance).sum()))
            for stance in Stance
            if stance in stances
        ),
        kinds=tuple(
            (kind, int((kinds == kind).sum()), int((kinds[start:end] == kind).sum())) for kind in Kind if kind in kinds
        ),
        left=tuple((reason, count) for reason, count in left if count),
    )
