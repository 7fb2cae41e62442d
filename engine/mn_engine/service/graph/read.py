"""What held when, what is near whom, and what contradicts what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mn_contract.errors import InvalidInput
from mn_contract.facts import same
from mn_contract.limits import FACTS_PAGE_MAX, HOPS_MAX
from mn_contract.names import check_label
from mn_engine.domain.cards import Card
from mn_engine.domain.extraction import Candidate, candidates
from mn_engine.domain.facts import Said, contradictions
from mn_engine.domain.known import KnownFact
from mn_engine.domain.packets import Why
from mn_engine.domain.packs import PackItem
from mn_engine.domain.scope import Scope
from mn_engine.recall.analysis import label_hash
from mn_engine.recall.index import ENTITY
from mn_engine.recall.view import View
from mn_engine.service.compile import load
from mn_engine.service.engine import Call, Engine
from mn_engine.service.seen import see

_LOADED_AT_ONCE: Final = 512
_NAMED: Final = Why(retrievers=("entity",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Facts, and the whole number of those that there are; of what held at `as_of` as it was known at `revision`."""

    facts: tuple[KnownFact, ...]
    total: int
    revision: int
    as_of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What is known of an entity, and how many hops from it each other entity is, nearest first; `cut` where more is
    known than is told."""

    entity: str
    facts: tuple[KnownFact, ...]
    episodes: tuple[PackItem, ...]
    entities: tuple[tuple[str, int], ...]
    revision: int
    as_of: int
    cut: bool


def time_travel(
    engine: Engine,
    scope: Scope,
    call: Call,
    *,
    as_of: int | None,
    recorded_as_of: int | None,
    recorded_at: int | None,
    subject: str,
    predicate: str,
) -> Known:
    """What held at `as_of` (now, where it is left out) as it was known at a revision (`recorded_as_of`) or at a time
    (`recorded_at`; the newest, where both are left out)."""
    time, revision = when(engine, scope, call, as_of, recorded_as_of, recorded_at)
    view = engine.indexes.view(scope, revision, time)
    places = np.sort(view.facts.holding(time))
    places = places[view.visible[places]]
    if subject:
        named = view.with_labels([label_hash(check_label(subject, "subject"))], ENTITY).places
        places = np.intersect1d(places, named)
    found: list[KnownFact] = []
    total = 0
    for known in known_facts(engine, scope, call, view, places[::-1].tolist()):
        if subject and same(known.fact.subject) != same(subject):
            continue
        if predicate and same(known.fact.predicate) != same(predicate):
            continue
        total += 1
        if len(found) < FACTS_PAGE_MAX:
            found.append(known)
        elif not subject and not predicate:
            total = len(places)
            break
    return Known(facts=tuple(found), total=total, revision=revision, as_of=time)


def query_entity(engine: Engine, scope: Scope, call: Call, *, entity: str, hops: int, as_of: int | None) -> Around:
    """What is known of an entity and, over so many hops, of those that it is said to have to do with."""
    if not 1 <= hops <= HOPS_MAX:
        raise InvalidInput(f"hops must be 1-{HOPS_MAX}, not {hops}", field="hops")
    time, revision = when(engine, scope, call, as_of, None, None)
    view = engine.indexes.view(scope, revision, time)
    distances = {same(check_label(entity, "entity")): (entity, 0)}
    frontier, seen, facts, episodes, cut = [entity], set[int](), list[KnownFact](), list[PackItem](), False
    for hop in range(1, hops + 1):
        places = np.unique(view.with_labels([label_hash(name) for name in frontier], ENTITY).places)
        new = [place for place in places.tolist()[::-1] if place not in seen]
        room = FACTS_PAGE_MAX - len(facts) - len(episodes)
        cut |= len(new) > room
        new = new[: max(room, 0)]
        seen.update(new)
        frontier = []
        for known in tell(engine, scope, call, view, new):
            if isinstance(known, KnownFact):
                facts.append(known)
            else:
                episodes.append(known)
            for name in known.card.entities:
                if same(name) not in distances:
                    distances[same(name)] = (name, hop)
                    frontier.append(name)
        if not frontier:
            break
    return Around(
        entity=entity,
        facts=tuple(facts),
        episodes=tuple(episodes),
        entities=tuple(named for named in distances.values() if named[1]),
        revision=revision,
        as_of=time,
        cut=cut,
    )


def list_contradictions(engine: Engine, scope: Scope, call: Call) -> tuple[tuple[KnownFact, KnownFact], ...]:
    """Pairs of facts that say otherwise of one time, from different sources; both stand in the record."""
    _, revision = when(engine, scope, call, None, None, None)
    view = engine.indexes.view(scope, revision)
    pairs: list[tuple[int, int]] = []
    for cards, said in view.facts.places():
        call.check()
        if len({one.triple for one in said if one.singular}) > 1:
            pairs += _contradictions(engine, scope, call, view, cards, said)
    places = sorted({place for pair in pairs for place in pair})
    known = dict(zip(places, known_facts(engine, scope, call, view, places), strict=True))
    return tuple((known[one], known[other]) for one, other in pairs)


def propose_facts(engine: Engine, scope: Scope, call: Call, *, content: str, about: str) -> list[Candidate]:
    """What might be facts in a text; nothing is recorded. Raises NotFound and RunClosed as every call of a run does."""
    engine.store.run(scope.run_key).check_readable()
    return candidates(content, about=about)


def when(
    engine: Engine, scope: Scope, call: Call, as_of: int | None, revision: int | None, recorded_at: int | None
) -> tuple[int, int]:
    """The valid time that is asked of, and the revision. Raises InvalidInput."""
    call.check()
    run = engine.store.run(scope.run_key)
    run.check_readable()
    now = engine.clock()
    for name, time in (("as_of", as_of), ("recorded_as_of", recorded_at)):
        if time is not None and time > now:
            raise InvalidInput(f"{name} lies in the future, of which nothing is known yet; leave it out", field=name)
    if recorded_at is not None:
        revision = engine.store.revision_at(scope.run_key, recorded_at)
        if not revision:
            raise InvalidInput("recorded_as_of is before anything was recorded in this run", field="recorded_as_of")
    if revision is not None and not 1 <= revision <= run.revision:
        told = f"recorded_as_of must be one of the run's revisions, 1-{run.revision}"
        raise InvalidInput(told, field="recorded_as_of")
    return now if as_of is None else as_of, run.revision if revision is None else revision


def tell(engine: Engine, scope: Scope, call: Call, view: View, places: Sequence[int]) -> Iterable[KnownFact | PackItem]:
    """Cards as they are told: facts with their times."""
    for start in range(0, len(places), _LOADED_AT_ONCE):
        some = places[start : start + _LOADED_AT_ONCE]
        stored = load(engine, scope, call, view, [view.ordinal(place) for place in some])
        for place, one in zip(some, stored, strict=True):
            seen = see(one, view)
            if one.card.fact is None:
                yield PackItem(seen=seen, why=_NAMED)
                continue
            cards, said = view.facts.beside(place)
            others = _contradictions(engine, scope, call, view, cards, said)
            against = tuple(
                view.index.key(other if here == place else here) for here, other in others if place in (here, other)
            )
            after = view.facts.successor(place)
            yield KnownFact(
                seen=seen,
                spans=tuple(view.facts.spans(place)),
                contradicts=against,
                successor=None if after is None else view.index.key(after),
            )


def known_facts(engine: Engine, scope: Scope, call: Call, view: View, places: Sequence[int]) -> Iterable[KnownFact]:
    return (known for known in tell(engine, scope, call, view, places) if isinstance(known, KnownFact))


def _contradictions(
    engine: Engine, scope: Scope, call: Call, view: View, cards: Sequence[int], said: Sequence[Said]
) -> list[tuple[int, int]]:
    """The contradictions of one place, as pairs of cards."""
    nothing = [frozenset({number}) for number in range(len(said))]
    if not contradictions(said, nothing):
        return []
    stored = load(engine, scope, call, view, [view.ordinal(card) for card in cards])
    sources = [_sources(one.card) for one in stored]
    return [(cards[one], cards[other]) for one, other in contradictions(said, sources)]


def _sources(card: Card) -> frozenset[str]:
    """What a fact rests on: the artifacts that it cites, else whoever wrote it."""
    cited = {source.artifact for source in card.sources if source != card.body}
    return frozenset(cited or {f"{card.owner}:"})
