"""Pages of recall: the ranking in order, each card once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mn_engine.domain.cards import Card
from mn_engine.domain.packets import CoverageStatus, Decision, Left
from mn_engine.recall.embedder import NoEmbedder
from mn_engine.recall.rank import rank
from mn_engine.select.cursor import Position
from mn_engine.select.page import Page, recall_page
from tests.unit.recall.corpus import SAMPLE, batches_of_cards, card, decisions, recorded


@SAMPLE
@given(batches_of_cards(), decisions, st.integers(1, 5))
def test_pages_are_the_ranking_cut_up(batches: list[list[Card]], decision: Decision, size: int) -> None:
    """Invariant 8, for Recall."""
    view = recorded(batches).view()
    ranking = rank(view, decision, NoEmbedder())
    answers: list[Page] = []
    position: Position | None = None
    while not answers or position is not None:
        answers.append(recall_page(view, decision, ranking, size, position))
        position = answers[-1].next
    items = [item for page in answers for item in page.items]
    assert [item.ordinal for item in items] == [view.ordinal(int(place)) for place in ranking.places]
    assert [item.rank for item in items] == list(range(1, len(ranking) + 1))
    assert [item.score for item in items] == ranking.scores.tolist()
    assert all(len(page.items) == size for page in answers[:-1])
    for page in answers:
        assert page.coverage.relevant == len(ranking) == len(page.items) + sum(count for _, count in page.coverage.left)


def test_coverage_tells_what_remains() -> None:
    view = recorded([[card(f"c{at}", f"parser x{at}") for at in range(5)]]).view()
    decision = Decision(focus="parser")
    ranking = rank(view, decision, NoEmbedder())
    first = recall_page(view, decision, ranking, 2, None)
    assert (first.coverage.status, first.coverage.left) == (CoverageStatus.DEGRADED, ((Left.BUDGET, 3),))
    last = recall_page(view, decision, ranking, 3, first.next)
    assert (last.coverage.status, last.coverage.left) == (CoverageStatus.COMPLETE, ((Left.SERVED, 2),))
    nothing = recall_page(view, Decision(focus="zebra"), rank(view, Decision(focus="zebra"), NoEmbedder()), 2, None)
    assert (nothing.coverage.status, nothing.next) == (CoverageStatus.MISSING, None)
