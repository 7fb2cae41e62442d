"""Packing: what of the candidates stands in a pack, and in which form. Pure: costs come from whoever counts tokens.

A knapsack takes candidates in one order, whatever the budget: what is required whole; opposing memories into their
share, where the caller gave one; then everything that fits. What was passed over is then offered each shorter form, the
fuller first, until one fits: a memory is compressed before it is dropped, and nothing that was taken is touched. So
what two budgets take before the smaller one first passes something over is the same.

The generic profile fills layer by layer, each into its share, then by rank; it folds and compresses nothing. What it
took stands best first, as in every pack.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from mn_contract.errors import NeedsPartition
from mn_contract.limits import PACKET_ITEMS_MAX
from mn_contract.names import format_ref
from mn_contract.smp import LAYERS as ORDERED_LAYERS
from mn_engine.domain.cards import LAYERS
from mn_engine.domain.packs import Folded, PackItem
from mn_engine.select.cmp.ladder import rungs
from mn_engine.select.cmp.table import SHARES

Cost = Callable[[PackItem], int]
"""Tokens that an item takes of a pack's budget, never below 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """What stands in a pack: (candidate, item as it stands), in order; and the tokens that they take."""

    taken: tuple[tuple[int, PackItem], ...]
    used: int


def knapsack(
    offered: Sequence[PackItem],
    *,
    required: Collection[int],
    opposing: Collection[int],
    counter_share: float,
    budget: int,
    cost: Cost,
    asker: str,
) -> Packed:
    """The pack of candidates that are given in the order in which they are offered. Raises NeedsPartition."""
    filling = _Filling(offered, budget, cost)
    filling.require(required, asker)
    filling.oppose(opposing, counter_share)
    filling.fill(range(len(offered)), limit=budget)
    filling.compress()
    return filling.packed()


def by_layer(
    ranked: Sequence[PackItem],
    *,
    required: Collection[int],
    opposing: Collection[int],
    counter_share: float,
    budget: int,
    cost: Cost,
    asker: str,
) -> Packed:
    """The generic pack of candidates that are given best first. Raises NeedsPartition."""
    filling = _Filling(ranked, budget, cost)
    filling.require(required, asker)
    filling.oppose(opposing, counter_share)
    room = budget - filling.used
    layers: dict[str, list[int]] = {layer: [] for layer in ORDERED_LAYERS}
    for place, item in enumerate(ranked):
        layers[LAYERS[item.card.kind][0]].append(place)
    for layer, places in layers.items():
        filling.fill(places, limit=room * SHARES[layer] // 100)
    filling.fill(range(len(ranked)), limit=budget)
    return filling.packed()


class _Filling:
    """A pack being filled."""

    def __init__(self, offered: Sequence[PackItem], budget: int, cost: Cost) -> None:
        self._offered = offered
        self._budget = budget
        self._cost = cost
        self._costs = [cost(item) for item in offered]
        self._required: list[int] = []
        self._taken: dict[int, PackItem] = {}
        self.used = 0

    def require(self, places: Collection[int], asker: str) -> None:
        """Takes items whole, or raises NeedsPartition."""
        self._required = sorted(places)
        size = sum(self._costs[place] for place in self._required)
        if size > self._budget:
            raise NeedsPartition(
                f"what is required takes {size} tokens of a budget of {self._budget}; give more room, or name less",
                detail={
                    "reason": "required_over_budget",
                    "budget": self._budget,
                    "size": size,
                    "items": [
                        {
                            "id": format_ref(self._offered[place].card.owner, self._offered[place].card.id, asker),
                            "tokens": self._costs[place],
                        }
                        for place in self._required
                    ],
                },
            )
        for place in self._required:
            self._take(place, self._offered[place], self._costs[place])

    def oppose(self, places: Collection[int], share: float) -> None:
        """Takes opposing items into their share of the room that is left (invariant 3)."""
        self.fill(sorted(places), limit=int((self._budget - self.used) * share))

    def fill(self, places: Iterable[int], *, limit: int) -> None:
        """Takes what fits into `limit` and the room that is left, passing over what does not."""
        left = min(limit, self._budget - self.used)
        for place in places:
            if place not in self._taken and self._costs[place] <= left and len(self._taken) < PACKET_ITEMS_MAX:
                self._take(place, self._offered[place], self._costs[place])
                left -= self._costs[place]

    def compress(self) -> None:
        """Offers what was passed over its shorter forms."""
        for place, item in enumerate(self._offered):
            if place in self._taken or len(self._taken) == PACKET_ITEMS_MAX:
                continue
            for form, end in rungs(item.card):
                shorter = replace(item, form=form, end=end)
                taken = self._cost(shorter)
                if taken <= self._budget - self.used:
                    self._take(place, shorter, taken)
                    break

    def packed(self) -> Packed:
        """What was taken: what is required, then the rest in the order in which it was offered."""
        places = list(dict.fromkeys([*self._required, *sorted(self._taken)]))
        return Packed(taken=tuple((place, self._taken[place]) for place in places), used=self.used)

    def _take(self, place: int, item: PackItem, taken: int) -> None:
        self._taken[place] = item
        self.used += taken


def speaking_for(item: PackItem, others: Sequence[PackItem], asker: str) -> PackItem:
    """The item with what is folded into it."""
    cards = [other.card for other in others]
    urls = [card.source_url for card in (item.card, *cards) if card.source_url]
    return replace(
        item,
        folded=Folded(
            refs=tuple(format_ref(card.owner, card.id, asker) for card in cards),
            urls=tuple(dict.fromkeys(urls)),
            occurrences=sum(card.occurrences for card in cards),
        ),
    )
