"""Selecting from small records: one call, and answers told by name so that different records compare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from mn_contract.errors import NeedsPartition
from mn_engine.domain.cards import CardKey
from mn_engine.domain.packets import Coverage, Decision, Role, Shares
from mn_engine.recall.embedder import NoEmbedder
from mn_engine.recall.rank import rank
from mn_engine.recall.required import required
from mn_engine.recall.view import View
from mn_engine.select.allocate import Selection, select
from mn_engine.select.cursor import Position

NO_SHARES = Shares(opposing=0.0, supporting=0.0)
budgets = st.integers(2, 3000)
shares = st.sampled_from((Shares(), NO_SHARES, Shares(opposing=0.35, supporting=0.35), Shares(opposing=1.0)))


def selected(
    view: View, decision: Decision, *, budget: int = 100_000, shares: Shares = NO_SHARES, at: Position | None = None
) -> Selection:
    """The selection for a decision. Raises NeedsPartition."""
    return select(
        view,
        decision,
        rank(view, decision, NoEmbedder()),
        required(view, decision),
        budget_bytes=budget,
        shares=shares,
        cursor=at,
    )


def pages(view: View, decision: Decision, *budgets: int, shares: Shares = NO_SHARES) -> Iterator[Selection]:
    """The pages of a rotation with these budgets by turns, to its end; a rotation that does not end fails."""
    position: Position | None = None
    for number in range(10_000):
        page = selected(view, decision, budget=budgets[number % len(budgets)], shares=shares, at=position)
        yield page
        position = page.next
        if position is None:
            return
    raise AssertionError("the rotation does not end")


@dataclass(frozen=True)
class Told:
    """All that a selection tells, without ordinals."""

    items: tuple[tuple[CardKey, Role, int, int, int, tuple[str, ...]], ...]
    coverage: Coverage
    next: Position | None


def told(view: View, decision: Decision, *, budget: int, shares: Shares, at: Position | None = None) -> object:
    """What the caller learns: the selection, or the whole of the refusal."""
    try:
        found = selected(view, decision, budget=budget, shares=shares, at=at)
    except NeedsPartition as refused:
        return refused.message, refused.detail
    items = tuple(
        (view.key(item.ordinal), item.role, item.size, item.rank, item.score, item.retrievers) for item in found.items
    )
    return Told(items, found.coverage, found.next)
