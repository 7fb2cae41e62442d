"""The pool of a packet: ranked optional cards, with all that choosing among them takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mn_engine.recall.rank import Ranking
from mn_engine.recall.view import View
from mn_engine.select.order import Order


class Pool:
    """The cards of a ranking that are not required, by rank among themselves: 0 is the best.

    They are in order as far as `arranged`; the rest are there to be counted.
    """

    def __init__(
        self,
        view: View,
        ranking: Ranking,
        *,
        required: NDArray[np.int64],
        stances: NDArray[np.uint8],
        arranged: int,
        preferred: Sequence[int] = (),
    ) -> None:
        self._view = view
        self._ranking = ranking
        self._required = required
        self._stances = stances
        self._preferred = preferred
        self.arrange(arranged)

    def arrange(self, count: int) -> None:
        """Puts at least `count` cards in order."""
        ordered = self._ranking.ordered(count + len(self._required))
        kept = (
            ~np.isin(ordered.places, self._required) if len(self._required) else np.ones(len(self._ranking), np.bool_)
        )
        self.arranged = min(count, int(np.count_nonzero(kept)))
        self.ranks = np.flatnonzero(kept) + 1
        """Their places in the ranking as an answer tells it: from 1, required cards counted."""
        self.places = ordered.places[kept]
        self.scores = ordered.scores[kept[: len(ordered.scores)]]
        self.found_by = ordered.found_by[kept[: len(ordered.scores)]]
        """Scores and retriever bits, of those that are in order."""
        self.sizes = self._view.item_sizes[self.places].astype(np.int64)
        self.tokens = self._view.item_tokens[self.places].astype(np.int64)
        self.stances = self._stances[self.places]
        self.kinds = self._view.column("kinds")[self.places]
        self.order = Order(self._view, self.places, self.scores, self.sizes, self._preferred)

    def ranks_of(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The ranks of those of the cards that are in the pool, best first; puts as many in order as that takes."""
        if not len(places):
            return places
        found = np.flatnonzero(np.isin(self.places, places))
        if len(found) and int(found[-1]) >= self.arranged:
            self.arrange(len(self))
            found = np.flatnonzero(np.isin(self.places, places))
        return found

    def __len__(self) -> int:
        return len(self.places)
