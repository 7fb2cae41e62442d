"""Folding: only what says the same, and never a difference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_engine.domain.cards import Kind, Stance, Validation
from mn_engine.domain.packs import PackItem
from mn_engine.select.cmp.folding import fold
from mn_engine.select.cmp.packing import speaking_for
from tests.unit.select.cmp.memories import OWNER, memory

SAME = "The Atlas launch of the web team is planned for May in Berlin"


def folded(*items: PackItem, apart: frozenset[int] = frozenset()) -> dict[int, int]:
    """What folds where everything is similar: only the rules decide."""
    return fold([item.seen for item in items], np.full((len(items), len(items)), 1024, np.int32), apart=apart)


def test_a_restatement_folds_into_what_is_offered_before_it() -> None:
    assert folded(
        memory("a", SAME + "."), memory("b", "Planned for May in Berlin: the Atlas launch of the web team")
    ) == {1: 0}


def test_what_says_more_folds_into_nothing() -> None:
    assert folded(memory("a", SAME), memory("b", SAME + ", budget approved")) == {}


@pytest.mark.parametrize(
    "other",
    [
        memory("b", SAME.replace("May", "June")),
        memory("b", SAME.replace("Atlas", "Apollo")),
        memory("b", SAME.replace("is planned", "is not planned")),
        memory("b", SAME.replace("is planned", "isn't planned")),
        memory("b", SAME.replace("is planned", "is only planned")),
        memory("b", SAME + " 4"),
        memory("b", SAME, stance=Stance.OPPOSES),
        memory("b", SAME, claims=(("it ships", Stance.OPPOSES),)),
        memory("b", SAME, Kind.DECISION),
        memory("b", SAME, Kind.CONSTRAINT),
        memory("b", SAME, conflicts=("c",)),
        memory("b", SAME, validation=Validation.REJECTED),
        memory("b", SAME, valid_until=5_000_000),
    ],
    ids=lambda item: item.card.text[-24:],
)
def test_a_difference_is_never_folded_away(other: PackItem) -> None:
    """Names, numbers, negations, bounds, stances, claims, kinds, conflicts, validity."""
    assert folded(memory("a", SAME), other) == {}
    assert folded(other, memory("a", SAME)) == {}


def test_two_numbers_are_two_facts() -> None:
    assert folded(memory("a", SAME + " at 10"), memory("b", SAME + " at 12")) == {}


def test_constraints_fold_into_nothing_even_if_they_are_alike() -> None:
    assert folded(memory("a", SAME, Kind.CONSTRAINT), memory("b", SAME, Kind.CONSTRAINT)) == {}


def test_the_same_words_at_another_time_are_another_event() -> None:
    one, other = (memory(name, SAME, Kind.OBSERVATION, occurred_at=at) for name, at in (("a", 1), ("b", 2)))
    assert folded(one, other) == {}
    assert folded(memory("a", SAME, occurred_at=1), memory("b", SAME, occurred_at=2)) == {1: 0}, "a fact is one"


def test_what_is_required_stands_alone() -> None:
    assert folded(memory("a", SAME), memory("b", SAME), apart=frozenset({0})) == {}
    assert folded(memory("a", SAME), memory("b", SAME), apart=frozenset({1})) == {}


def test_what_is_not_similar_is_not_looked_at() -> None:
    items = [memory("a", SAME).seen, memory("b", SAME).seen]
    assert fold(items, np.full((2, 2), 819, np.int32)) == {}
    assert fold(items, np.full((2, 2), 820, np.int32)) == {1: 0}


TEXTS = st.sampled_from([SAME, SAME + " 4", SAME.replace("May", "June"), "web team", SAME.lower(), SAME + " never"])


@given(st.lists(TEXTS, max_size=9))
def test_folds_are_one_deep_and_go_to_the_front(texts: list[str]) -> None:
    items = [memory(f"m{number}", text) for number, text in enumerate(texts)]
    into = folded(*items)
    for place, other in into.items():
        assert other < place
        assert other not in into


def test_a_speaker_names_those_it_speaks_for() -> None:
    one = memory("a", SAME, source_url="http://a", occurrences=2)
    others = [memory("b", SAME, source_url="http://b", occurrences=3), memory("c", SAME, source_url="http://a")]
    document = speaking_for(one, others, OWNER).document(OWNER)
    assert document["folded_refs"] == ["b", "c"]
    assert document["source_urls"] == ["http://a", "http://b"]
    assert document["occurrences"] == 6
