"""The best facts and episodes for a question, in a budget of real tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import starmap
from typing import Final, TypeVar

import numpy as np

from mn_contract.errors import InvalidInput
from mn_contract.limits import DIVERSITY_WINDOW, FACTS_WEIGHED_MAX
from mn_contract.names import format_ref
from mn_contract.smp import item_text
from mn_engine.domain.facts import FOREVER
from mn_engine.domain.known import KnownFact
from mn_engine.domain.packets import Decision
from mn_engine.domain.packs import PackItem
from mn_engine.domain.scope import Scope
from mn_engine.domain.times import format_rfc3339
from mn_engine.recall.analysis import Query, analyse_query
from mn_engine.recall.rank import Ranking, rank, retrievers
from mn_engine.recall.view import View
from mn_engine.select.cmp.profiles import resolve_profile
from mn_engine.select.order import Order
from mn_engine.service.compile import load, why_of
from mn_engine.service.counting import counter_of
from mn_engine.service.engine import Call, Engine
from mn_engine.service.graph.read import known_facts, when
from mn_engine.service.runs import root_at
from mn_engine.service.seen import see

_COUNTED_AS: Final = "gpt-4o"
"""Its tokenizer, o200k_base, counts where no model is named."""
_HOPS: Final = 2
_LOADED_AT_ONCE: Final = 64
_LINE_TOKENS: Final = 32
"""What a fact's line takes, as a rule."""
_LINE_TOKENS_MIN: Final = 8
"""No line takes less: its marks alone do not."""
_LOOKED_AT: Final = 128
_LOOKED_SHARE: Final = 2
"""For what room is left, so many memories are looked at, or so many times those that were taken."""
_MIDNIGHT: Final = "T00:00:00Z"
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Facts and episodes for a question, in `used` tokens of text by `counter`, which are never above `budget`; `refs`
    are in the order of the text, `left` says how many more are relevant."""

    text: str
    refs: tuple[str, ...]
    facts: tuple[KnownFact, ...]
    episodes: tuple[PackItem, ...]
    used: int
    budget: int
    counter: str
    left: int
    revision: int
    root: str
    as_of: int | None


def compile_context(
    engine: Engine,
    scope: Scope,
    call: Call,
    *,
    query: str,
    max_tokens: int,
    as_of: int | None,
    include_superseded: bool,
    model: str,
) -> Context:
    """The facts and episodes that matter most for a question, as text of at most `max_tokens`; what held at `as_of`
    (now). With `include_superseded` also what holds no more."""
    if not query.strip():
        raise InvalidInput("query says nothing", field="query")
    time, revision = when(engine, scope, call, as_of, None, None)
    at = None if include_superseded and as_of is None else time
    view = engine.indexes.view(scope, revision, at, history=include_superseded)
    ranking = rank(view, Decision(focus=query), engine.embedder(), preferences=False, hops=_HOPS)
    counter, tokens = counter_of(model or _COUNTED_AS, resolve_profile(model or _COUNTED_AS, engine.profiles))
    offered = _offered(engine, scope, call, view, ranking, analyse_query(query), first=max_tokens // _LINE_TOKENS)
    chosen, lines, used = filled(offered, max_tokens, tokens)
    return Context(
        text="".join(lines),
        refs=tuple(view.ref(view.place(one.seen.stored.ordinal)) for one in chosen),
        facts=tuple(one for one in chosen if isinstance(one, KnownFact)),
        episodes=tuple(one for one in chosen if isinstance(one, PackItem)),
        used=used,
        budget=max_tokens,
        counter=counter,
        left=len(ranking) - len(chosen),
        revision=revision,
        root=root_at(engine, scope, revision),
        as_of=at,
    )


def _line(known: KnownFact, asker: str) -> str:
    """A fact as text: with when it holds, and which facts of other sources say otherwise of that time."""
    said = [*starmap(_span, known.spans)] or ["replaced"]
    if known.contradicts:
        said.append(f"contradicted by {', '.join(format_ref(key.owner, key.id, asker) for key in known.contradicts)}")
    key = known.card.key
    return item_text(
        {
            "ref": format_ref(key.owner, key.id, asker),
            "layer": "fact",
            "occurred_at": None,
            "content": f"{known.card.text} ({'; '.join(said)})",
        }
    )


def _span(since: int, until: int) -> str:
    """When, as short as it can be said."""
    began = format_rfc3339(since).removesuffix(_MIDNIGHT)
    return f"since {began}" if until == FOREVER else f"{began} until {format_rfc3339(until).removesuffix(_MIDNIGHT)}"


def _offered(
    engine: Engine, scope: Scope, call: Call, view: View, ranking: Ranking, asked: Query, *, first: int
) -> Iterator[tuple[KnownFact | PackItem, str]]:
    """Ranked memories in the order of their use for what they take, and as text; loaded as far as they are looked
    at, about `first` of them at once, then some more at a time."""
    ordered = ranking.ordered(FACTS_WEIGHED_MAX)
    count = min(len(ordered.scores), FACTS_WEIGHED_MAX)
    places = ordered.places[:count].astype(np.int64)
    order = Order(view, places, ordered.scores[:count], view.item_tokens[places].astype(np.int64))
    offered = [one for window in range(-(-count // DIVERSITY_WINDOW)) for one in order.window(window)]
    first = min(max(first, _LOADED_AT_ONCE), _LOOKED_AT)
    for start in (0, *range(first, count, _LOADED_AT_ONCE)):
        some = offered[start : start + _LOADED_AT_ONCE] if start else offered[:first]
        stored = load(engine, scope, call, view, [view.ordinal(int(places[one])) for one in some])
        seen = [see(card, view) for card in stored]
        facts = iter(known_facts(engine, scope, call, view, [one for one in seen if one.stored.card.fact is not None]))
        for number, one in zip(some, seen, strict=True):
            if one.stored.card.fact is not None:
                known = next(facts)
                yield known, _line(known, scope.principal)
                continue
            bits, score = int(ordered.found_by[number]), int(ordered.scores[number])
            item = PackItem(seen=one, why=why_of(one.stored, asked, retrievers(bits), number + 1, score))
            yield item, item.text(scope.principal)


def filled(
    offered: Iterable[tuple[_Item, str]], budget: int, tokens: Callable[[str], int]
) -> tuple[list[_Item], list[str], int]:
    """What fits, as it is offered, with its lines; and the tokens of all of them together."""
    taken: list[tuple[_Item, str]] = []
    room = budget
    for looked, (item, line) in enumerate(offered, start=1):
        cost = tokens(line)
        if cost <= room:
            taken.append((item, line))
            room -= cost
        if room < _LINE_TOKENS_MIN or (taken and looked >= max(_LOOKED_AT, _LOOKED_SHARE * len(taken))):
            break
    while True:  # the whole is counted, too: tokens may join where lines do
        lines = [line for _, line in taken]
        used = tokens("".join(lines)) if lines else 0
        if used <= budget:
            return [item for item, _ in taken], lines, used
        taken.pop()
