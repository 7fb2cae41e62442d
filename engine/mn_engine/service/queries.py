"""Queries and expansions: the same retrieval, narrowed; and one step on from any reference. They only read.

What a query narrows is retrieved with nothing narrowed: a page of the ranking in which superseded memories have their
places, too, or a pack with those behind it that its budget still holds. Filters take rows away, so that no query can
answer what the plain one would not (invariants 4, 7).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mn_contract.errors import InvalidInput, NotFound
from mn_contract.limits import CANDIDATES_MAX, ENTITY_MEMORIES_MAX, EXPAND_MAX
from mn_contract.smp import MQL_CURSOR_PREFIX
from mn_engine.domain.packets import Decision, Why
from mn_engine.domain.packs import PackItem, PackRequest
from mn_engine.domain.queries import CURSOR_WRONG, Direction, MemoryQuery, QueryAnswer, QueryPlace, Row, narrow
from mn_engine.domain.scope import Scope
from mn_engine.recall.analysis import analyse_query, label_hash
from mn_engine.recall.index import ENTITY
from mn_engine.recall.rank import rank, retrievers
from mn_engine.recall.view import View
from mn_engine.select.cursor import seal, unseal
from mn_engine.service.compile import load, why_of
from mn_engine.service.engine import Call, Engine
from mn_engine.service.packs import build
from mn_engine.service.record import check_revision, get_card
from mn_engine.service.seen import see

_NOT_RANKED = Why(retrievers=("history",))


def query_memory(
    engine: Engine, scope: Scope, call: Call, *, query: MemoryQuery | None, cursor: str = ""
) -> QueryAnswer:
    """A page of what a query finds. A cursor knows its query; both may be given where they agree. Raises
    InvalidInput."""
    call.check()
    if cursor:
        place = QueryPlace.from_json(unseal(cursor, prefix=MQL_CURSOR_PREFIX, scope=scope))
        if query is not None and query.as_json() != place.query.as_json():
            raise InvalidInput(CURSOR_WRONG, field="cursor")
    elif query is not None:
        place = QueryPlace(query=query)
    else:
        raise InvalidInput("exactly one of ask and find must be given", field="ask")
    if place.query.as_of is not None and place.query.as_of > engine.clock():
        raise InvalidInput("as_of lies in the future, of which nothing is known yet; leave it out", field="as_of")
    return (_asked if place.query.ask else _found)(engine, scope, call, place)


def _found(engine: Engine, scope: Scope, call: Call, at: QueryPlace) -> QueryAnswer:
    query = at.query
    run = engine.store.run(scope.run_key)
    run.check_readable()
    revision = run.revision if at.revision is None else check_revision(at.revision, run.revision)
    start = at.at
    view = engine.indexes.view(scope, revision, history=True)
    ranking = rank(view, Decision(focus=query.find), engine.embedder(), preferences=False)
    end = min(start + query.k, len(ranking))
    ordered = ranking.ordered(end)
    places = ordered.places[start:end].tolist()
    whys = [
        (retrievers(int(found_by)), start + number, int(score))
        for number, (found_by, score) in enumerate(
            zip(ordered.found_by[start:end], ordered.scores[start:end], strict=True), start=1
        )
    ]
    asked = analyse_query(query.find)
    stored = load(engine, scope, call, view, [view.ordinal(place) for place in places])
    items = [PackItem(seen=see(one, view), why=why_of(one, asked, *why)) for one, why in zip(stored, whys, strict=True)]
    more = QueryPlace(query=query, revision=revision, at=end) if end < len(ranking) else None
    return _answer(engine, scope, query, view, items, more)


def _asked(engine: Engine, scope: Scope, call: Call, at: QueryPlace) -> QueryAnswer:
    query = at.query
    request = PackRequest(
        decision=Decision(focus=query.ask),
        model=query.model,
        budget_tokens=query.budget_tokens,
        cursor=at.pack,
        revision=at.revision,
    )
    built = build(engine, scope, call, request)
    revision = built.view.revision
    view = engine.indexes.view(scope, revision, history=True)
    items = list(built.pack.items)
    if not request.cursor:
        items += _superseded(engine, scope, call, view, query, built.pack.budget - built.pack.used, built.cost)
    end = at.at + query.k
    more: QueryPlace | None = None
    if end < len(items):
        more = QueryPlace(query=query, revision=revision, pack=at.pack, at=end)
    elif built.pack.cursor:
        more = QueryPlace(query=query, pack=built.pack.cursor)
    return _answer(engine, scope, query, view, items[at.at : end], more)


def _superseded(
    engine: Engine, scope: Scope, call: Call, view: View, query: MemoryQuery, room: int, cost: Any
) -> Iterable[PackItem]:
    """What no longer holds and would have been relevant, as far as a pack's budget still has room for it."""
    live = engine.indexes.view(scope, view.revision).visible
    ranking = rank(view, Decision(focus=query.ask), engine.embedder())
    places = [place for place in ranking.ordered(CANDIDATES_MAX).places[:CANDIDATES_MAX].tolist() if not live[place]]
    stored = load(engine, scope, call, view, [view.ordinal(place) for place in places[: query.k]])
    for one in stored:
        item = PackItem(seen=see(one, view), why=_NOT_RANKED)
        if (taken := cost(item)) <= room:
            room -= taken
            yield item


