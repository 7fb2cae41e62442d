"""Filling one page: which cards of the pool are still to be served, which of them this page takes, and what is left
for the next (invariant 8).

Law: a page considers the best CANDIDATES_MAX of the unserved cards that fit into it. What it does not take is offered
to a later page, first. While something is left that fits, a page serves something, so following the cursor ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mn_contract.errors import InvalidInput
from mn_contract.limits import CANDIDATES_MAX, DIVERSITY_WINDOW
from mn_engine.domain.cards import Stance
from mn_engine.domain.packets import Left, Role
from mn_engine.select.cursor import SKIPPED_MAX, Position
from mn_engine.select.pool import Pool

_STANCES: Final = np.arange(max(Stance) + 1)


class Filling:
    """A page being filled: at most `room` bytes and `slots` items of `pool`, continuing at `position`."""

    def __init__(self, pool: Pool, *, room: int, slots: int, position: Position) -> None:
        self._pool = pool
        self._room = room
        self._slots = slots
        self._room_ever = max(room, position.room)
        self._end = min(position.end, len(pool))
        horizon = self._look(position)
        if horizon is None:  # so many do not fit that those which do begin behind what is in order
            pool.arrange(len(pool))
            horizon = self._look(position)
            assert horizon is not None
        self._horizon = horizon
        """Cards from here on are not considered by this page."""
        self._used = 0
        self._taken: dict[int, Role] = {}

    def fill(self, role: Role, *, limit: int, stances: tuple[Stance, ...] = tuple(Stance)) -> None:
        """Takes cards of these stances for `role`, in order, while they fit into `limit` and the room that is left."""
        pool = self._pool
        left = min(limit, self._room - self._used)
        near = slice(self._horizon)
        wanted = self._fits[near] & np.isin(_STANCES, stances)[pool.stances[near]]
        wanted[list(self._taken)] = False
        for window, smallest in _smallest(pool.sizes[near], wanted):
            if smallest > left or len(self._taken) == self._slots:
                continue
            ranks = self._candidates(window, wanted, left)
            for rank, size in zip(ranks.tolist(), pool.sizes[ranks].tolist(), strict=True):
                if size <= left and len(self._taken) < self._slots:
                    self._taken[rank] = role
                    self._used += size
                    left -= size

    def _candidates(self, window: int, wanted: NDArray[np.bool_], left: int) -> NDArray[np.int64]:
        """The ranks in a window that are wanted and may fit, as they are offered; one alone needs no order."""
        start = window * DIVERSITY_WINDOW
        part = slice(start, start + DIVERSITY_WINDOW)
        fitting = wanted[part] & (self._pool.sizes[part] <= left)
        if np.count_nonzero(fitting) == 1:
            return start + np.flatnonzero(fitting)
        ranks = np.asarray(self._pool.order.window(window), np.int64)
        found: NDArray[np.int64] = ranks[fitting[ranks - start]]
        return found

    def taken(self) -> Iterator[tuple[int, Role]]:
        """(rank, role) of what the page holds, in the order in which cards are offered, whatever their role."""
        for window, taken in groupby(sorted(self._taken), key=lambda rank: rank // DIVERSITY_WINDOW):
            ranks = set(taken)
            for rank in self._pool.order.window(window) if len(ranks) > 1 else ranks:
                if rank in ranks:
                    yield rank, self._taken[rank]

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
        """Where the next page continues; None where nothing is left that fits a page of this size.

        Raises InvalidInput where pages of very different budgets have passed over more cards than a cursor can hold.
        """
        waiting = self._waiting()
        if not waiting.any() or not self._taken:
            return None
        last = max(self._taken) // DIVERSITY_WINDOW
        end = max(self._end, min((last + 1) * DIVERSITY_WINDOW, len(self._pool)))
        passed = self._unserved[:end] & (self._pool.sizes[:end] <= self._room_ever)
        passed[[rank for rank in self._taken if rank < end]] = False
        skipped = np.flatnonzero(passed).tolist()
        if len(skipped) > SKIPPED_MAX:
            raise InvalidInput(
                "the pages' budgets differ so much that a cursor cannot tell what was passed over; keep to one budget, "
                "or begin without a cursor",
                field="budget_bytes",
            )
        return Position(end=end, skipped=tuple(skipped), room=self._room_ever)

    def _look(self, position: Position) -> int | None:
        """Sees what is unserved and what fits, and answers the horizon; None where it is behind what is in order."""
        pool = self._pool
        self._unserved = _unserved(pool, position)
        self._fits = self._unserved & (pool.sizes <= self._room)
        return _horizon(self._fits, pool.arranged)

    def _waiting(self) -> NDArray[np.bool_]:
        waiting = self._fits.copy()
        waiting[list(self._taken)] = False
        return waiting


def looked_at(position: Position) -> int:
    """How many of a pool's cards a page looks at in order, unless many do not fit: those served, those considered, and
    the window in which it sees that there are more."""
    return position.end + CANDIDATES_MAX + DIVERSITY_WINDOW


def _unserved(pool: Pool, position: Position) -> NDArray[np.bool_]:
    unserved = np.ones(len(pool), np.bool_)
    unserved[: position.end] = pool.sizes[: position.end] > position.room
    unserved[[rank for rank in position.skipped if rank < len(pool)]] = True
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


def _smallest(sizes: NDArray[np.int64], wanted: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """(window, size of its smallest wanted card) of each window that has one, ascending."""
    if not wanted.any():
        return []
    smallest: NDArray[Any] = np.minimum.reduceat(
        np.where(wanted, sizes, _NEVER), np.arange(0, len(sizes), DIVERSITY_WINDOW)
    )
    return [(window, size) for window, size in enumerate(smallest.tolist()) if size != _NEVER]
