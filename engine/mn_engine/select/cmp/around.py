"""What stands around a pack: how its entities hang together, and queries that would find more. From its items alone, so
that it tells of nothing that they do not (invariant 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, islice
from typing import Any

from mn_contract.errors import InvalidInput
from mn_contract.facts import same
from mn_contract.limits import FOLLOW_UPS_MAX, GRAPH_ENTITIES_MAX, GRAPH_LINKS_MAX, PACK_BUDGET_TOKENS_DEFAULT
from mn_contract.names import format_ref
from mn_engine.domain.packets import Decision
from mn_engine.domain.packs import PackItem
from mn_engine.domain.queries import MemoryQuery


def graph_of(items: Sequence[PackItem], asker: str) -> dict[str, Any] | None:
    """Entities with the items that name them, and pairs that an item names together; those of most items first. None
    where no item names any."""
    of: dict[str, list[str]] = {}
    together: dict[tuple[str, str], list[str]] = {}
    spelt = _spelt(items)
    for item in items:
        ref = format_ref(item.card.owner, item.card.id, asker)
        names = sorted(spelt[name] for name in _named(item))
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
    """Queries worth asking next, each ready to be sent: of entities that the items name and the question does not;
    then the question again with more room, where a page did not hold all."""
    asked = {same(name) for name in decision.entities}
    focus = same(decision.focus)
    of: dict[str, list[int]] = {}
    spelt = _spelt(items)
    for place, item in enumerate(items):
        for name in _named(item) - asked:
            if name not in focus:
                of.setdefault(spelt[name], []).append(place)
    queries: list[dict[str, Any]] = [{"find": name, "entities": [name]} for name, _ in _most(of)]
    if pending and decision.focus and budget < PACK_BUDGET_TOKENS_DEFAULT:
        queries.insert(0, {"ask": decision.focus, "budget_tokens": min(2 * budget, PACK_BUDGET_TOKENS_DEFAULT)})
    return list(islice(filter(_can_be_asked, queries), FOLLOW_UPS_MAX))


def _can_be_asked(query: dict[str, Any]) -> bool:
    """Whether a query is one: a task may be longer than a question may be."""
    try:
        MemoryQuery.from_json(query)
    except InvalidInput:
        return False
    return True


def _named(item: PackItem) -> set[str]:
    """The entities of an item, as they are compared."""
    return {same(name) for name in item.card.entities} - {""}


def _spelt(items: Sequence[PackItem]) -> dict[str, str]:
    """How an entity is shown, by how entities are compared: as the first item that names it spells it."""
    spelt: dict[str, str] = {}
    for item in items:
        for name in item.card.entities:
            spelt.setdefault(same(name), name.strip())
    return spelt


def _most(named: Mapping[Any, list[Any]]) -> list[tuple[Any, list[Any]]]:
    """Those that most items name first, then by name."""
    return sorted(named.items(), key=lambda entry: (-len(entry[1]), entry[0]))
