"""Ranking: every visible live card that is relevant to a decision, best first, in integers.

Relevant is what matches a term, topic, claim or entity of the decision, says it in related words, stands next to what
does in a conversation, or is joined to it by a relation or a label that few share; and each preference that applies,
whatever its words. A decision that has none of these, or only stop words, has no preference: every visible card is
relevant, newest first. Ties are newest first, so every place is unique.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mn_engine.domain.cards import Kind
from mn_engine.domain.packets import Decision
from mn_engine.recall.analysis import Query, analyse_names, analyse_query, claim_hash, label_hash
from mn_engine.recall.best import smallest
from mn_engine.recall.bm25 import WEIGHT_MAX, idf
from mn_engine.recall.embedder import Embedder
from mn_engine.recall.index import CLAIM, ENTITY, NO_CARD, TOPIC
from mn_engine.recall.lexicon import Lexicon, Neighbour
from mn_engine.recall.required import applying, demanded
from mn_engine.recall.segments import CARD_BITS
from mn_engine.recall.vectors import COSINE_BITS, cosines
from mn_engine.recall.view import THREAD_GAP, Having, View

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
_WIDENED_MAX: Final = 64
"""Words of a question whose related words are looked for: its first ones, because a long text says what it means."""
_MEANT_MAX: Final = 2048
"""Cards whose vectors are looked at: the best by words and labels."""
_MEANING_WORTH: Final = 512
"""What a card at cosine 1 is worth beside the best by words and labels, in 1024ths."""
_NEIGHBOUR_SHARES: Final = ((1, 512), (2, 256))
"""(distance in the conversation, what is heard of a score there, in 1024ths)."""
assert max(distance for distance, _ in _NEIGHBOUR_SHARES) <= THREAD_GAP
_THREAD_SHARE: Final = 307
_THREAD_BEST: Final = 3
"""A conversation's best scores add their mean times this to each member that scores or hears a neighbour, in
1024ths."""
_CONTRADICTION_SHARE: Final = 896
_RELATION_SHARE: Final = 512
_LABEL_SHARE: Final = 256
"""What a card is worth at least that contradicts another, is related to it, or shares a label: 1024ths of its score."""
_CONTRADICTIONS_MAX: Final = 16
"""How far contradictions of contradictions are followed."""
_LABELS_FROM: Final = 8
"""The best cards, whose labels are followed."""
_LABEL_CARDS_MAX: Final = 64
"""A label that more cards carry joins nothing."""
_NAMED_SHARE: Final = 512
_SCORE_BITS: Final = 20
"""The best card by words and labels scores 1 << _SCORE_BITS, before neighbours are heard."""


_KINDS: Final = np.arange(max(Kind) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """All relevant cards, the best first and in order, the rest as they were recorded; and scores and retriever bits
    of those that are in order."""

    places: NDArray[np.int64]
    scores: NDArray[np.int64]
    found_by: NDArray[np.uint16]


class Ranking:
    """Relevant cards, best first: places, scores and retriever bits, side by side.

    Sorting many takes longer than finding them, and a page needs the best, so the order is worked out as far as it is
    asked for.
    """

    def __init__(self, places: NDArray[np.int64], scores: NDArray[np.int64], found_by: NDArray[np.uint16]) -> None:
        """`places` are ascending; scores and retriever bits are by place."""
        self._places = places
        self._found_by = found_by
        # One unique number a card, so that integers in order give the ranking: score, then newest first.
        self._keys = ~(scores[places] << CARD_BITS | places)

    def ordered(self, count: int) -> Ordered:
        """The best `count` in order, which may be more than there are."""
        best = smallest(self._keys, count)
        rest = self._places[self._keys > best[-1]] if len(best) else self._places
        places = ~best & ((1 << CARD_BITS) - 1)
        return Ordered(
            places=np.concatenate((places, rest)), scores=~best >> CARD_BITS, found_by=self._found_by[places]
        )

    def best_of(self, places: NDArray[np.int64]) -> int | None:
        """The place of the best of these cards; None where none is ranked."""
        keys = self._keys[np.isin(self._places, places)]
        return int(~keys.min() & ((1 << CARD_BITS) - 1)) if len(keys) else None

    @cached_property
    def whole(self) -> Ordered:
        """All of it, in order."""
        return self.ordered(len(self))

    @property
    def places(self) -> NDArray[np.int64]:
        """Places, best first."""
        return self.whole.places

    @property
    def scores(self) -> NDArray[np.int64]:
        """Scores, side by side with `places`."""
        return self.whole.scores

    @property
    def found_by(self) -> NDArray[np.uint16]:
        """Retriever bits, side by side with `places`."""
        return self.whole.found_by

    def __len__(self) -> int:
        return len(self._keys)


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


def rank(
    view: View,
    decision: Decision,
    embedder: Embedder,
    *,
    held: NDArray[np.int64] | None = None,
    preferences: bool = True,
    hops: int = 1,
    trace: Trace | None = None,
) -> Ranking:
    """Every relevant card that `view` shows, of the decision's kinds.

    With `preferences`, those that apply are relevant whatever their words: a decision wants them, a search does not.
    Labels are followed so many `hops` from what is found.

    `held` are places of cards that are in the packet whatever they score; None: those that the record demands. `trace`
    is told of each stage.
    """
    held = demanded(view, decision) if held is None else held
    trace = trace or Trace()
    wanted = standing(view, decision) if preferences else np.zeros(0, np.int64)
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
        _score_links(view, np.union1d(held, wanted), scores, found_by, hops)
        trace.note("links", scores)
        _score_named(view, decision.focus, scores)
        trace.note("names", scores)
    found_by[wanted] |= STANDING
    if decision.kinds:
        found_by[~np.isin(_KINDS, list(decision.kinds))[view.column("kinds")]] = 0
    return Ranking(np.flatnonzero(found_by != 0), scores, found_by)


def standing(view: View, decision: Decision) -> NDArray[np.int64]:
    """Places of visible preferences that name no topics and no claims, or share one with the decision."""
    return applying(view, decision, view.preferences)


@cache
def retrievers(found_by: int) -> tuple[str, ...]:
    """The names of a card's retriever bits."""
    return tuple(name for bit, name in enumerate(RETRIEVERS) if found_by >> bit & 1)


