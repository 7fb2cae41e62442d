"""What stands around a pack: how its entities hang together, and queries that would find more. From its items alone, so
that it tells of nothing that they do not (invariant 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from mn_contract.limits import FOLLOW_UPS_MAX, GRAPH_ENTITIES_MAX, GRAPH_LINKS_MAX, PACK_BUDGET_TOKENS_DEFAULT
from mn_contract.names import format_ref
from mn_engine.domain.packets import Decision
from mn_engine.domain.packs import PackItem


def graph_of(items: Sequence[PackItem], asker: str) -> dict[str, Any] | None:
    """Entities with the items that name them, and pairs that an item names together; those of most items first. None
    where no item names any."""
    of: dict[str, list[str]] = {}
    together: dict[tuple[str, str], list[str]] = {}
    for item in items:
        ref = format_ref(item.card.owner, item.card.id, asker)
        names = sorted(set(item.card.entities))
        for name in names:
            of.setdefault(name, []).append(ref)
        for pair in combinations(names, 2):
            together.setdefault(pair, []).append(ref)
    if not of:
        return None
    shown = dict(_most(of)[:GRAPH_ENTITIES_MAX])
    links = {pair: refs for pair, refs in together.items() if shown.keys() >= set(pair)}
    return {
        "entities": [{"entity": name, "refs": refs} for name, refs in shown.items()],
        "links": [{"between": list(pair), "refs": refs} for pair, refs in _most(links)[:GRAPH_LINKS_MAX]],
    }


def follow_ups(items: Sequence[PackItem], decision: Decision, *, budget: int, pending: int) -> list[dict[str, Any]]:
    """Queries worth asking next: of entities that the items name and the question does not; then the question again
    with more room, where a page did not hold all."""
    asked = {name.casefold() for name in decision.entities}
    focus = decision.focus.casefold()
    of: dict[str, list[int]] = {}
    for place, item in enumerate(items):
        for name in item.card.entities:
            if name.casefold() not in asked and name.casefold() not in focus:
                of.setdefault(name, []).append(place)
    queries: list[dict[str, Any]] = [{"find": name, "entities": [name]} for name, _ in _most(of)]
    if pending and decision.focus and budget < PACK_BUDGET_TOKENS_DEFAULT:
        queries.insert(0, {"ask": decision.focus, "budget_tokens": min(2 * budget, PACK_BUDGET_TOKENS_DEFAULT)})
    return queries[:FOLLOW_UPS_MAX]


def _most(named: Mapping[Any, list[Any]]) -> list[tuple[Any, list[Any]]]:
    """Those that most items name first, then by name."""
    return sorted(named.items(), key=lambda entry: (-len(entry[1]), entry[0]))
