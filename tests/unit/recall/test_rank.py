"""Ranking against the reference model, and what is relevant."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given

from mn_engine.domain.cards import CONTRADICTS, Card, CardKey, Kind, Relation, Stance
from mn_engine.domain.facts import Fact
from mn_engine.domain.packets import Decision
from mn_engine.recall.analysis import analyse_query, term_hash
from mn_engine.recall.embedder import Embedder, NoEmbedder
from mn_engine.recall.lexicon import Lexicon
from mn_engine.recall.rank import rank, retrievers
from mn_engine.recall.view import View
from tests.unit.recall.corpus import (
    MANY,
    SAMPLE,
    SMALL,
    as_ofs,
    batches_of_cards,
    card,
    decisions,
    recorded,
    scope,
    without,
)
from tests.unit.recall.reference import ranked_cards, visible_cards

DAY = 24 * 60 * 60 * 1_000_000
"""Microseconds."""


def found(view: View, decision: Decision) -> list[tuple[CardKey, int]]:
    """(key, score) in the order of the ranking."""
    ranking = rank(view, decision, SMALL)
    return [
        (view.index.key(place), score) for place, score in zip(ranking.places, ranking.scores.tolist(), strict=True)
    ]


def check_reference(batches: list[list[Card]], decision: Decision, as_of: int | None) -> None:
    index = recorded(batches).index()
    for revision in range(index.revision + 1):
        expected = ranked_cards(visible_cards(batches, scope(), revision, as_of), decision, SMALL)
        assert found(View(index, scope(), revision, as_of), decision) == expected


@SAMPLE
@given(batches_of_cards(), decisions, as_ofs)
def test_the_ranking_is_the_references_at_every_revision(
    batches: list[list[Card]], decision: Decision, as_of: int | None
) -> None:
    check_reference(batches, decision, as_of)


@pytest.mark.full
@pytest.mark.timeout(900)
@MANY
@given(batches_of_cards(cards_max=30), decisions, as_ofs)
def test_the_ranking_is_the_references_in_many_cases(
    batches: list[list[Card]], decision: Decision, as_of: int | None
) -> None:
    check_reference(batches, decision, as_of)


@SAMPLE
@given(batches_of_cards(), decisions)
def test_hidden_cards_have_no_effect_on_ranks_or_scores(batches: list[list[Card]], decision: Decision) -> None:
    """Invariant 7: document frequencies too are counted over what the reader sees."""
    assert found(recorded(batches).view(), decision) == found(recorded(without(batches, scope())).view(), decision)


@pytest.mark.parametrize("focus", ["", "the of and", "?!"])
def test_a_decision_without_anything_to_match_finds_everything_newest_first(focus: str) -> None:
    view = recorded([[card("a", "one"), card("b", "two")], [card("c", "three")]]).view()
    assert found(view, Decision(focus=focus)) == [(CardKey("alice", name), 0) for name in "cba"]
    bits = rank(view, Decision(focus=focus), SMALL).found_by.tolist()
    assert [retrievers(one) for one in bits] == [("recent",)] * 3


def test_a_decision_that_matches_nothing_finds_nothing() -> None:
    view = recorded([[card("a", "one")]]).view()
    assert len(rank(view, Decision(focus="zebra"), NoEmbedder())) == 0
    assert len(rank(view, Decision(topics=("zebra",)), NoEmbedder())) == 0


def test_equal_scores_are_ordered_newest_first() -> None:
    view = recorded([[card("a", "parser x1"), card("b", "parser x2")], [card("c", "parser x3")]]).view()
    assert [key.id for key, _ in found(view, Decision(focus="parser"))] == ["c", "b", "a"]


def test_a_ranking_says_which_retrievers_found_a_card() -> None:
    view = recorded(
        [[card("a", "parser", topics=("speed",), entities=("Ada",), claims=(("it works", Stance.SUPPORTS),))]]
    ).view()
    decision = Decision(focus="parser", topics=("Speed",), claims=("it works",), entities=("ada",))
    assert retrievers(int(rank(view, decision, NoEmbedder()).found_by[0])) == ("lexical", "topic", "claim", "entity")


def test_kinds_filter_what_is_optional_and_move_no_score() -> None:
    view = recorded([[card("a", "parser"), card("b", "parser slow", kind=Kind.EVIDENCE)]]).view()
    every, some = (
        found(view, Decision(focus="parser", kinds=kinds)) for kinds in (frozenset(), frozenset({Kind.EVIDENCE}))
    )
    assert some == [one for one in every if one[0].id == "b"]


@SAMPLE
@given(batches_of_cards(), decisions)
def test_an_order_that_goes_part_of_the_way_is_the_beginning_of_the_whole(
    batches: list[list[Card]], decision: Decision
) -> None:
    ranking = rank(recorded(batches).view(), decision, SMALL)
    for count in range(len(ranking) + 2):
        part = ranking.ordered(count)
        assert part.places[:count].tolist() == ranking.places[:count].tolist()
        assert part.scores.tolist() == ranking.scores[:count].tolist()
        assert part.found_by.tolist() == ranking.found_by[:count].tolist()
        assert sorted(part.places.tolist()) == sorted(ranking.places.tolist())


def test_a_long_conversation_makes_only_those_relevant_that_stand_next_to_something() -> None:
    words = ["parser", *["cache"] * 6]
    view = recorded([[card(f"c{at}", word, occurred_at=at) for at, word in enumerate(words)]]).view()
    assert {key.id for key, _ in found(view, Decision(focus="parser"))} == {"c0", "c1", "c2"}


@pytest.mark.parametrize(
    ("times", "ids"),
    [
        ((20_000 * DAY, 20_000 * DAY), {"a"}),
        ((20_000 * DAY + 1, 20_000 * DAY + 1), {"a", "b"}),
        ((20_000 * DAY - 1, 20_000 * DAY), {"a", "b"}),
        ((-DAY, -DAY), {"a"}),
    ],
)
def test_a_date_makes_no_conversation_and_a_time_does(times: tuple[int, int], ids: set[str]) -> None:
    cards = [card(name, word, occurred_at=at) for name, word, at in zip("ab", ("parser", "zebra"), times, strict=True)]
    view = recorded([cards]).view()
    assert {key.id for key, _ in found(view, Decision(focus="parser"))} == ids


def test_parts_of_one_source_are_neighbours_and_others_are_not() -> None:
    whole = card("whole", "the parser fails. a zebra ran by")
    body = whole.body
    first = replace(card("first", "the parser fails."), body=replace(body, end=17))
    second = replace(card("second", " a zebra ran by"), body=replace(body, start=17))
    view = recorded([[first, second, card("other", "a horse ran by")]]).view()
    assert [key.id for key, _ in found(view, Decision(focus="parser"))] == ["first", "second"]
    bits = rank(view, Decision(focus="parser"), SMALL).found_by.tolist()
    assert retrievers(bits[1]) == ("adjacent",)


def test_facts_that_were_recorded_together_are_no_neighbours() -> None:
    """Their texts are parts of one source; each stands for itself."""
    whole = card("whole", "ada keeps a parser\nbob keeps a zebra")
    some = []
    for name, start, end, said in (("a", 0, 18, ("ada", "parser")), ("b", 19, 36, ("bob", "zebra"))):
        fact = Fact(subject=said[0], predicate="keeps", object=f"a {said[1]}")
        body = replace(whole.body, start=start, end=end)
        some.append(replace(card(name, fact.statement), body=body, kind=Kind.FACT, fact=fact, valid_from=0))
    view = recorded([some]).view()
    assert [key.id for key, _ in found(view, Decision(focus="parser"))] == ["a"]


def test_what_contradicts_a_card_is_found_with_it_though_no_word_is_shared() -> None:
    """Invariant 3: an objection in other words is an objection."""
    against = Relation(CONTRADICTS, CardKey("alice", "claim"))
    view = recorded([[card("claim", "the parser fails"), card("but", "zebra", relations=(against,))]]).view()
    assert [key.id for key, _ in found(view, Decision(focus="parser"))] == ["claim", "but"]
    assert retrievers(rank(view, Decision(focus="parser"), SMALL).found_by.tolist()[1]) == ("linked",)


def test_a_label_that_few_share_joins_and_one_that_many_share_does_not() -> None:
    few = [card("a", "parser", entities=("Ada",)), card("b", "zebra", entities=("Ada",))]
    many = [card(f"m{at}", "zebra" if at else "lexer", topics=("speed",)) for at in range(70)]
    view = recorded([few, many]).view()
    assert [key.id for key, _ in found(view, Decision(focus="parser"))] == ["a", "b"]
    assert [key.id for key, _ in found(view, Decision(focus="lexer"))] == ["m0"]


def test_words_that_share_a_hash_are_one_word() -> None:
    """Cards keep 32 bits of a word: of two such words in a question the first stands, and nothing is counted twice."""
    assert term_hash("err17558") == term_hash("err22666")
    view = recorded([[card("a", "zebra err17558"), card("b", "zebra err22666"), card("c", "zebra")]]).view()
    both = rank(view, Decision(focus="zebra err17558 and err22666"), NoEmbedder())
    assert sorted(both.places.tolist()) == [0, 1, 2]
    query = analyse_query("zebra err17558 and err22666")
    assert len(query.hashes) == len(set(query.hashes)) == len(query.terms)
    assert "err22666" not in query.terms


def test_a_long_question_is_widened_by_its_first_words_only() -> None:
    """What it costs is bounded; a long text says itself what it means."""
    words = [f"word{at}" for at in range(80)]
    asked: list[int] = []

    class Counting(Lexicon):
        def near(self, hashed: int) -> tuple[tuple[int, int], ...]:
            asked.append(hashed)
            return ()

    embedder: Embedder = SimpleNamespace(version="none", lexicon=Counting.empty(), embed=NoEmbedder().embed)
    rank(recorded([[card("a", "zebra")]]).view(), Decision(focus=" ".join(words)), embedder)
    assert len(asked) == 64
