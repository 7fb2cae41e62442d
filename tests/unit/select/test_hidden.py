"""Invariant 7: what a reader may not read changes nothing of what the reader is told, refusals and cursors included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_contract.errors import NeedsPartition
from mn_engine.domain.cards import Card
from mn_engine.domain.packets import Decision, Shares
from mn_engine.recall.embedder import NoEmbedder
from mn_engine.recall.rank import rank
from mn_engine.recall.view import View
from mn_engine.select.page import recall_page
from tests.unit.recall.corpus import MANY, SAMPLE, batches_of_cards, decisions, recorded, scope, without
from tests.unit.select.selecting import budgets, pages, shares, told

BATCHES = batches_of_cards()


def check_nothing_told(batches: Sequence[Sequence[Card]], decision: Decision, budget: int, wanted: Shares) -> None:
    whole, bare = recorded(batches).view(), recorded(without(batches, scope())).view()
    assert told(whole, decision, budget=budget, shares=wanted) == told(bare, decision, budget=budget, shares=wanted)
    assert told_pages(whole, decision) == told_pages(bare, decision)


def told_pages(view: View, decision: Decision) -> list[object]:
    ranking = rank(view, decision, NoEmbedder())
    first = recall_page(view, decision, ranking, 3, None)
    return [
        [(view.key(item.ordinal), item.rank, item.score, item.retrievers) for item in first.items],
        first.coverage,
        first.next,
    ]


@SAMPLE
@given(BATCHES, decisions, budgets, shares)
def test_hidden_cards_change_nothing_that_is_told(
    batches: list[list[Card]], decision: Decision, budget: int, wanted: Shares
) -> None:
    check_nothing_told(batches, decision, budget, wanted)


@pytest.mark.full
@pytest.mark.timeout(900)
@MANY
@given(batches_of_cards(cards_max=30), decisions, budgets, shares)
def test_hidden_cards_change_nothing_that_is_told_in_many_cases(
    batches: list[list[Card]], decision: Decision, budget: int, wanted: Shares
) -> None:
    check_nothing_told(batches, decision, budget, wanted)


@SAMPLE
@given(BATCHES, decisions, st.integers(150, 900))
def test_hidden_cards_change_no_page_of_a_rotation(batches: list[list[Card]], decision: Decision, budget: int) -> None:
    answers = []
    for record in (recorded(batches), recorded(without(batches, scope()))):
        view = record.view()
        try:
            found = list(pages(view, decision, budget))
        except NeedsPartition as refused:
            answers.append(refused.detail)
            continue
        answers.append([([view.key(item.ordinal) for item in page.items], page.coverage, page.next) for page in found])
    assert answers[0] == answers[1]


@SAMPLE
@given(BATCHES, decisions, budgets)
def test_naming_a_visible_card_is_told_the_same_with_hidden_namesakes(
    batches: list[list[Card]], decision: Decision, budget: int
) -> None:
    visible = [card for batch in without(batches, scope()) for card in batch]
    record, bare = recorded(batches), recorded(without(batches, scope()))
    live = bare.view()
    named = [
        f"{card.owner}:{card.id}"
        for card in visible
        if live.visible[live.place(live.resolve(f"{card.owner}:{card.id}", live=False))]
    ]
    decision = replace(decision, required=tuple(named[:2]))
    views = (record.view(), bare.view())
    assert told(views[0], decision, budget=budget, shares=Shares()) == told(
        views[1], decision, budget=budget, shares=Shares()
    )
