"""Allocation: required cards whole; then cards into the shares that are theirs; then everything by order.

Shares are of what required cards leave. Opposing and supporting cards are offered theirs in the one order; standing
preferences, and cards whose turn it is, may take of what those two do not use. What a share does not use flows back
(invariant 3). What stands or has its turn is served once, on the first page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mn_contract.limits import PACKET_ITEMS_MAX
from mn_engine.domain.packets import Budget, Coverage, Decision, Left, Quota, Role, Shares, packet_size
from mn_engine.recall.rank import Ranking, retrievers, standing
from mn_engine.recall.required import demanded
from mn_engine.recall.view import View
from mn_engine.select.coverage import coverage
from mn_engine.select.cursor import START, Position
from mn_engine.select.filling import Filling, looked_at
from mn_engine.select.partition import check_required
from mn_engine.select.pool import Pool
from mn_engine.select.room import TOKENS_ANY, Room
from mn_engine.select.sizes import required_sizes
from mn_engine.select.stances import OPPOSING, SUPPORTING, stances_toward

_STANDING_SHARE: Final = 0.5
_ROTATED_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """An item of the packet, its body not read yet. `rank` counts from 1; 0 for a required card."""

    ordinal: int
    role: Role
    size: int
    tokens: int
    rank: int = 0
    score: int = 0
    retrievers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What goes into the packet, what is said of the rest, and where the next page begins (None: nothing is left)."""

    items: tuple[Chosen, ...]
    coverage: Coverage
    next: Position | None
    next_rotation: int
    quotas: tuple[Quota, ...]
    pool: Pool = field(repr=False, compare=False)
    left: Mapping[Left, NDArray[np.bool_]] = field(repr=False, compare=False)
    """The pool's cards that are not in the packet, by reason."""


def select(
    view: View,
    decision: Decision,
    ranking: Ranking,
    required: list[tuple[int, Role]],
    *,
    budget: Budget,
    shares: Shares,
    cursor: Position | None,
    rotation: int | None,
    preferred: Sequence[int] = (),
) -> Selection:
    """The packet's items for the view's reader: required ones in recorded order, then optional ones as offered.

    Required items stand on every page. `rotation` is the number, among the cards that the reader may read, from which
    on they have their turn. Cards at `preferred` places are offered before others that rank near them. Raises
    NeedsPartition where required items do not fit the budget (invariant 2).
    """
    places = np.asarray([view.place(ordinal) for ordinal, _ in required], np.int64)
    must = tuple(_required(view, places, required))
    check_required(view, must, budget, standing=np.isin(places, demanded(view, decision)))
    room = Room(budget.bytes, TOKENS_ANY if budget.tokens is None else budget.tokens).less(
        packet_size([0, *(item.size for item in must)]),  # for sizes of items, at least one
        sum(item.tokens for item in must),
    )
    position = cursor or START
    stances = stances_toward(view, decision)
    pool = Pool(
        view,
        ranking,
        required=places,
        stances=stances,
        arranged=looked_at(position) if rotation is None else len(ranking),
        preferred=preferred,
    )
    standing_ranks = pool.ranks_of(standing(view, decision)) if cursor is None else np.zeros(0, np.int64)
    page = Filling(pool, room=room, slots=PACKET_ITEMS_MAX - len(must), position=position)
    turn = rotation if cursor is None else None
    limits = _limits(room, shares, rotated=turn is not None)
    page.fill(Role.OPPOSING_SHARE, limit=limits[Role.OPPOSING_SHARE], stances=OPPOSING)
    page.fill(Role.SUPPORTING_SHARE, limit=limits[Role.SUPPORTING_SHARE], stances=SUPPORTING)
    page.fill_ahead(Role.STANDING, standing_ranks, limit=limits[Role.STANDING])
    kept = limits.get(Role.ROTATED, Room(0, 0))
    page.fill(Role.RANKED, limit=page.left_room().less(kept.bytes, kept.tokens))
    if not preferred:  # else the order is not by use, and use must not overturn it
        page.exchange(Role.RANKED, keeping=kept)
    next_rotation = 0 if turn is None else _rotate(view, pool, page, turn, kept)
    page.fill(Role.RANKED, limit=room)
    taken = np.zeros(len(pool), np.bool_)
    taken[[rank for rank, _ in page.taken()]] = True
    left = page.left()
    return Selection(
        items=(*must, *_chosen(view, pool, page)),
        coverage=coverage(
            stances=pool.stances,
            kinds=pool.kinds,
            taken=taken,
            left=left,
            required=len(must),
            required_opposing=int(np.isin(stances[places], OPPOSING).sum()),
        ),
        next=page.next(),
        next_rotation=next_rotation,
        quotas=tuple(_quota(role, limit, page.used.get(role, Room(0, 0))) for role, limit in limits.items()),
        pool=pool,
        left=left,
    )


def _limits(room: Room, shares: Shares, *, rotated: bool) -> dict[Role, Room]:
    """The room that each role with a share is first offered."""
    limits = {
        Role.OPPOSING_SHARE: room.share(shares.opposing),
        Role.SUPPORTING_SHARE: room.share(shares.supporting),
        Role.STANDING: room.share(_STANDING_SHARE),
    }
    return {**limits, Role.ROTATED: room.share(_ROTATED_SHARE)} if rotated else limits


def _quota(role: Role, limit: Room, used: Room) -> Quota:
    if limit.unmetered:
        return Quota(role=role, bytes=limit.bytes, used_bytes=used.bytes)
    return Quota(role=role, bytes=limit.bytes, used_bytes=used.bytes, tokens=limit.tokens, used_tokens=used.tokens)


def _rotate(view: View, pool: Pool, page: Filling, rotation: int, limit: Room) -> int:
    """Takes cards that rank would not reach, in recorded order from `rotation` on, round and round, each that fits
    `limit` in its turn. Where the next turn begins: at the first whose turn did not come."""
    waiting = page.untaken()
    waiting = waiting[limit.holding(pool.sizes[waiting], pool.tokens[waiting])]
    numbers = (np.cumsum(view.readable) - 1)[pool.places[waiting]]  # hidden cards leave no gaps (invariant 7)
    turns = np.lexsort((numbers, numbers < rotation))
    had = page.fill_in_turn(Role.ROTATED, waiting[turns], limit=limit)
    if not had:
        return rotation
    return int(numbers[turns[had]] if had < len(turns) else numbers[turns[-1]] + 1)


def _required(
    view: View, places: np.ndarray[tuple[int], np.dtype[np.int64]], named: list[tuple[int, Role]]
) -> Iterator[Chosen]:
    sizes = required_sizes(view, places, [role for _, role in named])
    tokens = view.tokens_of(places, sizes)
    for (ordinal, role), size, taken in zip(named, sizes.tolist(), tokens.tolist(), strict=True):
        yield Chosen(ordinal=ordinal, role=role, size=size, tokens=taken, retrievers=("required",))


def _chosen(view: View, pool: Pool, page: Filling) -> Iterator[Chosen]:
    taken = list(page.taken())
    at = np.asarray([rank for rank, _ in taken], np.int64)
    told = (
        view.column("ordinals")[pool.places[at]],
        pool.sizes[at],
        pool.tokens[at],
        pool.ranks[at],
        pool.scores[at],
        pool.found_by[at],
    )
    for (_, role), ordinal, size, tokens, rank, score, found_by in zip(
        taken, *(one.tolist() for one in told), strict=True
    ):
        yield Chosen(
            ordinal=ordinal,
            role=role,
            size=size,
            tokens=tokens,
            rank=rank,
            score=score,
            retrievers=retrievers(found_by),
        )
