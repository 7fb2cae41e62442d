"""Selecting from small records: one call, and answers told by name so that different records compare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from mn_contract.errors import InvalidInput, NeedsPartition
from mn_engine.domain.cards import CardKey
from mn_engine.domain.packets import Budget, Coverage, Decision, Role, Shares
from mn_engine.recall.embedder import NoEmbedder
from mn_engine.recall.rank import rank
from mn_engine.recall.required import required
from mn_engine.recall.view import View
from mn_engine.select.allocate import Selection, select
from mn_engine.select.cursor import Position

NO_SHARES = Shares(opposing=0.0, supporting=0.0)
budgets = st.builds(Budget, bytes=st.integers(2, 3000), tokens=st.one_of(st.none(), st.integers(1, 900)))
rotations = st.sampled_from((None, None, 0, 1, 3, 7, 1 << 40))
shares = st.sampled_from((Shares(), NO_SHARES, Shares(opposing=0.35, supporting=0.35), Shares(opposing=1.0)))


def selected(
    view: View,
    decision: Decision,
    *,
    budget: Budget | int = 100_000,
    shares: Shares = NO_SHARES,
    at: Position | None = None,
    rotation: int | None = None,
) -> Selection:
    """The selection for a decision; a plain number is a budget of bytes. Raises NeedsPartition."""
    return select(
        view,
        decision,
        rank(view, decision, NoEmbedder()),
        required(view, decision),
        budget=budget if isinstance(budget, Budget) else Budget(bytes=budget),
        shares=shares,
        cursor=at,
        rotation=rotation,
    )


def pages(
    view: View,
    decision: Decision,
    *budgets: Budget | int,
    shares: Shares = NO_SHARES,
    rotation: int | None = None,
) -> Iterator[Selection]:
    """The pages of a rotation with these budgets by turns, to its end; a rotation that does not end fails.

    A budget that is refused, because nothing that is left fits it, is passed over."""
    position: Position | None = None
    for number in range(10_000):
        budget = budgets[number % len(budgets)]
        try:
            page = selected(view, decision, budget=budget, shares=shares, at=position, rotation=rotation)
        except InvalidInput:
            continue
        yield page
        position = page.next
        if position is None:
            return
    raise AssertionError("the rotation does not end")


@dataclass(frozen=True)
class Told:
    """All that a selection tells, without ordinals."""

    items: tuple[tuple[CardKey, Role, int, int, int, int, tuple[str, ...]], ...]
    coverage: Coverage
    next: Position | None


def told(view: View, decision: Decision, *, budget: Budget | int, shares: Shares, at: Position | None = None) -> object:
    """What the caller learns: the selection, or the whole of the refusal."""
    try:
        found = selected(view, decision, budget=budget, shares=shares, at=at)
    except NeedsPartition as refused:
        return refused.message, refused.detail
    items = tuple(
        (view.key(item.ordinal), item.role, item.size, item.tokens, item.rank, item.score, item.retrievers)
        for item in found.items
    )
    return Told(items, found.coverage, found.next)
