"""Facts: whose place a fact takes, and when, against a model that keeps a calendar of holders."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_contract.errors import InvalidInput
from mn_contract.facts import same
from mn_engine.domain.facts import FOREVER, Fact, Said, Span, contradictions, heads, holders, successor, timeline

_DAYS = 12
"""The calendar: days 0 to 11, and the last day stands for all that follow."""


def said(object_: str, since: int, until: int = FOREVER, *, plural: bool = False) -> Said:
    """A fact, in days."""
    return Said(object_, since, until, singular=not plural)


@st.composite
def histories(draw: st.DrawFn) -> list[Said]:
    """What may be recorded of one place, in order."""
    drawn = draw(
        st.lists(
            st.tuples(st.sampled_from("abc"), st.integers(0, 10), st.integers(1, 11) | st.none(), st.booleans()),
            max_size=9,
        )
    )
    return [
        said(object_, since, FOREVER if end is None or end <= since else end, plural=plural)
        for object_, since, end, plural in drawn
    ]


def calendar(history: list[Said]) -> list[set[int]]:
    """Who holds on each day, worked out day by day."""
    days: list[set[int]] = [set() for _ in range(_DAYS)]
    for number, one in enumerate(history):
        if any(later.triple == one.triple and later.since == one.since for later in history[number + 1 :]):
            continue
        until = min(one.until, _DAYS)
        if one.singular and one.until == FOREVER:
            until = next((day for day in range(one.since + 1, _DAYS) if days[day] - days[day - 1]), _DAYS)
        for day in range(one.since, until):
            days[day] = {number} if one.singular else days[day] | {number}
    return days


@given(histories())
def test_a_timeline_is_the_calendar(history: list[Said]) -> None:
    spans = timeline(history)
    assert [holders(spans, day) for day in range(_DAYS)] == [sorted(day) for day in calendar(history)]
    assert all(span.since < span.until for span in spans)
    singular = [span for span in spans if history[span.fact].singular]
    assert all(one.until <= other.since for one, other in pairwise(singular))


@given(histories())
def test_heads_hold_last_and_whoever_does_not_has_a_successor(history: list[Said]) -> None:
    spans = timeline(history)
    newest = heads(history, spans)
    ends = {span.fact: span.until for span in spans}  # ascending, so the last one stays
    singular = {fact: end for fact, end in ends.items() if history[fact].singular}
    assert [fact for fact in newest if history[fact].singular] == [
        fact for fact, end in singular.items() if end == max(singular.values())
    ]
    for fact in range(len(history)):
        if fact in newest:
            assert successor(history, spans, fact) is None
        path = [fact]  # following successors ends
        for _ in range(2 * len(history) + 1):
            if (after := successor(history, spans, path[-1])) is None:
                break
            path.append(after)
        else:
            pytest.fail(f"{path} does not end")


def test_a_new_fact_closes_the_prior_one_where_it_begins() -> None:
    assert timeline([said("a", 1), said("b", 5)]) == [Span(1, 5, 0), Span(5, FOREVER, 1)]


def test_a_fact_that_is_dated_back_splits_what_held_then_and_ends_where_the_next_begins() -> None:
    history = [said("a", 1), said("c", 7), said("b", 4)]
    assert timeline(history) == [Span(1, 4, 0), Span(4, 7, 2), Span(7, FOREVER, 1)]
    history = [said("a", 1), said("b", 4, 6)]
    spans = timeline(history)
    assert spans == [Span(1, 4, 0), Span(4, 6, 1), Span(6, FOREVER, 0)]
    assert heads(history, spans) == [0]
    assert successor(history, spans, 1) == 0


def test_times_that_nobody_spoke_of_stay_empty() -> None:
    spans = timeline([said("a", 1, 3), said("b", 5, 6)])
    assert spans == [Span(1, 3, 0), Span(5, 6, 1)]
    assert holders(spans, 4) == []


def test_saying_a_fact_again_sets_its_end_right() -> None:
    history = [said("b", 2, 5), said("a", 1, 9), said("a", 1, 2)]
    spans = timeline(history)
    assert spans == [Span(1, 2, 2), Span(2, 5, 0)]  # what the wrong end had covered holds again
    assert successor(history, spans, 1) == 2


def test_plural_facts_accumulate_and_a_singular_one_takes_their_place() -> None:
    plural = [said("a", 1, plural=True), said("b", 2, plural=True)]
    assert holders(timeline(plural), 3) == [0, 1]
    assert heads(plural, timeline(plural)) == [0, 1]
    spans = timeline([*plural, said("c", 4)])
    assert [holders(spans, day) for day in (3, 4)] == [[0, 1], [2]]


def fact(**changes: object) -> Fact:
    """A fact."""
    given_: dict[str, object] = {"subject": "Ada", "predicate": "works at", "object": "Acme", **changes}
    return Fact(**given_)  # type: ignore[arg-type]


def test_a_singular_fact_takes_the_place_of_a_long_plural_one_among_short_ones() -> None:
    history = [
        said("a", 0, 12, plural=True),
        said("b", 1, 2, plural=True),
        said("c", 3, 4, plural=True),
        said("d", 6, 8),
    ]
    assert [(one.since, one.until) for one in timeline(history) if one.fact == 0] == [(0, 6), (8, 12)]
    days = calendar(history)
    assert [holders(timeline(history), day) for day in range(_DAYS)] == [sorted(one) for one in days]


def test_a_place_is_subject_predicate_and_qualifier_and_nothing_like_them() -> None:
    places = [
        fact(),
        fact(subject="Adah"),
        fact(predicate="works for"),
        fact(qualifier="evenings"),
        fact(subject="Ada works", predicate="at"),
    ]
    assert len({one.place_hash for one in places}) == len(places)
    assert fact(object="Bell").place_hash == fact().place_hash != fact().triple_hash
    assert fact(object="Bell").triple_hash != fact().triple_hash
    assert fact(subject=" ADA ", predicate="Works At").place_hash == fact().place_hash
    assert fact(object="acme").triple_hash != fact().triple_hash
    assert same(" CAF\u00c9") == same("caf\u00e9")


def test_the_canonical_form_comes_back() -> None:
    one = fact(qualifier="evenings", singular=False)
    assert Fact.from_json(one.as_json()) == one


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((name, value) for name in ("subject", "predicate", "object") for value in ("", "  ", "\ud800", 7)),
        ("subject", "s" * 161),
        ("predicate", "p" * 161),
        ("qualifier", "q" * 161),
        ("object", "o" * 4097),
    ],
)
def test_a_fact_that_says_nothing_or_too_much_is_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        fact(**{field: value})
    assert refused.value.field == field


def test_what_time_brings_contradicts_nothing() -> None:
    apart = [frozenset({number}) for number in range(3)]
    assert contradictions([said("a", 1), said("b", 5)], apart) == []
    assert contradictions([said("a", 1, 3), said("b", 3, 5)], apart) == []
    assert contradictions([said("a", 5), said("b", 1)], apart) == []


def test_sources_that_say_otherwise_of_one_time_contradict_each_other() -> None:
    apart = [frozenset({number}) for number in range(3)]
    assert contradictions([said("a", 1), said("b", 1)], apart) == [(0, 1)]
    assert contradictions([said("a", 1, 9), said("b", 5)], apart) == [(0, 1)]
    assert contradictions([said("a", 1, 9), said("b", 5, 7), said("c", 8, 9)], apart) == [(0, 1), (0, 2)]


def test_one_source_plural_facts_and_the_same_said_twice_contradict_nothing() -> None:
    shared = [frozenset({1, 2}), frozenset({2, 3})]
    apart = [frozenset({1}), frozenset({2})]
    assert contradictions([said("a", 1), said("b", 1)], shared) == []
    assert contradictions([said("a", 1), said("a", 1)], apart) == []
    assert contradictions([said("a", 1, 9), said("a", 2, 8)], apart) == []
    assert contradictions([said("a", 1, plural=True), said("b", 1)], apart) == []
    taken_back = [said("a", 1, 9), said("b", 2, 9), said("a", 1, 2)]
    assert contradictions(taken_back, [frozenset({number}) for number in range(3)]) == []


@given(histories(), st.lists(st.sets(st.sampled_from("xyz"), max_size=2), min_size=20, max_size=20))
def test_contradictions_are_the_pairs_that_speak_of_one_time(history: list[Said], rests_on: list[set[str]]) -> None:
    sources = [frozenset(some) for some in rests_on[: len(history)]]
    again = {(one.triple, one.since): number for number, one in enumerate(history)}
    said = [
        one
        for one in range(len(history))
        if history[one].singular and again[history[one].triple, history[one].since] == one
    ]

    def times(number: int) -> set[int]:
        one = history[number]
        later = [history[other].since for other in said if history[other].since > one.since]
        end = min(later, default=FOREVER) if one.until == FOREVER else one.until
        return set(range(one.since, min(end, 60)))

    assert contradictions(history, sources) == [
        (one, other)
        for one in said
        for other in said
        if one < other
        and history[one].triple != history[other].triple
        and times(one) & times(other)
        and not sources[one] & sources[other]
    ]