def _score_terms(
    view: View, query: Query, lexicon: Lexicon, scores: NDArray[np.int64], found_by: NDArray[np.uint16]
) -> None:
    near = _near(query, lexicon)
    own, others = view.with_terms((*query.hashes, *near)).split(len(query.hashes))
    rarities = dict(zip(query.hashes, _rarities(view, own), strict=True))
    _add(own, list(rarities.values()), scores)
    found_by[own.places] |= _LEXICAL
    worths = [
        _RELATED_WORTH * cosine * min(rarity, rarities[word]) >> 2 * COSINE_BITS
        for (cosine, word), rarity in zip(_nearest(near, rarities), _rarities(view, others), strict=True)
    ]
    _add(others, worths, scores)
    found_by[others.places] |= _RELATED


def _rarities(view: View, having: Having) -> list[int]:
    return [idf(view.visible_count, count) for count in having.counts]


def _add(having: Having, worths: list[int], scores: NDArray[np.int64]) -> None:
    """Adds to each card's score what each thing that it has is worth, times its weight."""
    np.add.at(scores, having.places, having.spread(worths) * having.weights)


def _near(query: Query, lexicon: Lexicon) -> dict[int, list[Neighbour]]:
    """Words near the question's that are none of them: hash -> (cosine, that word) of each that it is near."""
    found: dict[int, list[Neighbour]] = {}
    own = frozenset(query.hashes)
    for hashed in query.hashes[:_WIDENED_MAX]:
        for neighbour, cosine in lexicon.near(hashed):
            if neighbour not in own:
                found.setdefault(neighbour, []).append((cosine, hashed))
    return found


def _nearest(near: Mapping[int, list[Neighbour]], rarities: Mapping[int, int]) -> Iterator[Neighbour]:
    """Of the question's words that each word is near, the one by which it is worth most: a common word's neighbours are
    worth no more than the word itself."""
    for some in near.values():
        yield max(some, key=lambda one: (one[0] * rarities[one[1]], one[0]))


def _score_labels(view: View, decision: Decision, scores: NDArray[np.int64], found_by: NDArray[np.uint16]) -> None:
    for field, hash_of, mask, bit, worth in _LABELS:
        labels = sorted({hash_of(label) for label in getattr(decision, field)})
        if labels:
            having = view.with_labels(labels, mask)
            worths = [rarity * WEIGHT_MAX * worth for rarity in _rarities(view, having)]
            np.add.at(scores, having.places, having.spread(worths))
            found_by[having.places] |= np.uint16(1 << bit)


def _scaled(scores: NDArray[np.int64]) -> NDArray[np.int64]:
    best = int(scores.max(initial=0))
    if best:
        scores <<= _SCORE_BITS
        scores //= best
    return scores


def _score_meaning(view: View, meant: NDArray[np.int8], scores: NDArray[np.int64]) -> None:
    """Adds what the best cards' vectors say to what their words say."""
    if not meant.any():
        return
    found = np.flatnonzero(scores != 0)
    if len(found) > _MEANT_MAX:
        best = ~smallest(~(scores[found] << CARD_BITS | found), _MEANT_MAX) & ((1 << CARD_BITS) - 1)
        found = np.sort(best)  # vectors are read faster in the order in which they lie
    near = np.maximum(cosines(view.index.vectors(found), meant), 0)
    scores[found] += near * _MEANING_WORTH << _SCORE_BITS >> 2 * COSINE_BITS


