"""Ranking: every visible live card that is relevant to a decision, best first, in integers.

Relevant is what matches a term, topic, claim or entity of the decision. A decision that has none of these, or only stop
words, has no preference: every visible card is relevant, newest first. Ties are newest first, so every place is unique.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mn_engine.domain.cards import Kind
from mn_engine.domain.packets import Decision
from mn_engine.recall.analysis import Query, analyse_query, claim_hash, label_hash
from mn_engine.recall.bm25 import WEIGHT_MAX, idf
from mn_engine.recall.index import CLAIM, ENTITY, TOPIC
from mn_engine.recall.segments import CARD_BITS
from mn_engine.recall.view import View

RETRIEVERS: Final = ("lexical", "topic", "claim", "entity", "recent")
"""Bit i of a card's retriever byte says that RETRIEVERS[i] found it."""
_LABELS: Final = (
    ("topics", label_hash, TOPIC, 1, 1),
    ("claims", claim_hash, CLAIM, 2, 2),
    ("entities", label_hash, ENTITY, 3, 1),
)
"""Decision field, its hash and mask, retriever bit, how many full-weight terms of its rarity a label is worth."""


_KINDS: Final = np.arange(max(Kind) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Relevant cards, best first: places, scores and retriever bits, side by side."""

    places: NDArray[np.uint32]
    scores: NDArray[np.int64]
    found_by: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.places)


def rank(view: View, decision: Decision) -> Ranking:
    """Every relevant card that `view` shows, of the decision's kinds."""
    query = analyse_query(decision.focus)
    scores = np.zeros(view.count, np.int64)
    found_by = np.zeros(view.count, np.uint8)
    if not query.terms and not decision.topics and not decision.claims and not decision.entities:
        found_by[view.visible] = 1 << RETRIEVERS.index("recent")
    else:
        _score_terms(view, query, scores, found_by)
        _score_labels(view, decision, scores, found_by)
    if decision.kinds:
        wanted = np.isin(_KINDS, list(decision.kinds))[view.column("kinds")]
        found_by[~wanted] = 0
    relevant = np.flatnonzero(found_by)
    # One unique number a card, so that a plain sort of integers gives the order: score, then newest first. A score has
    # 39 bits, room for 80,000 full-weight terms of one card.
    order = np.sort(scores[relevant] << CARD_BITS | relevant)[::-1]
    places = order & ((1 << CARD_BITS) - 1)
    return Ranking(places=places.astype(np.uint32), scores=order >> CARD_BITS, found_by=found_by[places])


def retrievers(found_by: int) -> tuple[str, ...]:
    """The names of a card's retriever bits."""
    return tuple(name for bit, name in enumerate(RETRIEVERS) if found_by >> bit & 1)


def _score_terms(view: View, query: Query, scores: NDArray[np.int64], found_by: NDArray[np.uint8]) -> None:
    for hashed in query.hashes:
        places, weights = view.with_term(hashed)
        scores[places] += idf(view.visible_count, len(places)) * weights.astype(np.int64)
        found_by[places] |= np.uint8(1)


def _score_labels(view: View, decision: Decision, scores: NDArray[np.int64], found_by: NDArray[np.uint8]) -> None:
    for field, hash_of, mask, bit, worth in _LABELS:
        for hashed in sorted({hash_of(label) for label in getattr(decision, field)}):
            places, _ = view.with_label(hashed, mask)
            scores[places] += idf(view.visible_count, len(places)) * WEIGHT_MAX * worth
            found_by[places] |= np.uint8(1 << bit)
