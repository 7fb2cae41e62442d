"""NeedsPartition before anything is sent: what each part of the request costs, and how the decision could be split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mn_contract.errors import NeedsPartition
from mn_tokens import Count


def over_budget(
    reason: str,
    count: Count,
    fields: Mapping[str, int],
    *,
    window: int,
    input_budget: int,
    more: Mapping[str, Any],
) -> NeedsPartition:
    """The error for a request that cannot be made small enough.

    `count` is of the request without recalled records; `fields` are the tokens of each key of the caller's object;
    `more` is what the engine said of required records (their sizes, and a plan over them).
    """
    parts = [{"part": part.part, "tokens": part.tokens} for part in count.ledger]
    parts += [{"part": f"current.{name}", "tokens": tokens} for name, tokens in fields.items()]
    shared = max(count.upper - sum(fields.values()), 0)
    plan = {"decisions": _grouped(fields, input_budget - shared), "carry_forward": "record each result with observe()"}
    return NeedsPartition(
        f"the request cannot be made to fit {input_budget} tokens ({reason}); split the decision as the plan says, and "
        "carry the results forward",
        detail={
            **more,
            "reason": reason,
            "window": window,
            "input_budget": input_budget,
            "tokens": count.upper,
            "parts": parts,
            "plan": {**plan, **_records_plan(more)},
        },
    )


def _records_plan(more: Mapping[str, Any]) -> dict[str, Any]:
    plan = more.get("plan")
    return {"records": plan} if isinstance(plan, Mapping) else {}


def _grouped(fields: Mapping[str, int], room: int) -> list[list[str]]:
    """Keys in the caller's order, in groups that each fit `room`; a key that fits nowhere stands alone."""
    groups: list[list[str]] = []
    used = 0
    for name, tokens in fields.items():
        if groups and used + tokens <= room:
            groups[-1].append(name)
            used += tokens
        else:
            groups.append([name])
            used = tokens
    return groups