def _heard(view: View, scores: NDArray[np.int64], found_by: NDArray[np.uint16]) -> NDArray[np.int64]:
    """Scores to which those of the same conversation have added: a turn says little without what it answers.

    What it costs goes by the cards that score, not by the length of conversations.
    """
    threads = view.threads
    if not len(threads.places):
        return scores
    scored = np.flatnonzero(scores != 0)
    slots = threads.slots[scored].astype(np.int64)
    scored, slots = scored[slots != NO_CARD], slots[slots != NO_CARD]
    heard = np.zeros(len(threads.places), np.int64)
    heard[slots] = own = scores[scored]
    for distance, share in _NEIGHBOUR_SHARES:
        lent = own * share >> 10
        np.add.at(heard, slots + distance, lent)
        np.add.at(heard, slots - distance, lent)
    hearing = np.flatnonzero((heard != 0) & (threads.places != NO_CARD))
    places, heard = threads.places[hearing].astype(np.int64), heard[hearing]
    found_by[places] |= (scores[places] == 0) * _ADJACENT
    scores[places] = heard + (_pooled(heard, threads.numbers[hearing]) * _THREAD_SHARE >> 10)
    return scores


def _pooled(scores: NDArray[np.int64], numbers: NDArray[np.int32]) -> NDArray[np.int64]:
    """The mean of a thread's best _THREAD_BEST scores, for each score; `numbers` say whose it is, ascending."""
    if not len(scores):
        return scores
    starts = np.append(0, np.flatnonzero(numbers[1:] != numbers[:-1]) + 1)
    left = scores << CARD_BITS | np.arange(len(scores))  # distinct, so that a best one says where it stands
    total = np.zeros(len(starts), np.int64)
    for _ in range(_THREAD_BEST):
        best = np.maximum.reduceat(left, starts)
        total += best >> CARD_BITS
        left[best & ((1 << CARD_BITS) - 1)] = 0
    return np.repeat(total // _THREAD_BEST, np.diff(starts, append=len(scores)))


def _score_links(
    view: View, held: NDArray[np.int64], scores: NDArray[np.int64], found_by: NDArray[np.uint16], hops: int
) -> None:
    """Lifts what is joined to a card to a share of that card's score: what contradicts it above all, what contradicts
    that, and so on (invariant 3). Whoever contradicts what is `held` contradicts something of full score."""
    own = scores.copy()
    ones, others = view.relations
    _lift(scores, found_by, others, np.where(view.visible[ones], own[ones], 0) * _RELATION_SHARE >> 10)
    ones, others = view.links
    if len(ones):
        worth = own.copy()
        worth[held] = np.maximum(worth[held], 1 << _SCORE_BITS)
        for _ in range(_CONTRADICTIONS_MAX):
            lent = np.where(view.visible[ones], worth[ones], 0) * _CONTRADICTION_SHARE >> 10
            if (lent <= worth[others]).all():
                break
            np.maximum.at(worth, others, lent)
        lifted = np.setdiff1d(others, held)
        _lift(scores, found_by, lifted, worth[lifted])
    if view.index.labelled:
        _score_sharing(view, own, scores, found_by, hops)


def _score_sharing(
    view: View, own: NDArray[np.int64], scores: NDArray[np.int64], found_by: NDArray[np.uint16], hops: int
) -> None:
    """Lifts what shares a label with the best cards, and with several hops what shares one with the best of those."""
    followed: set[int] = set()
    for _ in range(hops):
        found = np.flatnonzero(own != 0)
        best = ~smallest(~(own[found] << CARD_BITS | found), _LABELS_FROM) & ((1 << CARD_BITS) - 1)
        labels: dict[int, int] = {}  # each with the best score that it stands beside, which comes first
        for place in best.tolist():
            for label in view.index.labels_of(place):
                if label not in followed:
                    labels.setdefault(label, int(own[place]))
        followed |= labels.keys()
        reached = np.zeros(view.count, np.int64)
        for label, places in view.sharing(list(labels), most=_LABEL_CARDS_MAX).items():
            worth = np.full(len(places), labels[label] * _LABEL_SHARE >> 10)
            _lift(scores, found_by, places, worth)
            np.maximum.at(reached, places, worth)
        reached[own != 0] = 0
        own = reached


def _lift(
    scores: NDArray[np.int64], found_by: NDArray[np.uint16], places: NDArray[np.int64], worth: NDArray[np.int64]
) -> None:
    """Gives cards at least these scores; a card may stand there several times."""
    found_by[places[(scores[places] == 0) & (worth > 0)]] |= _LINKED
    np.maximum.at(scores, places, worth)


def _score_named(view: View, focus: str, scores: NDArray[np.int64]) -> None:
    """A card that carries an entity which the question names counts half as much again."""
    named = np.unique(view.with_labels(analyse_names(focus), ENTITY).places)
    scores[named] += scores[named] * _NAMED_SHARE >> 10
