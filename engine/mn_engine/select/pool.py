"""The pool of a packet: ranked optional cards, with all that choosing among them takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mn_engine.recall.rank import Ranking
from mn_engine.recall.view import View
from mn_engine.select.order import Order
from mn_engine.select.sizes import item_sizes


class Pool:
    """The cards of a ranking that are not required, by rank among themselves: 0 is the best."""

    def __init__(
        self,
        view: View,
        ranking: Ranking,
        *,
        required: NDArray[np.uint32],
        stances: NDArray[np.uint8],
        preferred: Sequence[int] = (),
    ) -> None:
        kept = ~np.isin(ranking.places, required) if len(required) else np.ones(len(ranking), np.bool_)
        self.ranks = np.flatnonzero(kept) + 1
        """Their places in the ranking as an answer tells it: from 1, required cards counted."""
        self.places = ranking.places[kept]
        self.scores = ranking.scores[kept]
        self.found_by = ranking.found_by[kept]
        self.sizes = item_sizes(view, self.places)
        self.tokens = view.column("document_tokens")[self.places].astype(np.int64)
        self.stances = stances[self.places]
        self.kinds = view.column("kinds")[self.places]
        self.order = Order(view, self.places, self.scores, self.sizes, preferred)

    def __len__(self) -> int:
        return len(self.places)