def _answer(
    engine: Engine,
    scope: Scope,
    query: MemoryQuery,
    view: View,
    items: Sequence[PackItem],
    more: QueryPlace | None,
) -> QueryAnswer:
    live = engine.indexes.view(scope, view.revision).visible
    held = live if query.as_of is None else engine.indexes.view(scope, view.revision, query.as_of).visible
    places = [view.place(item.seen.stored.ordinal) for item in items]
    rows = tuple(
        Row(item=item, live=bool(live[place]), held=bool(held[place]))
        for item, place in zip(items, places, strict=True)
    )
    kept = narrow(rows, query)
    cursor = seal(more.as_json(), prefix=MQL_CURSOR_PREFIX, scope=scope) if more else ""
    return QueryAnswer(
        revision=view.revision,
        items=kept,
        narrowed_from=len(rows),
        cursor=cursor,
        follow_ups=tuple(_follow_up(query, kept, cursor, scope)),
    )


def _follow_up(query: MemoryQuery, items: Sequence[PackItem], cursor: str, scope: Scope) -> Iterable[dict[str, Any]]:
    """The expansion that the query wants, where there is something to expand."""
    if query.expand is Direction.MORE:
        if cursor:
            yield {"expand": cursor, "direction": Direction.MORE.value}
    elif query.expand is not None and items:
        yield {"expand": items[0].document(scope.principal)["ref"], "direction": query.expand.value}


def expand(
    engine: Engine, scope: Scope, call: Call, *, ref: str, direction: Direction, cursor: str = ""
) -> dict[str, Any]:
    """One step on from a reference: the whole memory, what it is joined to, or the next page of a query. What has
    nothing there answers nothing, and so does a reference that names nothing."""
    call.check()
    if direction is Direction.MORE:
        wanted = cursor or (ref if ref.startswith(MQL_CURSOR_PREFIX) else "")
        if not wanted:
            return {"ref": ref or None, "direction": direction.value, "items": [], "cursor": None}
        answer = query_memory(engine, scope, call, query=None, cursor=wanted).document(scope.principal)
        return {"ref": None, "direction": direction.value, **answer}
    run = engine.store.run(scope.run_key)
    run.check_readable()
    view = engine.indexes.view(scope, run.revision)
    answer = {"ref": ref, "direction": direction.value, "items": [], "revision": run.revision}
    try:
        ordinal = view.resolve(ref, live=False)
    except NotFound:
        return answer
    (stored,) = load(engine, scope, call, view, [ordinal])
    if direction is Direction.DOCUMENT:
        item = PackItem(seen=see(stored, view), why=Why(retrievers=("named",)))
        return {**answer, "items": [{**item.document(scope.principal), "memory": item.memory(scope.principal)}]}
    return {**answer, **_neighbours(engine, scope, call, view, ordinal, stored.card.entities)}


def _neighbours(
    engine: Engine, scope: Scope, call: Call, view: View, ordinal: int, entities: Sequence[str]
) -> dict[str, Any]:
    """What a memory is joined to by a relation or a contradiction, and what each of its entities is named in."""
    place = view.place(ordinal)
    joined: dict[int, str] = {}
    for name, (ones, others) in (("contradicts", view.links), ("related", view.relations)):
        for other in others[ones == place].tolist():
            joined.setdefault(other, name)
    nearest = sorted(joined, reverse=True)[:EXPAND_MAX]
    of = {entity: _naming(view, entity, place) for entity in entities}
    wanted = list(dict.fromkeys([*nearest, *(other for places in of.values() for other in places)]))
    stored = load(engine, scope, call, view, [view.ordinal(other) for other in wanted])
    seen = {other: see(one, view) for other, one in zip(wanted, stored, strict=True)}

    def told(other: int, retriever: str) -> dict[str, Any]:
        return PackItem(seen=seen[other], why=Why(retrievers=(retriever,))).document(scope.principal)

    return {
        "items": [told(other, joined[other]) for other in nearest],
        "entities": [
            {"entity": entity, "items": [told(other, "entity") for other in places]} for entity, places in of.items()
        ],
    }


def _naming(view: View, entity: str, place: int) -> list[int]:
    """Places of the newest memories that name an entity, but for the one at `place`."""
    places = view.with_labels([label_hash(entity)], ENTITY).places
    return sorted(places[places != place].tolist(), reverse=True)[:ENTITY_MEMORIES_MAX]


def search(engine: Engine, scope: Scope, call: Call, *, query: str) -> QueryAnswer:
    """The best memories for some words."""
    return query_memory(engine, scope, call, query=MemoryQuery(find=query))


def fetch(engine: Engine, scope: Scope, call: Call, *, ref: str) -> PackItem:
    """A memory, whole. Raises NotFound."""
    seen, _ = get_card(engine, scope, call, ref=ref, revision=None)
    return PackItem(seen=seen, why=Why(retrievers=("named",)))
