"""Ranking: every visible live card that is relevant to a decision, best first, in integers.

Relevant is what matches a term, topic, claim or entity of the decision, says it in related words, stands next to what
does in a conversation, or is joined to it by a relation or a label that few share; and each preference that applies,
whatever its words. A decision that has none of these, or only stop words, has no preference: every visible card is
relevant, newest first. Ties are newest first, so every place is unique.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mn_engine.domain.cards import Kind
from mn_engine.domain.packets import Decision
from mn_engine.recall.analysis import Query, analyse_names, analyse_query, claim_hash, label_hash
from mn_engine.recall.bm25 import WEIGHT_MAX, idf
from mn_engine.recall.embedder import Embedder
from mn_engine.recall.index import CLAIM, ENTITY, TOPIC
from mn_engine.recall.lexicon import Lexicon, Neighbour
from mn_engine.recall.required import applies
from mn_engine.recall.segments import CARD_BITS
from mn_engine.recall.vectors import COSINE_BITS, cosines
from mn_engine.recall.view import View

RETRIEVERS: Final = ("lexical", "topic", "claim", "entity", "recent", "related", "adjacent", "linked", "standing")
"""Bit i of a card's retriever bits says that RETRIEVERS[i] found it: by the question's words, by a label, because there
is no preference, by words near the question's in meaning, by a neighbour in its conversation, by what it is joined to,
by its type."""
_LEXICAL, _RECENT, _RELATED, _ADJACENT, _LINKED, STANDING = (
    np.uint16(1 << RETRIEVERS.index(name))
    for name in ("lexical", "recent", "related", "adjacent", "linked", "standing")
)
_LABELS: Final = (
    ("topics", label_hash, TOPIC, 1, 1),
    ("claims", claim_hash, CLAIM, 2, 2),
    ("entities", label_hash, ENTITY, 3, 1),
)
"""Decision field, its hash and mask, retriever bit, how many full-weight terms of its rarity a label is worth."""
_RELATED_WORTH: Final = 512
"""What a word at cosine 1 is worth beside the question's own, in 1024ths."""
_MEANT_MAX: Final = 2048
"""Cards whose vectors are looked at: the best by words and labels."""
_MEANING_WORTH: Final = 512
"""What a card at cosine 1 is worth beside the best by words and labels, in 1024ths."""
_NEIGHBOUR_SHARES: Final = ((1, 512), (2, 256))
"""(distance in the conversation, what is heard of a score there, in 1024ths)."""
_THREAD_SHARE: Final = 307
_THREAD_BEST: Final = 3
"""A conversation's best scores add their mean times this to each of its members, in 1024ths."""
_CONTRADICTION_SHARE: Final = 896
_RELATION_SHARE: Final = 512
_LABEL_SHARE: Final = 256
"""What a card is worth at least that contradicts another, is related to it, or shares a label: 1024ths of its score."""
_LABELS_FROM: Final = 8
"""The best cards, whose labels are followed."""
_LABEL_CARDS_MAX: Final = 64
"""A label that more cards carry joins nothing."""
_NAMED_SHARE: Final = 512
_SCORE_BITS: Final = 20
"""The best card by words and labels scores 1 << _SCORE_BITS, before neighbours are heard."""


