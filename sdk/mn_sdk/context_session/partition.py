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
    records: Sequence[str],
    *,
    splits: bool,
    fits: Callable[[Sequence[str]], bool],
    window: int,
    input_budget: int,
    more: Mapping[str, Any],
) -> NeedsPartition:
    """The error for a request that cannot be made small enough.

    `count` is of the request without recalled records; `fields` are the tokens of each key of the caller's object, by
    itself; `records` are required records that fit into no request; `splits` says whether what stands in every part of
    a split fits, so that splitting helps; `fits` whether a request whose object has these keys alone does; `more` is
    what the engine said of required records (their sizes, and a plan over them).

    `plan`: `decisions` are groups of keys that each fit, none where no split helps; `oversize` keys, then records, that
    fit into no request: keys have to be made smaller, records superseded by smaller ones; `records` the engine's plan.
    """
    parts = [{"part": part.part, "tokens": part.tokens} for part in count.ledger]
    parts += [{"part": f"current.{name}", "tokens": tokens} for name, tokens in fields.items()]
    decisions, oversize = _grouped(tuple(fields), fits)
    plan = {
        "decisions": decisions if splits else [],
        "oversize": [*oversize, *records],
        "carry_forward": "record each result with observe()",
    }
    if splits and decisions:
        advice = "split the decision as the plan says, and carry the results forward"
    elif splits:
        advice = (
            "there is nothing to split: what `plan.oversize` names fits into no request. Make it smaller, or give more "
            "room"
        )
    else:
        advice = (
            "no split helps, because what stands in every part of one does not fit: instructions, messages that are no "
            "object of keys, tools, constraints and obligations. Make them smaller, name fewer topics and claims, "
            "resolve or supersede some of the records, or give more room"
        )
    return NeedsPartition(
        f"the request cannot be made to fit {input_budget} tokens ({reason}); {advice}",
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


def _grouped(names: Sequence[str], fits: Callable[[Sequence[str]], bool]) -> tuple[list[list[str]], list[str]]:
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
    return groups, oversize
