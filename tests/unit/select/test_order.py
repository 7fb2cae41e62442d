"""The one order: against the reference, and what redundancy does to it (invariant 5)."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mn_contract.limits import DIVERSITY_WINDOW
from mn_engine.domain.cards import Card
from mn_engine.domain.packets import Decision
from mn_engine.recall.embedder import NoEmbedder
from mn_engine.recall.index import NO_TERM, SKETCH
from mn_engine.recall.rank import rank
from mn_engine.select.order import Order, marginal_utilities, similarities
from tests.unit.recall.corpus import SAMPLE, batches_of_cards, card, decisions, recorded
from tests.unit.select.reference import Candidate, in_order, marginal
from tests.unit.select.test_allocate import NOBODY, candidates

sketches = st.sets(st.integers(0, 30), max_size=SKETCH)


def rows(drawn: list[set[int]]) -> NDArray[np.uint32]:
    return np.asarray([sorted(one) + [NO_TERM] * (SKETCH - len(one)) for one in drawn], np.uint32).reshape(-1, SKETCH)


@SAMPLE
@given(st.lists(sketches, min_size=1, max_size=30))
def test_similarity_is_jaccards_in_integers(drawn: list[set[int]]) -> None:
    found = similarities(rows(drawn))
    for at, one in enumerate(drawn):
        for other_at, other in enumerate(drawn):
            if at != other_at:
                assert found[at, other_at] == 1024 * len(one & other) // max(len(one | other), 1)


def test_similarity_counts_more_shared_terms_than_a_word_has_bits() -> None:
    drawn = [set(range(at, at + SKETCH)) for at in range(0, 200, 2)]
    found = similarities(rows(drawn))
    assert found[0].tolist()[1:4] == [1024 * 14 // 18, 1024 * 12 // 20, 1024 * 10 // 22]
    assert found[90].tolist()[88:90] == [1024 * 12 // 20, 1024 * 14 // 18]


@SAMPLE
@given(st.lists(st.tuples(st.integers(0, 10**9), sketches, st.integers(0, 3)), min_size=1, max_size=25))
def test_marginal_utilities_are_the_references(drawn: list[tuple[int, set[int], int]]) -> None:
    drawn.sort(key=lambda one: -one[0])
    found = marginal_utilities(
        np.asarray([score for score, _, _ in drawn]),
        rows([terms for _, terms, _ in drawn]),
        np.asarray([text for _, _, text in drawn], np.uint64),
        opposed=NOBODY,
    )
    window = [
        Candidate(place=place, score=score, size=1, tokens=1, stance=None, terms=frozenset(terms), text=text)  # type: ignore[arg-type]
        for place, (score, terms, text) in enumerate(drawn)
    ]
    assert found.tolist() == marginal(window)


@SAMPLE
@given(batches_of_cards(cards_max=20), decisions)
def test_the_order_is_the_references(batches: list[list[Card]], decision: Decision) -> None:
    view = recorded(batches).view()
    ranking = rank(view, decision, NoEmbedder())
    order = Order(view, ranking.places, ranking.scores, view.item_sizes[ranking.places])
    offered = order.window(0) if len(ranking) else []
    expected = in_order(candidates(view, decision, ranking))
    assert [int(ranking.places[at]) for at in offered] == [one.place for one in expected]


def test_of_the_same_text_one_comes_first_and_the_others_last() -> None:
    texts = ["parser lexer bracket"] * 3 + ["parser slow", "bracket cache memory"]
    view = recorded([[card(f"c{at}", text) for at, text in enumerate(texts)]]).view()
    ranking = rank(view, Decision(focus="parser lexer bracket"), NoEmbedder())
    order = Order(view, ranking.places, ranking.scores, view.item_sizes[ranking.places])
    offered = [int(ranking.places[at]) for at in order.window(0)]
    assert offered[0] == 2
    assert sorted(offered[1:3]) == [3, 4]
    assert offered[3:] == [1, 0]


def test_windows_are_ordered_alone_whichever_is_asked_for_first() -> None:
    """A page deep in the order costs no more than the first, and reads the same order."""
    view = recorded([[card(f"c{at}", f"parser x{at % 7}") for at in range(450)]]).view()
    ranking = rank(view, Decision(focus="parser x3 x5"), NoEmbedder())
    arguments = (view, ranking.places, ranking.scores, view.item_sizes[ranking.places])
    forwards, backwards = Order(*arguments), Order(*arguments)
    late = [backwards.window(number) for number in (2, 1, 0)]
    assert [forwards.window(number) for number in (0, 1, 2)] == late[::-1]
    for number in range(3):
        first = number * DIVERSITY_WINDOW
        assert sorted(forwards.window(number)) == list(range(first, min(first + DIVERSITY_WINDOW, 450)))
