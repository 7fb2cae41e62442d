"""NeedsPartition before anything is sent: what each part of the request costs, and how the decision could be split."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mn_contract.errors import NeedsPartition
from mn_tokens import Count


def over_budget(
    reason: str,
    count: Count,
    fields: Mapping[str, int],
    *,
    fits: Callable[[Sequence[str]], bool],
    window: int,
    input_budget: int,
    more: Mapping[str, Any],
) -> NeedsPartition:
    """The error for a request that cannot be made small enough.

    `count` is of the request without recalled records; `fields` are the tokens of each key of the caller's object, by
    itself; `fits` says whether a request whose object has these keys alone fits; `more` is what the engine said of
    required records (their sizes, and a plan over them).

    `plan`: `decisions` are groups of keys that each fit, `oversize` keys that fit into no request and have to be made
    smaller, `records` the engine's plan.
    """
    parts = [{"part": part.part, "tokens": part.tokens} for part in count.ledger]
    parts += [{"part": f"current.{name}", "tokens": tokens} for name, tokens in fields.items()]
    plan = {**_grouped(tuple(fields), fits), "carry_forward": "record each result with observe()"}
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


def fitting_prefix(names: Sequence[str], fits: Callable[[Sequence[str]], bool]) -> int:
    """How many of `names`, from the first on, fit together; `fits` answers for less where it answers for more."""
    return bisect_left(range(1, len(names) + 1), True, key=lambda size: not fits(names[:size]))


def _grouped(names: Sequence[str], fits: Callable[[Sequence[str]], bool]) -> dict[str, list[Any]]:
    """Keys in the caller's order, in groups that each fit a request of their own, and keys that fit into none."""
    groups: list[list[str]] = []
    oversize: list[str] = []
    while names:
        size = fitting_prefix(names, fits)
        if size:
            groups.append(list(names[:size]))
        else:
            oversize.append(names[0])
        names = names[max(size, 1) :]
    return {"decisions": groups, "oversize": oversize}
