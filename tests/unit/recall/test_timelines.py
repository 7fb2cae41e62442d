"""Timelines over columns say what the rule says place by place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_engine.domain.facts import FOREVER, Said, heads, successor, timeline
from mn_engine.recall import timelines as module
from mn_engine.recall.columns import NO_END
from mn_engine.recall.timelines import Memo, Timelines

Told = tuple[int, int, int, int | None, bool]
"""Place, triple, since, until (None: it gives none), singular."""


def timelines(told: list[Told], cards: list[int] | None = None, memo: Memo | None = None) -> Timelines:
    """The timelines of facts whose cards are 100, 101 and so on, where they are not given."""
    places, triples, since, until, singular = zip(*told, strict=True) if told else ((), (), (), (), ())
    return Timelines(
        np.arange(100, 100 + len(told)) if cards is None else np.asarray(cards, np.int64),
        places=np.asarray(places, np.uint64),
        triples=np.asarray(triples, np.uint64),
        singular=np.asarray(singular, np.bool_),
        since=np.asarray(since, np.int64),
        until=np.asarray([NO_END if end is None else end for end in until], np.int64),
        memo={} if memo is None else memo,
    )


@st.composite
def told(draw: st.DrawFn) -> list[Told]:
    """What was recorded, of a few places; of some in the order in which it held."""
    drawn = draw(
        st.lists(
            st.tuples(
                st.integers(0, 3), st.integers(0, 2), st.integers(0, 8), st.integers(1, 9) | st.none(), st.booleans()
            ),
            max_size=14,
        )
    )
    ordered = draw(st.sets(st.integers(0, 3)))
    plain = draw(st.sampled_from([None, True, False]))
    found: list[Told] = []
    for number, (place, triple, since, end, singular) in enumerate(drawn):
        since = number if place in ordered else since
        end = None if end is None or end <= since else end
        found.append((place, triple, since, end, singular if plain is None else plain))
    return found


@given(told())
def test_columns_say_what_the_rule_says(history: list[Told]) -> None:
    ours = timelines(history)
    newest: set[int] = set()
    holding: dict[int, set[int]] = {time: set() for time in range(16)}
    for place in range(4):
        numbers = [number for number, one in enumerate(history) if one[0] == place]
        said = [
            Said(triple, since, FOREVER if until is None else until, singular)
            for _, triple, since, until, singular in (history[number] for number in numbers)
        ]
        spans = timeline(said)
        newest |= {numbers[fact] for fact in heads(said, spans)}
        for time, held in holding.items():
            held |= {numbers[span.fact] for span in spans if span.since <= time < span.until}
        for fact, number in enumerate(numbers):
            after = successor(said, spans, fact)
            assert ours.successor(100 + number) == (None if after is None else 100 + numbers[after])
            assert ours.spans(100 + number) == [(one.since, one.until) for one in spans if one.fact == fact]
    assert set((ours.heads - 100).tolist()) == newest
    assert len(ours.heads) == len(newest)
    for time, held in holding.items():
        assert set((ours.holding(time) - 100).tolist()) == held


@given(told(), st.lists(st.sets(st.integers(0, 13)), max_size=4))
def test_what_is_kept_for_one_reader_changes_nothing_for_another(history: list[Told], hidden: list[set[int]]) -> None:
    """Each sees another part of the same cards, and one memo serves them all."""
    memo: Memo = {}
    for some in [set[int](), *hidden]:
        kept = [number for number in range(len(history)) if number not in some]
        told, cards = [history[number] for number in kept], [100 + number for number in kept]
        ours, apart = timelines(told, cards, memo), timelines(told, cards)
        assert ours.heads.tolist() == apart.heads.tolist()
        for time in range(16):
            assert ours.holding(time).tolist() == apart.holding(time).tolist()
        for card in cards:
            assert (ours.spans(card), ours.successor(card)) == (apart.spans(card), apart.successor(card))
            assert ours.beside(card) == apart.beside(card)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MEMO_MAX", 3)
    memo: Memo = {}
    told = [(place, triple, 5, None, False) for place in range(10) for triple in (1, 1)]
    assert len(timelines(told, memo=memo).heads) == 10
    assert 0 < len(memo) <= 3


def test_a_card_that_says_no_fact_has_no_time() -> None:
    ours = timelines([(1, 1, 5, None, True)])
    assert ours.spans(7) == []
    assert ours.successor(7) is None


def test_places_are_those_of_several_facts() -> None:
    assert list(timelines([]).places()) == []
    told = [(1, 1, 5, None, True), (2, 1, 5, None, True), (1, 2, 6, None, True)]
    assert [cards for cards, _ in timelines(told).places()] == [[100, 102]]
