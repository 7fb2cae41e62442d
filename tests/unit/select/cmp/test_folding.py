"""Folding: only what says the same, and never a difference."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_engine.domain.cards import Card, Kind, Stance, Validation
from mn_engine.domain.facts import Fact
from mn_engine.domain.packs import PackItem
from mn_engine.select.cmp.folding import fold
from mn_engine.select.cmp.packing import speaking_for
from mn_engine.select.cmp.utility import time_of, trust_of
from tests.unit.select.cmp.memories import NOON, OWNER, memory

SAME = "The Atlas launch of the web team is planned for May in Berlin"


def folded(*items: PackItem, apart: frozenset[int] = frozenset()) -> dict[int, int]:
    return fold([item.seen for item in items], apart=apart)


def of(owner: str, item: PackItem) -> PackItem:
    """The memory, as another principal's."""
    stored = item.seen.stored
    return replace(item, seen=replace(item.seen, stored=replace(stored, card=replace(stored.card, owner=owner))))


@pytest.mark.parametrize(
    "again",
    [
        SAME,
        SAME + ".",
        SAME.replace("The ", ""),
        SAME.replace("the web", "web"),
        SAME.replace("The Atlas", "the atlas"),
        SAME.replace(" planned ", "  planned "),
    ],
)
def test_a_restatement_folds_into_what_is_offered_before_it(again: str) -> None:
    """Articles, the capital of a word, a full stop at the end and the width of a space say nothing."""
    assert folded(memory("a", SAME), memory("b", again)) == {1: 0}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The flight goes from Rome to Paris.", "The flight goes from Paris to Rome."),
        ("Acme acquired Globex.", "Globex acquired Acme."),
        ("Deploy before the freeze.", "Deploy after the freeze."),
        ("Latency is over the limit.", "Latency is under the limit."),
        ("Turn the flag on.", "Turn the flag off."),
        ("All tests pass.", "Some tests pass."),
        ("Few tests failed.", "A few tests failed."),
        ("Ana owns the site.", "Ana owned the site."),
        ("It will ship in May.", "It did ship in May."),
        ("Is the gateway live in Berlin?", "The gateway is live in Berlin."),
        ("The gateway is live.", "The gateway is live?"),
        ("Atlas costs $10 a seat", "Atlas costs \u20ac10 a seat"),
        ("price < 10", "price > 10"),
        ("x = 1", "X = 1"),
        ("x=1 and y=2", "x=2 and y=1"),
        ("margin: +5 %", "margin: -5 %"),
        ("price 1.5", "price 1 .5"),
        ("area 10\u00b2", "area 102"),
        ("Logs stay with us", "Logs stay with US"),
        ("It goes from Port A to port B", "It goes from port b to Port a"),
        ("if x:\n  a\nb", "if x:\n  a\n  b"),
        ("Stop, do not ship", "Stop do not ship"),
        ("It is planned", "It is not planned"),
        ("It is planned", "It is planned and the budget approved"),
    ],
)
def test_what_says_something_else_is_not_folded(one: str, other: str) -> None:
    """Order, stop words, tense, signs, numbers, names, lines: each may be the difference."""
    assert folded(memory("a", one), memory("b", other)) == {}
    assert folded(memory("b", other), memory("a", one)) == {}


@pytest.mark.parametrize(
    "other",
    [
        memory("b", SAME, stance=Stance.OPPOSES),
        memory("b", SAME, claims=(("it ships", Stance.OPPOSES),)),
        memory("b", SAME, Kind.EVIDENCE),
        memory("b", SAME, Kind.CONSTRAINT),
        memory("b", SAME, conflicts=("c",)),
        memory("b", SAME, validation=Validation.REJECTED),
        memory("b", SAME, valid_from=5_000_000),
        memory("b", SAME, valid_until=5_000_000),
        memory("b", SAME, entities=("Globex",)),
        memory("b", SAME, valid_from=1, fact=Fact(subject="a", predicate="b", object="c")),
    ],
    ids=range(10),
)
def test_a_difference_is_never_folded_away(other: PackItem) -> None:
    """Stances, claims, kinds, conflicts, validation, validity, entities, triples."""
    one = memory("a", SAME, valid_from=1) if other.card.fact else memory("a", SAME)
    assert folded(one, other) == {}
    assert folded(other, one) == {}


