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
from mn_engine.domain.seen import Seen
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
    for known in tell(engine, scope, call, view, places[::-1].tolist()):
        assert isinstance(known, KnownFact), "what holds is a fact"
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
    pairs = _contradictions(engine, scope, call, view, view.facts.places())
    places = sorted({place for pair in pairs for place in pair})
    told = [one for one in tell(engine, scope, call, view, places) if isinstance(one, KnownFact)]
    known = dict(zip(places, told, strict=True))
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
        seen = [see(one, view) for one in stored]
        facts = iter(known_facts(engine, scope, call, view, [one for one in seen if one.stored.card.fact is not None]))
        for one in seen:
            yield PackItem(seen=one, why=_NAMED) if one.stored.card.fact is None else next(facts)


def known_facts(engine: Engine, scope: Scope, call: Call, view: View, seen: Sequence[Seen]) -> list[KnownFact]:
    """Cards that say facts, with when they hold and what says otherwise."""
    places = [view.place(one.stored.ordinal) for one in seen]
    against: dict[int, list[int]] = {place: [] for place in places}
    for pair in _contradictions(engine, scope, call, view, [view.facts.beside(place) for place in places]):
        for here, there in (pair, pair[::-1]):
            if here in against:
                against[here].append(there)
    known = []
    for place, one in zip(places, seen, strict=True):
        after = view.facts.successor(place)
        known.append(
            KnownFact(
                seen=one,
                spans=tuple(view.facts.spans(place)),
                contradicts=tuple(view.index.key(other) for other in against[place]),
                successor=None if after is None else view.index.key(after),
            )
        )
    return known


def _contradictions(
    engine: Engine, scope: Scope, call: Call, view: View, timelines: Iterable[tuple[list[int], list[Said]]]
) -> list[tuple[int, int]]:
    """The contradictions of some places, each given by its cards and facts, as pairs of cards. Sources are looked up
    where there is a contradiction if they differ."""
    doubtful: dict[int, tuple[list[int], list[Said]]] = {}
    looked: set[int] = set()
    for cards, said in timelines:
        call.check()
        if not cards or cards[0] in looked:
            continue
        looked.add(cards[0])
        if len(said) > 1 and contradictions(said, [frozenset({number}) for number in range(len(said))]):
            doubtful[cards[0]] = cards, said
    asked = [card for cards, _ in doubtful.values() for card in cards]
    sources: dict[int, frozenset[str]] = {}
    for start in range(0, len(asked), _LOADED_AT_ONCE):
        some = asked[start : start + _LOADED_AT_ONCE]
        stored = load(engine, scope, call, view, [view.ordinal(card) for card in some])
        sources.update(zip(some, (_sources(one.card) for one in stored), strict=True))
    return [
        (cards[one], cards[other])
        for cards, said in doubtful.values()
        for one, other in contradictions(said, [sources[card] for card in cards])
    ]


def _sources(card: Card) -> frozenset[str]:
    """What a fact rests on: the artifacts that it cites, else whoever wrote it."""
    cited = {source.artifact for source in card.sources if source != card.body}
    return frozenset(cited or {f"{card.owner}:"})
