"""Allocation: required cards whole, then opposing and supporting cards into their shares, then everything by order.

Each share is offered in the one order, skipping what does not fit; what it does not use flows back (invariant 3). A
page of a cursor offers what no earlier page served, and always serves something while something is left that fits
(invariant 8).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mn_contract.limits import CANDIDATES_MAX, DIVERSITY_WINDOW, PACKET_ITEMS_MAX
from mn_engine.domain.cards import Kind, Stance
from mn_engine.domain.packets import Coverage, CoverageStatus, Decision, Left, Role, Shares, packet_size
from mn_engine.recall.analysis import label_hash
from mn_engine.recall.index import CLAIM
from mn_engine.recall.rank import Ranking, retrievers
from mn_engine.recall.view import View
from mn_engine.select.cursor import START, Position
from mn_engine.select.order import Order
from mn_engine.select.partition import check_required
from mn_engine.select.sizes import item_sizes, required_size

OPPOSING = (Stance.OPPOSES, Stance.MIXED)
SUPPORTING = (Stance.SUPPORTS, Stance.MIXED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """An item of the packet, its body not read yet. `rank` counts from 1; 0 for a required card that was not ranked."""

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
    """The packet's items for the view's reader. Raises NeedsPartition where what is required does not fit."""
    must = [
        Chosen(
            ordinal=ordinal, role=role, size=required_size(view, view.place(ordinal), role), retrievers=("required",)
        )
        for ordinal, role in required
    ]
    check_required(view, must, budget_bytes)
    # An empty packet takes a byte more than an item's separator accounts for; see packet_size.
    room = budget_bytes - packet_size([item.size for item in must]) if must else budget_bytes - 1
    pool = _Pool(view, decision, ranking, [view.place(item.ordinal) for item in must])
    page = _Page(pool, room, PACKET_ITEMS_MAX - len(must), cursor or START)
    page.fill(OPPOSING, _share(room, shares.opposing), Role.OPPOSING_SHARE)
    page.fill(SUPPORTING, _share(room, shares.supporting), Role.SUPPORTING_SHARE)
    page.fill(None, room, Role.RANKED)
    return Selection(
        items=(*must, *page.chosen()),
        coverage=_coverage(view, pool, page, [view.place(item.ordinal) for item in must], room),
        next=page.next(),
    )


class _Pool:
    """Ranked optional cards, with all that choosing among them takes."""

    def __init__(self, view: View, decision: Decision, ranking: Ranking, required: list[int]) -> None:
        self.view = view
        kept = ~np.isin(ranking.places, np.asarray(required, np.uint32)) if required else slice(None)
        self.ranks = np.arange(1, len(ranking) + 1)[kept]
        self.places, self.scores = ranking.places[kept], ranking.scores[kept]
        self.found_by = ranking.found_by[kept]
        self.sizes = item_sizes(view, self.places)
        self.stances_of = stances_toward(view, decision)
        self.stances = self.stances_of[self.places]
        self.order = Order(view, self.places, self.scores, self.sizes)

    def __len__(self) -> int:
        return len(self.places)


class _Page:
    """One page being filled: `room` bytes, `slots` items, offering what lies from `position` on and was not served."""

    def __init__(self, pool: _Pool, room: int, slots: int, position: Position) -> None:
        self._pool = pool
        self._room = room
        self._slots = slots
        self._start = min(position.start, len(pool))
        windows = self._start // DIVERSITY_WINDOW * DIVERSITY_WINDOW
        self.end = min(windows + CANDIDATES_MAX, len(pool))
        self._used = 0
        self._taken: dict[int, Role] = {}
        """Position in the order -> role."""
        self._served = {served for served in position.served if self._start < served < len(pool)}
        self.seen_before = np.zeros(len(pool), np.bool_)
        """Ranked cards that earlier pages served, or passed because they were too large."""
        self.seen_before[pool.order.head(self._start)] = True
        self.seen_before[[pool.order.rank_at(served) for served in self._served]] = True

    def fill(self, stances: tuple[Stance, ...] | None, limit: int, role: Role) -> None:
        """Takes cards of these stances (None: any) in order while they fit into `limit` and the room that is left."""
        pool = self._pool
        wanted = ~self.seen_before
        if stances is not None:
            wanted &= np.isin(pool.stances, stances)
        if not wanted.any():
            return
        smallest = int(pool.sizes[wanted].min())
        left = min(limit, self._room - self._used)
        position = self._start
        while position < self.end and left >= smallest and len(self._taken) < self._slots:
            rank = pool.order.rank_at(position)
            size = int(pool.sizes[rank])
            if wanted[rank] and position not in self._taken and size <= left:
                self._taken[position] = role
                self._used += size
                left -= size
            position += 1

    def ranks(self) -> NDArray[np.int64]:
        """The ranked cards that were taken."""
        return np.asarray([self._pool.order.rank_at(position) for position in sorted(self._taken)], np.int64)

    def chosen(self) -> Iterator[Chosen]:
        """The items, in order."""
        pool = self._pool
        for position in sorted(self._taken):
            rank = pool.order.rank_at(position)
            yield Chosen(
                ordinal=pool.view.ordinal(int(pool.places[rank])),
                role=self._taken[position],
                size=int(pool.sizes[rank]),
                rank=int(pool.ranks[rank]),
                score=int(pool.scores[rank]),
                retrievers=retrievers(int(pool.found_by[rank])),
            )

    def waiting(self) -> NDArray[np.bool_]:
        """Ranked cards that no page has served yet and that would fit into a page of this size."""
        waiting = ~self.seen_before & (self._pool.sizes <= self._room)
        waiting[self.ranks()] = False
        return waiting

    def next(self) -> Position | None:
        """Where the next page begins."""
        waiting = self.waiting()
        if not waiting.any() or not self._slots:
            return None
        start = self._start
        while not waiting[self._pool.order.rank_at(start)]:
            start += 1
        later = {position for position in (*self._served, *self._taken) if position > start}
        return Position(start=start, served=tuple(sorted(later)))


def stances_toward(view: View, decision: Decision) -> NDArray[np.uint8]:
    """What each card says toward the decision: toward its named claims where the card names one, else in general."""
    stances = view.column("stances").copy()
    toward = np.zeros(view.count, np.uint8)
    for hashed in sorted({label_hash(claim) for claim in decision.claims}):
        places, told = view.with_label(hashed, CLAIM)
        before = toward[places]
        both = (before != told) & (before != 0) & (before != Stance.NEUTRAL) & (told != Stance.NEUTRAL)
        kept = np.where((before == 0) | (before == Stance.NEUTRAL), told, before)
        toward[places] = np.where(both, np.uint8(Stance.MIXED), kept)
    stances[toward != 0] = toward[toward != 0]
    return stances


def _share(room: int, share: float) -> int:
    """`share` of `room`, rounded down; the share is taken as the decimal that it is written as."""
    return int(Fraction(repr(share)) * room)


def _coverage(view: View, pool: _Pool, page: _Page, required: list[int], room: int) -> Coverage:
    taken = np.zeros(len(pool), np.bool_)
    taken[page.ranks()] = True
    left = ~taken
    oversize = left & (pool.sizes > room)
    served = left & ~oversize & page.seen_before
    cap = left & ~oversize & ~served & (np.arange(len(pool)) >= page.end)
    budget = left & ~oversize & ~served & ~cap
    counts = {Left.BUDGET: budget, Left.OVERSIZE: oversize, Left.SERVED: served, Left.CAP: cap}
    missing = not len(pool) and not required
    degraded = bool((budget | cap | oversize).any())
    status = CoverageStatus.MISSING if missing else CoverageStatus.DEGRADED if degraded else CoverageStatus.COMPLETE
    kinds = view.column("kinds")[pool.places]
    return Coverage(
        status=status,
        relevant=len(pool),
        stances=tuple((stance, *_counts(pool.stances == stance, taken)) for stance in Stance if stance in pool.stances),
        kinds=tuple((kind, *_counts(kinds == kind, taken)) for kind in Kind if kind in kinds),
        left=tuple((reason, int(mask.sum())) for reason, mask in counts.items() if mask.any()),
        required=len(required),
        required_opposing=sum(int(pool.stances_of[place]) in OPPOSING for place in required),
    )


def _counts(mask: NDArray[np.bool_], taken: NDArray[np.bool_]) -> tuple[int, int]:
    return int(mask.sum()), int((mask & taken).sum())