def test_entities_are_compared_as_names_are() -> None:
    assert folded(memory("a", SAME, entities=("Priya",)), memory("b", SAME, entities=(" priya",))) == {1: 0}


@pytest.mark.parametrize("kind", [Kind.CONSTRAINT, Kind.OBLIGATION, Kind.SUMMARY])
def test_rules_and_what_is_derived_fold_into_nothing_even_if_they_are_alike(kind: Kind) -> None:
    assert folded(memory("a", SAME, kind), memory("b", SAME, kind)) == {}


def test_nobody_speaks_for_another() -> None:
    assert folded(memory("a", SAME), of("bob", memory("b", SAME))) == {}


def test_who_speaks_is_trusted_as_much_and_as_new() -> None:
    weak, strong = memory("a", SAME, confidence=0.01), memory("b", SAME, confidence=0.99)
    assert folded(weak, strong) == {0: 1}
    assert folded(strong, weak) == {1: 0}
    old, new = memory("a", SAME, occurred_at=NOON - 9), memory("b", SAME, occurred_at=NOON)
    assert folded(old, new) == {0: 1}
    older = memory("a", SAME, confidence=0.9, occurred_at=NOON - 9)
    newer = memory("b", SAME, confidence=0.1, occurred_at=NOON)
    assert folded(older, newer) == {}, "neither has both"
    unrated, rated = memory("a", SAME), memory("b", SAME, confidence=0.4)
    assert folded(unrated, rated) == {}, "a query for a little trust would find one of them only"


def test_the_same_words_at_another_time_are_another_event() -> None:
    one, other = (memory(name, SAME, Kind.OBSERVATION, occurred_at=at) for name, at in (("a", 1), ("b", 2)))
    assert folded(one, other) == {}
    assert folded(memory("a", SAME, occurred_at=2), memory("b", SAME, occurred_at=1)) == {1: 0}, "a fact is one"


def test_what_is_required_stands_alone() -> None:
    assert folded(memory("a", SAME), memory("b", SAME), apart=frozenset({0})) == {}
    assert folded(memory("a", SAME), memory("b", SAME), apart=frozenset({1})) == {}


TEXTS = st.sampled_from([SAME, SAME + ".", SAME + " 4", SAME.replace("May", "June"), SAME.replace("The ", "")])
MEMORIES = st.tuples(TEXTS, st.sampled_from([None, 0.1, 0.9]), st.sampled_from([None, 1, 2]))


def _shown(card: Card) -> float:
    return -1.0 if card.confidence is None else card.confidence


@given(st.lists(MEMORIES, max_size=9))
def test_folds_are_one_deep_and_go_to_who_has_no_less(drawn: list[tuple[str, float | None, int | None]]) -> None:
    items = [
        memory(f"m{number}", text, confidence=confidence, occurred_at=at)
        for number, (text, confidence, at) in enumerate(drawn)
    ]
    into = folded(*items)
    for place, other in into.items():
        assert other not in into
        one, speaker = items[place].card, items[other].card
        for reckoned in (trust_of, _shown, time_of):
            assert reckoned(speaker) >= reckoned(one)
    left = [items[place] for place in range(len(items)) if place not in into]
    assert folded(*left) == {}, "nothing more can be folded"


def test_a_speaker_names_those_it_speaks_for() -> None:
    one = memory("a", SAME, source_url="http://a", occurrences=2)
    others = [memory("b", SAME, source_url="http://b", occurrences=3), memory("c", SAME, source_url="http://a")]
    document = speaking_for(one, others, OWNER).document(OWNER)
    assert document["folded_refs"] == ["b", "c"]
    assert document["source_urls"] == ["http://a", "http://b"]
    assert document["occurrences"] == 6
