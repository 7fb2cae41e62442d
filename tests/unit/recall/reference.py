"""Visibility, ranking and requirement as the design words them, in plain Python: the index is held to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set
from functools import lru_cache
from math import log2

import numpy as np
from numpy.typing import NDArray

from mn_contract.facts import same
from mn_engine.domain.cards import CONTRADICTS, RESOLVES, SUPERSEDES, Card, CardKey, Kind
from mn_engine.domain.facts import FOREVER, Said, heads, holders, timeline
from mn_engine.domain.packets import Decision, Role
from mn_engine.domain.scope import Scope
from mn_engine.recall.analysis import analyse_query, term_hash, terms
from mn_engine.recall.bm25 import IDF_BITS
from tests.unit.recall.corpus import SmallEmbedder

_HELD = (Kind.CONSTRAINT, Kind.OBLIGATION, Kind.PREFERENCE)
_SHARES = ((-1, 512), (1, 512), (-2, 256), (2, 256))


def visible_cards(
    batches: Sequence[Sequence[Card]], reader: Scope, revision: int, as_of: int | None = None
) -> list[Card]:
    """What the reader may read and nothing that the reader may read has superseded by `revision`; oldest first.

    With `as_of`: what held then, and nothing that held then already had superseded.
    """
    readable = _readable(batches, reader, revision)
    ended = {
        target
        for card in readable
        if as_of is None or card.valid_from is None or card.valid_from <= as_of
        for target in card.targets(SUPERSEDES)
    }
    live = [card for card in readable if card.key not in ended]
    said = _facts_that_hold(live, as_of)
    return [
        card for card in live if (card.key in said if card.fact is not None else as_of is None or _holds(card, as_of))
    ]


def _facts_that_hold(live: Sequence[Card], as_of: int | None) -> set[CardKey]:
    """Of each subject, predicate and qualifier what holds at `as_of`, or the newest in time."""
    places: dict[tuple[str, ...], list[Card]] = {}
    for card in live:
        if card.fact is not None:
            names = card.fact.subject, card.fact.predicate, card.fact.qualifier
            places.setdefault(tuple(map(same, names)), []).append(card)
    found: set[CardKey] = set()
    for cards in places.values():
        said = [
            Said(card.fact.object, card.valid_from or 0, card.valid_until or FOREVER, card.fact.singular)
            for card in cards
            if card.fact is not None
        ]
        spans = timeline(said)
        holding = heads(said, spans) if as_of is None else holders(spans, as_of)
        found |= {cards[number].key for number in holding}
    return found


def _holds(card: Card, time: int) -> bool:
    begun = card.valid_from is None or card.valid_from <= time
    return begun and (card.valid_until is None or time < card.valid_until)


def ranked_cards(
    cards: Sequence[Card], decision: Decision, embedder: SmallEmbedder, resolved: Set[CardKey] = frozenset()
) -> list[tuple[CardKey, int]]:
    """(key, score) of the relevant ones among visible `cards` (oldest first), best first; `resolved` obligations."""
    scores, relevant = [0] * len(cards), [False] * len(cards)

    def add(having: list[int], worth: int, weight: Callable[[int], int]) -> None:
        for place in having:
            scores[place] += worth * weight(place)
            relevant[place] = True

    query = analyse_query(decision.focus).terms
    bags = [_bag(card) for card in cards]
    having = {term: [place for place, bag in enumerate(bags) if term in bag] for bag in bags for term in bag}
    rarity = {term: _idf(len(cards), len(having.get(term, ()))) for term in (*having, *query)}
    for term in query:
        add(having.get(term, []), rarity[term], lambda place, term=term: _weight_in(bags[place], term))
    for term in set(having) - set(query):
        best = max(
            ((cosine * rarity[one], cosine, rarity[one]) for one in query if (cosine := _near(embedder, one, term))),
            default=None,
        )
        if best is not None:
            _, cosine, of_question = best
            worth_of_it = 512 * cosine * min(rarity[term], of_question) // 1024 // 1024
            add(having[term], worth_of_it, lambda place, term=term: _weight_in(bags[place], term))
    for field, worth in (("topics", 1), ("claims", 2), ("entities", 1)):
        for label in set(getattr(decision, field)):
            carrying = [place for place, card in enumerate(cards) if label in _labels(card, field)]
            add(carrying, _idf(len(cards), len(carrying)) * worth, lambda place: 255)
    anything = not (query or decision.topics or decision.claims or decision.entities)
    if not anything:
        best_score = max(scores, default=0)
        scores = [(score << 20) // best_score if best_score else 0 for score in scores]
        if query:
            meant = embedder.embed([decision.focus])[0]
            for place, card in enumerate(cards):
                if scores[place]:
                    scores[place] += 512 * max(_cosine(embedder.embed([card.text])[0], meant), 0)
        held = {
            place
            for place, card in enumerate(cards)
            if card.kind in _HELD and card.key not in resolved and _applies(card, decision)
        }
        scores = _linked(cards, _heard(cards, scores, relevant), relevant, held)
        for place, card in enumerate(cards):
            if any(f" {entity.casefold()} " in f" {decision.focus.casefold()} " for entity in card.entities):
                scores[place] += scores[place] // 2
    found = [
        (score, place)
        for place, score in enumerate(scores)
        if (relevant[place] or anything or (cards[place].kind is Kind.PREFERENCE and _applies(cards[place], decision)))
        and (not decision.kinds or cards[place].kind in decision.kinds)
    ]
    return [(cards[place].key, score) for score, place in sorted(found, reverse=True)]


def _beside(one: Card, next_one: Card) -> bool:
    if one.body.artifact == next_one.body.artifact and one.text != next_one.text:
        return True
    times = one.occurred_at, next_one.occurred_at
    if times[0] is None or times[1] is None or times[0] % 86_400_000_000 == times[1] % 86_400_000_000 == 0:
        return False
    return abs(times[1] - times[0]) <= 1_800_000_000


def threads(cards: Sequence[Card]) -> list[list[int]]:
    """Places of cards next to each other that tell of times half an hour apart or less, and not of a date alone, or are
    parts of one source: where there are several. What says a triple is left out."""
    found: list[list[int]] = []
    for place, card in enumerate(cards):
        if card.fact is not None:
            continue
        if found and _beside(cards[found[-1][-1]], card):
            found[-1].append(place)
        else:
            found.append([place])
    return [thread for thread in found if len(thread) > 1]


def _heard(cards: Sequence[Card], scores: list[int], relevant: list[bool]) -> list[int]:
    heard = list(scores)
    for thread in threads(cards):
        own = [scores[place] for place in thread]
        total = [
            own[at] + sum(own[at + step] * share // 1024 for step, share in _SHARES if 0 <= at + step < len(own))
            for at in range(len(own))
        ]
        pooled = sum(sorted(total, reverse=True)[:3]) // 3
        for at, place in enumerate(thread):
            if total[at]:
                heard[place] = total[at] + pooled * 307 // 1024
                relevant[place] = True
    return heard


def _linked(cards: Sequence[Card], scores: list[int], relevant: list[bool], held: set[int]) -> list[int]:
    lifted = list(scores)

    def lift(place: int, worth: int) -> None:
        lifted[place] = max(lifted[place], worth)
        relevant[place] = relevant[place] or worth > 0

    at = {card.key: place for place, card in enumerate(cards)}
    joined = [
        (relation.type, place, at[relation.target])
        for place, card in enumerate(cards)
        for relation in card.relations
        if relation.target in at
    ]
    for type_, one, other in joined:
        if type_ != CONTRADICTS:
            lift(other, scores[one] * 512 // 1024)
            lift(one, scores[other] * 512 // 1024)
    worth = [max(score, 1 << 20) if place in held else score for place, score in enumerate(scores)]
    for _ in range(16):
        before = list(worth)
        for type_, one, other in joined:
            if type_ == CONTRADICTS:
                worth[other] = max(worth[other], before[one] * 896 // 1024)
                worth[one] = max(worth[one], before[other] * 896 // 1024)
    for type_, one, other in joined:
        for place in (one, other):
            if type_ == CONTRADICTS and place not in held:
                lift(place, worth[place])
    best = sorted(((score, place) for place, score in enumerate(scores) if score), reverse=True)[:8]
    for score, place in best:
        for field in ("topics", "entities"):
            for label in getattr(cards[place], field):
                carrying = [other for other, card in enumerate(cards) if label in getattr(card, field)]
                if len(carrying) <= 64:
                    for other in carrying:
                        lift(other, score * 256 // 1024)
    return lifted


def required_cards(
    batches: Sequence[Sequence[Card]], reader: Scope, revision: int, decision: Decision
) -> list[tuple[CardKey, Role]]:
    """What the record demands, oldest first."""
    resolved = {target for card in _readable(batches, reader, revision) for target in card.targets(RESOLVES)}
    roles = {Kind.OBLIGATION: Role.OBLIGATION, Kind.CONSTRAINT: Role.CONSTRAINT}
    return [
        (card.key, roles[card.kind])
        for card in visible_cards(batches, reader, revision)
        if card.kind in roles
        and not (card.kind is Kind.OBLIGATION and card.key in resolved)
        and _applies(card, decision)
    ]


def _readable(batches: Sequence[Sequence[Card]], reader: Scope, revision: int) -> list[Card]:
    return [card for batch in batches[:revision] for card in batch if card.acl.permits(reader, owner=card.owner)]


def _applies(card: Card, decision: Decision) -> bool:
    claims = {claim for claim, _ in card.claims}
    return not (card.topics or claims) or bool(set(card.topics) & set(decision.topics) or claims & set(decision.claims))


def _labels(card: Card, field: str) -> set[str]:
    return {claim for claim, _ in card.claims} if field == "claims" else set(getattr(card, field))


def _bag(card: Card) -> Counter[str]:
    return Counter(term for text in (card.text, card.summary, *card.topics, *card.entities) for term in terms(text))


def _weight_in(bag: Counter[str], term: str) -> int:
    return _weight(bag[term], bag.total())


def _near(embedder: SmallEmbedder, one: str, other: str) -> int:
    """The cosine of two words where the other is a neighbour of the one, else 0."""
    return _neighbours(embedder).get(term_hash(one), {}).get(term_hash(other), 0)


@lru_cache
def _neighbours(embedder: SmallEmbedder) -> dict[int, dict[int, int]]:
    found: dict[int, dict[int, int]] = {}
    for one, vector in zip(embedder.hashes, embedder.vectors, strict=True):
        cosines = {
            hashed: _cosine(other, vector)
            for hashed, other in zip(embedder.hashes, embedder.vectors, strict=True)
            if hashed != one
        }
        best = sorted((-cosine, hashed) for hashed, cosine in cosines.items() if cosine >= 410)
        found[one] = {hashed: -cosine for cosine, hashed in best[:10]}
    return found


def _cosine(one: NDArray[np.int8], other: NDArray[np.int8]) -> int:
    return 1024 * int(one.astype(np.int64) @ other.astype(np.int64)) // 512**2


def _idf(cards: int, having: int) -> int:
    fixed = 1 << IDF_BITS
    # Far from a whole number, or exactly one: floats are good enough to find the floor of both logarithms.
    return max(int(fixed * log2(2 * (cards + 1))) - int(fixed * log2(2 * having + 1)), 1)


def _weight(tf: int, length: int) -> int:
    norm = 1536 // 4 + 1536 * 3 * length // 400
    return max((255 * 1024 * tf + (1024 * tf + norm) // 2) // (1024 * tf + norm), 1)