_KINDS: Final = np.arange(max(Kind) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Relevant cards, best first: places, scores and retriever bits, side by side."""

    places: NDArray[np.uint32]
    scores: NDArray[np.int64]
    found_by: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.places)


class Trace:
    """Follows one card (or none) through a ranking: `parts` are (stage, what it added to the card's score)."""

    def __init__(self, place: int | None = None) -> None:
        self._place = place
        self._score = 0
        self.parts: list[tuple[str, int]] = []

    def note(self, stage: str, scores: NDArray[np.int64]) -> None:
        """Notes what the stage that has just ended added."""
        if self._place is not None and (added := int(scores[self._place]) - self._score):
            self.parts.append((stage, added))
            self._score += added

    def rescale(self, scores: NDArray[np.int64]) -> None:
        """Tells the parts so far in the units that scores have from now on."""
        if self._place is not None and self.parts:
            before, self._score = self._score, int(scores[self._place])
            *some, (last, _) = [(stage, part * self._score // before) for stage, part in self.parts]
            self.parts = [*some, (last, self._score - sum(part for _, part in some))]


def rank(view: View, decision: Decision, embedder: Embedder, trace: Trace | None = None) -> Ranking:
    """Every relevant card that `view` shows, of the decision's kinds. `trace` is told of each stage."""
    trace = trace or Trace()
    query = analyse_query(decision.focus)
    scores = np.zeros(view.count, np.int64)
    found_by = np.zeros(view.count, np.uint16)
    if not query.terms and not decision.topics and not decision.claims and not decision.entities:
        found_by[view.visible] = _RECENT
    else:
        _score_terms(view, query, embedder.lexicon, scores, found_by)
        trace.note("words", scores)
        _score_labels(view, decision, scores, found_by)
        trace.note("labels", scores)
        scores = _scaled(scores)
        trace.rescale(scores)
        if query.terms:
            _score_meaning(view, embedder.embed([decision.focus])[0], scores)
            trace.note("meaning", scores)
        scores = _heard(view, scores, found_by)
        trace.note("neighbours", scores)
        _score_links(view, scores, found_by)
        trace.note("links", scores)
        _score_named(view, decision.focus, scores)
        trace.note("names", scores)
    found_by[standing(view, decision)] |= STANDING
    if decision.kinds:
        wanted = np.isin(_KINDS, list(decision.kinds))[view.column("kinds")]
        found_by[~wanted] = 0
    relevant = np.flatnonzero(found_by)
    # One unique number a card, so that a plain sort of integers gives the order: score, then newest first.
    order = np.sort(scores[relevant] << CARD_BITS | relevant)[::-1]
    places = order & ((1 << CARD_BITS) - 1)
    return Ranking(places=places.astype(np.uint32), scores=order >> CARD_BITS, found_by=found_by[places])


def standing(view: View, decision: Decision) -> NDArray[np.bool_]:
    """Visible preferences that name no topics and no claims, or share one with the decision."""
    found: NDArray[np.bool_] = view.preferences() & applies(view, decision)
    return found


def retrievers(found_by: int) -> tuple[str, ...]:
    """The names of a card's retriever bits."""
    return tuple(name for bit, name in enumerate(RETRIEVERS) if found_by >> bit & 1)


def _score_terms(
    view: View, query: Query, lexicon: Lexicon, scores: NDArray[np.int64], found_by: NDArray[np.uint16]
) -> None:
    rarities: dict[int, int] = {}
    for hashed in query.hashes:
        places, weights = view.with_term(hashed)
        rarities[hashed] = idf(view.visible_count, len(places))
        scores[places] += rarities[hashed] * weights.astype(np.int64)
        found_by[places] |= _LEXICAL
    for hashed, (cosine, rarity) in _related(query, lexicon, rarities).items():
        places, weights = view.with_term(hashed)
        worth = _RELATED_WORTH * cosine * min(idf(view.visible_count, len(places)), rarity) >> 2 * COSINE_BITS
        scores[places] += worth * weights.astype(np.int64)
        found_by[places] |= _RELATED


def _related(query: Query, lexicon: Lexicon, rarities: dict[int, int]) -> dict[int, Neighbour]:
    """Words near the question's: hash -> (cosine, rarity of the question's word), of several the one worth most.

    A common word's neighbours are worth no more than the word itself.
    """
    found: dict[int, Neighbour] = {}
    for hashed in query.hashes:
        for neighbour, cosine in lexicon.near(hashed):
            if neighbour not in rarities:
                found[neighbour] = max(
                    found.get(neighbour, (0, 0)), (cosine, rarities[hashed]), key=lambda one: (one[0] * one[1], one)
                )
    return found


def _score_labels(view: View, decision: Decision, scores: NDArray[np.int64], found_by: NDArray[np.uint16]) -> None:
    for field, hash_of, mask, bit, worth in _LABELS:
        for hashed in sorted({hash_of(label) for label in getattr(decision, field)}):
            places, _ = view.with_label(hashed, mask)
            scores[places] += idf(view.visible_count, len(places)) * WEIGHT_MAX * worth
            found_by[places] |= np.uint16(1 << bit)


def _scaled(scores: NDArray[np.int64]) -> NDArray[np.int64]:
    best = int(scores.max(initial=0))
    return (scores << _SCORE_BITS) // best if best else scores


def _score_meaning(view: View, meant: NDArray[np.int8], scores: NDArray[np.int64]) -> None:
    """Adds what the best cards' vectors say to what their words say."""
    found = np.flatnonzero(scores)
    if len(found) > _MEANT_MAX:
        order = scores[found] << CARD_BITS | found
        found = np.partition(order, len(order) - _MEANT_MAX)[-_MEANT_MAX:] & ((1 << CARD_BITS) - 1)
    near = np.maximum(cosines(view.index.vectors(found), meant), 0)
    scores[found] += near * _MEANING_WORTH << _SCORE_BITS >> 2 * COSINE_BITS


def _heard(view: View, scores: NDArray[np.int64], found_by: NDArray[np.uint16]) -> NDArray[np.int64]:
    """Scores to which those of the same conversation have added: a turn says little without what it answers."""
    threads = view.threads
    if not len(threads.members):
        return scores
    own = scores[threads.members]
    heard = own.copy()
    for distance, share in _NEIGHBOUR_SHARES:
        together = threads.numbers[distance:] == threads.numbers[:-distance]
        heard[distance:] += np.where(together, own[:-distance], 0) * share >> 10
        heard[:-distance] += np.where(together, own[distance:], 0) * share >> 10
    heard += _pooled(heard, threads.starts, threads.numbers) * _THREAD_SHARE >> 10
    found_by[threads.members[(heard > 0) & (own == 0)]] |= _ADJACENT
    scores = scores.copy()
    scores[threads.members] = heard
    return scores


def _pooled(scores: NDArray[np.int64], starts: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The mean of a thread's best _THREAD_BEST scores, for each of its members."""
    left = scores.copy()
    total = np.zeros(len(starts), np.int64)
    for _ in range(_THREAD_BEST):
        best = np.maximum.reduceat(left, starts)
        total += best
        first = np.flatnonzero(left == best[numbers])
        _, once = np.unique(numbers[first], return_index=True)
        left[first[once]] = 0
    return (total // _THREAD_BEST)[numbers]


def _score_links(view: View, scores: NDArray[np.int64], found_by: NDArray[np.uint16]) -> None:
    """Lifts what is joined to a card to a share of that card's score: what contradicts it above all (invariant 3)."""
    own = scores.copy()
    for (ones, others), share in ((view.links, _CONTRADICTION_SHARE), (view.relations, _RELATION_SHARE)):
        _lift(scores, found_by, others, np.where(view.visible[ones], own[ones], 0) * share >> 10)
    best = np.flatnonzero(own)
    best = np.sort(own[best] << CARD_BITS | best)[::-1][:_LABELS_FROM] & ((1 << CARD_BITS) - 1)
    for place in best.tolist():
        for hashed in view.index.labels_of(np.asarray([place])).tolist():
            places, _ = view.with_label(hashed, 0)
            if len(places) <= _LABEL_CARDS_MAX:
                worth = np.full(len(places), int(own[place]) * _LABEL_SHARE >> 10)
                _lift(scores, found_by, places.astype(np.int64), worth)


def _lift(
    scores: NDArray[np.int64], found_by: NDArray[np.uint16], places: NDArray[np.int64], worth: NDArray[np.int64]
) -> None:
    """Gives cards at least these scores; a card may stand there several times."""
    found_by[places[(scores[places] == 0) & (worth > 0)]] |= _LINKED
    np.maximum.at(scores, places, worth)


def _score_named(view: View, focus: str, scores: NDArray[np.int64]) -> None:
    """A card that carries an entity which the question names counts half as much again."""
    named = np.zeros(view.count, np.bool_)
    for hashed in analyse_names(focus):
        places, _ = view.with_label(hashed, ENTITY)
        named[places] = True
    scores[named] += scores[named] * _NAMED_SHARE >> 10
