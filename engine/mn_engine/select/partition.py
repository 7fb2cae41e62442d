"""NeedsPartition: when what must be in does not fit, every item, its size, and a way to split the decision (invariant
2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mn_contract.errors import NeedsPartition
from mn_contract.limits import PACKET_ITEMS_MAX
from mn_engine.domain.packets import REQUIRED_LABEL, Budget, Role, packet_size
from mn_engine.recall.view import View


class Sized(Protocol):
    """A required item and its size."""

    @property
    def ordinal(self) -> int: ...
    @property
    def role(self) -> Role: ...
    @property
    def size(self) -> int: ...
    @property
    def tokens(self) -> int: ...


def check_required(view: View, items: Sequence[Sized], budget: Budget, *, standing: NDArray[np.bool_]) -> None:
    """Raises NeedsPartition where the required items do not fit a packet of `budget`.

    `standing` says of each item whether the record demands it of the decision: no split takes it out of a packet. What
    is only named can be split.
    """
    size, tokens = packet_size([item.size for item in items]), sum(item.tokens for item in items)
    if len(items) > PACKET_ITEMS_MAX:
        reason, told = "too_many_required", f"{len(items)} cards are required and a packet holds {PACKET_ITEMS_MAX}"
    elif size > budget.bytes:
        reason, told = "required_over_budget", f"what is required takes {size} bytes of a budget of {budget.bytes}"
    elif budget.tokens is not None and tokens > budget.tokens:
        reason, told = "required_over_budget", f"what is required takes {tokens} tokens of a budget of {budget.tokens}"
    else:
        return
    refs = {item.ordinal: view.ref(view.place(item.ordinal)) for item in items}
    every = [item for item, stands in zip(items, standing, strict=True) if stands]
    named = [item for item, stands in zip(items, standing, strict=True) if not stands]
    advice = (
        "split the decision as the plan says, and carry the results forward"
        if _fits(every, budget)
        else "constraints and obligations alone are too much for it, and stand in every part of a split: name fewer "
        "topics and claims, resolve or supersede some of them, or give more room"
    )
    raise NeedsPartition(
        f"{told}; {advice}",
        detail={
            "reason": reason,
            "budget": budget.bytes,
            "size": size,
            **({} if budget.tokens is None else {"budget_tokens": budget.tokens, "tokens": tokens}),
            "items": [
                {
                    "id": refs[item.ordinal],
                    "bytes": item.size,
                    "tokens": item.tokens,
                    "why": REQUIRED_LABEL[item.role],
                }
                for item in items
            ],
            "plan": {"every_part": [refs[item.ordinal] for item in every], **_plan(every, named, refs, budget)},
        },
    )


def _plan(every: Sequence[Sized], named: Sequence[Sized], refs: dict[int, str], budget: Budget) -> dict[str, list[Any]]:
    """What to name for packets that each fit beside `every`, in recorded order, and what fits into none. Where `every`
    itself fits into none there are no packets, and oversize is what is too large alone."""
    if not _fits(every, budget):
        alone = [refs[item.ordinal] for item in (*every, *named) if not _fits([item], budget)]
        return {"packets": [], "oversize": alone}
    packets: list[list[Sized]] = []
    oversize = []
    for item in named:
        if not _fits([*every, item], budget):
            oversize.append(refs[item.ordinal])
        elif packets and _fits([*every, *packets[-1], item], budget):
            packets[-1].append(item)
        else:
            packets.append([item])
    return {"packets": [[refs[item.ordinal] for item in packet] for packet in packets], "oversize": oversize}


def _fits(items: Sequence[Sized], budget: Budget) -> bool:
    return (
        len(items) <= PACKET_ITEMS_MAX
        and packet_size([item.size for item in items]) <= budget.bytes
        and (budget.tokens is None or sum(item.tokens for item in items) <= budget.tokens)
    )
