"""Visibility, ranking and requirement as the design words them, in plain Python: the index is held to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log2

from mn_engine.domain.cards import RESOLVES, SUPERSEDES, Card, CardKey, Kind
from mn_engine.domain.packets import Decision, Role
from mn_engine.domain.scope import Scope
from mn_engine.recall.analysis import analyse_query, terms
from mn_engine.recall.bm25 import IDF_BITS


def visible_cards(batches: Sequence[Sequence[Card]], reader: Scope, revision: int) -> list[Card]:
    """What the reader may read and nothing that the reader may read has superseded by `revision`; oldest first."""
    readable = _readable(batches, reader, revision)
    ended = {target for card in readable for target in card.targets(SUPERSEDES)}
    return [card for card in readable if card.key not in ended]


def ranked_cards(cards: Sequence[Card], decision: Decision) -> list[tuple[CardKey, int]]:
    """(key, score) of the relevant ones among visible `cards` (oldest first), best first."""
    query = analyse_query(decision.focus).terms
    bags = [_bag(card) for card in cards]
    scores, relevant = [0] * len(cards), [False] * len(cards)
    for term in query:
        having = [place for place, bag in enumerate(bags) if term in bag]
        for place in having:
            scores[place] += _idf(len(cards), len(having)) * _weight(bags[place][term], bags[place].total())
            relevant[place] = True
    for field, worth in (("topics", 1), ("claims", 2), ("entities", 1)):
        for label in set(getattr(decision, field)):
            having = [place for place, card in enumerate(cards) if label in _labels(card, field)]
            for place in having:
                scores[place] += _idf(len(cards), len(having)) * 255 * worth
                relevant[place] = True
    anything = not (query or decision.topics or decision.claims or decision.entities)
    found = [
        (score, place)
        for place, score in enumerate(scores)
        if (relevant[place] or anything) and (not decision.kinds or cards[place].kind in decision.kinds)
    ]
    return [(cards[place].key, score) for score, place in sorted(found, reverse=True)]


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


def _idf(cards: int, having: int) -> int:
    fixed = 1 << IDF_BITS
    # Far from a whole number, or exactly one: floats are good enough to find the floor of both logarithms.
    return max(int(fixed * log2(2 * (cards + 1))) - int(fixed * log2(2 * having + 1)), 1)


def _weight(tf: int, length: int) -> int:
    norm = 1536 // 4 + 1536 * 3 * length // 400
    return max((255 * 1024 * tf + (1024 * tf + norm) // 2) // (1024 * tf + norm), 1)
