"""Allocation: required cards whole, then opposing and supporting cards into their shares, then everything by order.

Each share is offered in the one order, skipping what does not fit; what it does not use flows back (invariant 3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mn_contract.limits import PACKET_ITEMS_MAX
from mn_engine.domain.packets import Coverage, Decision, Role, Shares, packet_size
from mn_engine.recall.rank import Ranking, retrievers
from mn_engine.recall.required import demanded
from mn_engine.recall.view import View
from mn_engine.select.coverage import coverage
from mn_engine.select.cursor import START, Position
from mn_engine.select.filling import Filling, looked_at
from mn_engine.select.partition import check_required
from mn_engine.select.pool import Pool
from mn_engine.select.sizes import required_sizes
from mn_engine.select.stances import OPPOSING, SUPPORTING, stances_toward


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """An item of the packet, its body not read yet. `rank` counts from 1; 0 for a required card."""

    ordinal: int
    role: Role
    size: int
    rank: int = 0
    score: int = 0
    retrievers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What goes into the packet, what is said of the rest, and where the next page begins (None: nothing is left)."""

    items: tuple[Chosen, ...]
    coverage: Coverage
    next: Position | None


def select(
    view: View,
    decision: Decision,
    ranking: Ranking,
    required: list[tuple[int, Role]],
    *,
    budget_bytes: int,
    shares: Shares,
    cursor: Position | None,
) -> Selection:
    """The packet's items for the view's reader: required ones in recorded order, then optional ones as offered.

    Required items stand on every page. Raises NeedsPartition where they do not fit the budget (invariant 2).
    """
    places = np.asarray([view.place(ordinal) for ordinal, _ in required], np.int64)
    must = tuple(_required(view, places, required))
    check_required(view, must, budget_bytes, standing=np.isin(places, demanded(view, decision)))
    room = budget_bytes - packet_size([0, *(item.size for item in must)])  # for sizes of items, at least one
    stances = stances_toward(view, decision)
    position = cursor or START
    pool = Pool(view, ranking, required=places, stances=stances, arranged=looked_at(position))
    page = Filling(pool, room=room, slots=PACKET_ITEMS_MAX - len(must), position=position)
    page.fill(Role.OPPOSING_SHARE, limit=_share(room, shares.opposing), stances=OPPOSING)
    page.fill(Role.SUPPORTING_SHARE, limit=_share(room, shares.supporting), stances=SUPPORTING)
    page.fill(Role.RANKED, limit=room)
    taken = np.zeros(len(pool), np.bool_)
    taken[[rank for rank, _ in page.taken()]] = True
    return Selection(
        items=(*must, *_chosen(view, pool, page)),
        coverage=coverage(
            stances=pool.stances,
            kinds=pool.kinds,
            taken=taken,
            left=page.left(),
            required=len(must),
            required_opposing=int(np.isin(stances[places], OPPOSING).sum()),
        ),
        next=page.next(),
    )


def _required(
    view: View, places: np.ndarray[tuple[int], np.dtype[np.int64]], named: list[tuple[int, Role]]
) -> Iterator[Chosen]:
    sizes = required_sizes(view, places, [role for _, role in named])
    for (ordinal, role), size in zip(named, sizes.tolist(), strict=True):
        yield Chosen(ordinal=ordinal, role=role, size=size, retrievers=("required",))


def _chosen(view: View, pool: Pool, page: Filling) -> Iterator[Chosen]:
    taken = list(page.taken())
    at = np.asarray([rank for rank, _ in taken], np.int64)
    told = (
        view.column("ordinals")[pool.places[at]],
        pool.sizes[at],
        pool.ranks[at],
        pool.scores[at],
        pool.found_by[at],
    )
    for (_, role), ordinal, size, rank, score, found_by in zip(taken, *(one.tolist() for one in told), strict=True):
        yield Chosen(ordinal=ordinal, role=role, size=size, rank=rank, score=score, retrievers=retrievers(found_by))


def _share(room: int, share: float) -> int:
    """`share` of `room`, rounded down; the share is taken as the decimal that it is written as."""
    return int(Fraction(repr(share)) * room)
