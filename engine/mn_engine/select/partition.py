"""NeedsPartition: when what must be in does not fit, every item, its size, and a way to split the decision (invariant
2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from mn_contract.errors import NeedsPartition
from mn_contract.limits import PACKET_ITEMS_MAX
from mn_engine.domain.packets import REQUIRED_LABEL, Role, packet_size
from mn_engine.recall.view import View


class Sized(Protocol):
    """A required item and its size."""

    @property
    def ordinal(self) -> int: ...
    @property
    def role(self) -> Role: ...
    @property
    def size(self) -> int: ...


def check_required(view: View, items: Sequence[Sized], budget_bytes: int) -> None:
    """Raises NeedsPartition where the required items do not fit a packet of `budget_bytes`."""
    size = packet_size([item.size for item in items])
    if len(items) > PACKET_ITEMS_MAX:
        reason, told = "too_many_required", f"{len(items)} cards are required and a packet holds {PACKET_ITEMS_MAX}"
    elif size > budget_bytes:
        reason, told = "required_over_budget", f"what is required takes {size} bytes of a budget of {budget_bytes}"
    else:
        return
    refs = {item.ordinal: view.ref(view.place(item.ordinal)) for item in items}
    raise NeedsPartition(
        f"{told}; split the decision as the plan says, and carry the results forward",
        detail={
            "reason": reason,
            "budget": budget_bytes,
            "size": size,
            "items": [
                {"id": refs[item.ordinal], "bytes": item.size, "why": REQUIRED_LABEL[item.role]} for item in items
            ],
            "plan": _plan(items, refs, budget_bytes),
        },
    )


def _plan(items: Sequence[Sized], refs: dict[int, str], budget_bytes: int) -> dict[str, Any]:
    """Packets that each fit, filled in recorded order, and the items that fit into none."""
    packets: list[list[str]] = []
    used = 0
    oversize = []
    for item in items:
        if packet_size([item.size]) > budget_bytes:
            oversize.append(refs[item.ordinal])
        elif packets and used + item.size <= budget_bytes and len(packets[-1]) < PACKET_ITEMS_MAX:
            packets[-1].append(refs[item.ordinal])
            used += item.size
        else:
            packets.append([refs[item.ordinal]])
            used = packet_size([item.size])
    return {"packets": packets, "oversize": oversize}
