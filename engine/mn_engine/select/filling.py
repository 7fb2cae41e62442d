"""Filling one page: which cards of the pool are still to be served, which of them this page takes, and what is left
for the next (invariant 8).

Law: a page considers the best CANDIDATES_MAX of the unserved cards that fit into it. What it does not take is offered
to a later page, first. While something is left that fits, a page serves something, so following the cursor ends. Cards
may be taken ahead of the order, from anywhere in the pool; later pages pass them over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mn_contract.errors import InvalidInput
from mn_contract.limits import CANDIDATES_MAX, DIVERSITY_WINDOW
from mn_engine.domain.cards import Stance
from mn_engine.domain.packets import Left, Role
from mn_engine.select.cursor import SKIPPED_MAX, Position
from mn_engine.select.pool import Pool
from mn_engine.select.room import Room

_EXCHANGES_MAX: Final = 64
"""The most useful cards that were passed over, which others may give way to."""


@lru_cache
def _among(stances: tuple[Stance, ...]) -> NDArray[np.bool_]:
    """By number of a stance, whether it is one of these."""
    return np.isin(np.arange(max(Stance) + 1), stances)


class Filling:
    """A page being filled: at most `room` and `slots` items of `pool`, continuing at `position`."""

    def __init__(self, pool: Pool, *, room: Room, slots: int, position: Position) -> None:
        self._pool = pool
        self._room = room
        self._slots = slots
        self._room_ever = room.union(position.room)
        self._position = position
        horizon = self._look(position)
        if horizon is None:  # so many do not fit that those which do begin behind what is in order
            pool.arrange(len(pool))
            horizon = self._look(position)
            assert horizon is not None
        self._horizon = horizon
        """Cards from here on are not considered by this page, but for those that it takes ahead."""
        self._taken: dict[int, Role] = {}
        self._ahead: set[int] = set()
        self.used: dict[Role, Room] = {}
        """What each role's cards have taken."""

    def fill(self, role: Role, *, limit: Room, stances: tuple[Stance, ...] = tuple(Stance)) -> None:
        """Takes cards of these stances for `role`, in order, while they fit into `limit` and the room that is left."""
        pool, near = self._pool, slice(self._horizon)
        wanted = self._fits[near] & _among(stances)[pool.stances[near]]
        wanted[[rank for rank in self._taken if rank < self._horizon]] = False
        left = limit.within(self.left_room())
        for window, smallest in _smallest(pool, wanted):
            if left.holds(*smallest) and len(self._taken) < self._slots:
                left = self._take(role, self._candidates(window, wanted, left), left)

    def fill_ahead(self, role: Role, ranks: NDArray[np.int64], *, limit: Room) -> None:
        """Takes cards for `role` in the order given, while they fit into `limit` and the room that is left. The pool
        must have them in order."""
        before = set(self._taken)
        waiting = [rank for rank in ranks[self._fits[ranks]].tolist() if rank not in before]
        self._take(role, np.asarray(waiting, np.int64), limit.within(self.left_room()))
        self._ahead |= self._taken.keys() - before

    def fill_in_turn(self, role: Role, ranks: NDArray[np.int64], *, limit: Room) -> int:
        """As `fill_ahead`, but it stops at the first card that does not fit any more, so that none is passed over. How
        many it took."""
        left = limit.within(self.left_room())
        sizes, tokens = np.cumsum(self._pool.sizes[ranks]), np.cumsum(self._pool.tokens[ranks])
        count = min(int(np.count_nonzero(left.holding(sizes, tokens))), self._slots - len(self._taken))
        self.fill_ahead(role, ranks[:count], limit=limit)
        return count

    def exchange(self, role: Role, *, keeping: Room) -> None:
        """Lets the least useful cards of `role` give way to one that was passed over and is worth more than they are,
        in all the room but `keeping`.

        An order by utility per byte prefers small cards, also where the last of them leave room unused. So the packet's
        utility only grows, near to the most that any choice has.
        """
        held = np.asarray([rank for rank, taken_for in self._taken.items() if taken_for is role], np.int64)
        passed = np.flatnonzero(self._waiting()[: self._horizon])
        passed = passed[np.isin(passed // DIVERSITY_WINDOW, held // DIVERSITY_WINDOW)]
        if not len(passed):
            return
        passed = passed[np.argsort(-self._pool.order.utilities(passed), kind="stable")][:_EXCHANGES_MAX]
        at = 0
        while at < len(passed):
            held = held[np.lexsort((-held, self._pool.order.utilities(held)))]
            room = self.left_room().less(keeping.bytes, keeping.tokens)
            ends = self._leaving(passed[at:], held, room)
            if not ends.any():
                return
            first = int(np.flatnonzero(ends)[0])
            at += first
            leaving = self._needed(int(passed[at]), held[: ends[first]], room)
            for rank in leaving:
                del self._taken[rank]
            self.used[role] = self.used[role].less(*self._cost(leaving))
            self._take(role, passed[at : at + 1], self.left_room())
            held = np.append(held[~np.isin(held, leaving)], passed[at])
            at += 1

    def _leaving(self, passed: NDArray[np.int64], held: NDArray[np.int64], room: Room) -> NDArray[np.int64]:
        """How many of the cards `held`, which are in order, each of the `passed` needs the room of beside `room`; 0
        where they are worth as much."""
        pool = self._pool
        ends = np.zeros(len(passed), np.int64)
        for column, free in ((pool.sizes, room.bytes), (pool.tokens, room.tokens)):
            needed = column[passed] - free
            ends = np.maximum(ends, np.where(needed > 0, 1 + np.searchsorted(np.cumsum(column[held]), needed), 0))
        lost = np.append(np.cumsum(pool.order.utilities(held)), np.iinfo(np.int64).max)
        worthwhile = (ends > 0) & (lost[np.minimum(ends, len(lost)) - 1] < pool.order.utilities(passed))
        return np.where(worthwhile, ends, 0)

    def _needed(self, rank: int, leaving: NDArray[np.int64], room: Room) -> list[int]:
        """Those of the cards `leaving` whose room a card needs: the most useful stay where they can."""
        needed: list[int] = leaving.tolist()
        room = room.more(*self._cost(needed))
        for one in needed[::-1]:
            without = room.less(*self._cost([one]))
            if without.holds(*self._cost([rank])):
                needed.remove(one)
                room = without
        return needed

    def _cost(self, ranks: list[int]) -> tuple[int, int]:
        return int(self._pool.sizes[ranks].sum()), int(self._pool.tokens[ranks].sum())

    def _take(self, role: Role, ranks: NDArray[np.int64], left: Room) -> Room:
        """Takes what fits of these cards; what is left of the room."""
        used = self.used.get(role, Room(0, 0))
        costs = (self._pool.sizes[ranks].tolist(), self._pool.tokens[ranks].tolist())
        for rank, size, tokens in zip(ranks.tolist(), *costs, strict=True):
            if left.holds(size, tokens) and len(self._taken) < self._slots:
                self._taken[rank] = role
                used = Room(used.bytes + size, used.tokens + tokens)
                left = left.less(size, tokens)
        self.used[role] = used
        return left

    def left_room(self) -> Room:
        """What the page has left for any card."""
        left = self._room
        for used in self.used.values():
            left = left.less(used.bytes, used.tokens)
        return left

    def _candidates(self, window: int, wanted: NDArray[np.bool_], left: Room) -> NDArray[np.int64]:
        """The ranks in a window that are wanted and may fit, as they are offered; one alone needs no order."""
        start = window * DIVERSITY_WINDOW
        part = slice(start, min(start + DIVERSITY_WINDOW, len(wanted)))
        fitting = wanted[part] & left.holding(self._pool.sizes[part], self._pool.tokens[part])
        if np.count_nonzero(fitting) == 1:
            return start + np.flatnonzero(fitting)
        ranks = np.asarray(self._pool.order.window(window), np.int64)
        ranks = ranks[ranks - start < len(fitting)]
        found: NDArray[np.int64] = ranks[fitting[ranks - start]]
        return found

    def taken(self) -> Iterator[tuple[int, Role]]:
        """(rank, role) of what the page holds, in the order in which cards are offered, whatever their role."""
        for window, taken in groupby(sorted(self._taken), key=lambda rank: rank // DIVERSITY_WINDOW):
            ranks = set(taken)
            for rank in self._pool.order.window(window) if len(ranks) > 1 else ranks:
                if rank in ranks:
                    yield rank, self._taken[rank]

    def untaken(self) -> NDArray[np.int64]:
        """Ranks of cards that would fit an empty page, that no page has served and that this one has not taken."""
        return np.flatnonzero(self._waiting())

    def left(self) -> Mapping[Left, NDArray[np.bool_]]:
        """The cards that are not in the page, by reason: every card of the pool is taken or left, once."""
        waiting = self._waiting()
        beyond = np.ones(len(self._pool), np.bool_)
        beyond[: self._horizon] = False
        return {
            Left.BUDGET: waiting & ~beyond,
            Left.OVERSIZE: self._unserved & ~self._fits,
            Left.SERVED: ~self._unserved,
            Left.CAP: waiting & beyond,
        }

    def next(self) -> Position | None:
        """Where the next page continues; None where nothing is left that fits a page of the sizes so far.

        Raises InvalidInput where pages of very different budgets have passed over more cards than a cursor can hold,
        and where this page could take nothing of what fits an earlier one.
        """
        pool = self._pool
        left = self._unserved & self._room_ever.holding(pool.sizes, pool.tokens)
        left[list(self._taken)] = False
        if not left.any() or self._slots == 0:
            return None
        if not self._taken:
            raise InvalidInput(
                "no card that is left fits this budget, and some fit that of an earlier page; go on with as much",
                field="budget_bytes",
            )
        in_order = self._taken.keys() - self._ahead
        last = max(in_order) // DIVERSITY_WINDOW + 1 if in_order else 0
        end = max(min(self._position.end, len(pool)), min(last * DIVERSITY_WINDOW, len(pool)))
        skipped = np.flatnonzero(left[:end]).tolist()
        if len(skipped) > SKIPPED_MAX:
            raise InvalidInput(
                "the pages' budgets differ so much that a cursor cannot tell what was passed over; keep to one budget, "
                "or begin without a cursor",
                field="budget_bytes",
            )
        ahead = sorted(rank for rank in {*self._position.ahead, *self._ahead} if rank >= end)
        return Position(end=end, skipped=tuple(skipped), ahead=tuple(ahead), room=self._room_ever)

    def _look(self, position: Position) -> int | None:
        """Sees what is unserved and what fits, and answers the horizon; None where it is behind what is in order."""
        pool = self._pool
        self._unserved = _unserved(pool, position)
        self._fits = self._unserved & self._room.holding(pool.sizes, pool.tokens)
        return _horizon(self._fits, pool.arranged)

    def _waiting(self) -> NDArray[np.bool_]:
        waiting = self._fits.copy()
        waiting[list(self._taken)] = False
        return waiting


def looked_at(position: Position) -> int:
    """How many of a pool's cards a page looks at in order, unless many do not fit: those served, those considered, and
    the window in which it sees that there are more. What was served ahead is known by its place in the order."""
    return max(position.end + CANDIDATES_MAX + DIVERSITY_WINDOW, *(rank + 1 for rank in position.ahead), 0)


def _unserved(pool: Pool, position: Position) -> NDArray[np.bool_]:
    unserved = np.ones(len(pool), np.bool_)
    past = slice(position.end)
    unserved[past] = ~position.room.holding(pool.sizes[past], pool.tokens[past])
    unserved[[rank for rank in position.skipped if rank < len(pool)]] = True
    unserved[[rank for rank in position.ahead if rank < len(pool)]] = False
    return unserved


def _horizon(fits: NDArray[np.bool_], arranged: int) -> int | None:
    """The end of the last whole window up to which no more than CANDIDATES_MAX cards fit; None where it may be beyond
    the first `arranged`."""
    if not len(fits):
        return 0
    starts = np.arange(0, arranged, DIVERSITY_WINDOW)
    counts = np.cumsum(np.add.reduceat(fits[:arranged].astype(np.int64), starts))
    windows = int(np.searchsorted(counts, CANDIDATES_MAX, "right"))
    if windows == len(counts) and arranged < len(fits):
        return None
    return min(windows * DIVERSITY_WINDOW, len(fits))


_NEVER: Final = np.iinfo(np.int64).max


def _smallest(pool: Pool, wanted: NDArray[np.bool_]) -> list[tuple[int, tuple[int, int]]]:
    """(window, the fewest bytes and the fewest tokens of its wanted cards) of each window that has some, ascending."""
    if not wanted.any():
        return []
    starts = np.arange(0, len(wanted), DIVERSITY_WINDOW)
    sizes, tokens = (
        np.minimum.reduceat(np.where(wanted, column[: len(wanted)], _NEVER), starts).tolist()
        for column in (pool.sizes, pool.tokens)
    )
    return [
        (window, smallest) for window, smallest in enumerate(zip(sizes, tokens, strict=True)) if smallest[0] != _NEVER
    ]
