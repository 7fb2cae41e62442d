"""Invariant 8: following the cursor visits every relevant card exactly once, whatever the budgets of the pages."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_contract.errors import InvalidInput, NeedsPartition
from mn_contract.limits import CANDIDATES_MAX
from mn_engine.domain.cards import Card, Kind, Stance
from mn_engine.domain.packets import Budget, Coverage, CoverageStatus, Decision, Left, Role, Shares
from mn_engine.recall.embedder import NoEmbedder
from mn_engine.recall.rank import rank
from mn_engine.recall.required import required
from mn_engine.recall.view import View
from mn_engine.select import filling
from mn_engine.select.allocate import Selection
from mn_engine.select.cursor import Position, decode_cursor, encode_cursor
from mn_engine.select.room import TOKENS_ANY, Room
from tests.unit.recall.corpus import MANY, SAMPLE, batches_of_cards, card, decisions, recorded, scope
from tests.unit.select.selecting import NO_SHARES, pages, rotations, selected, shares

REQUEST = "0" * 64
page_budgets = st.builds(Budget, bytes=st.integers(100, 1500), tokens=st.one_of(st.none(), st.integers(40, 700)))


def served(view: View, answers: list[Selection]) -> Counter[int]:
    """How often each optional card was served."""
    return Counter(item.ordinal for page in answers for item in page.items if "required" not in item.retrievers)


def relevant(view: View, decision: Decision) -> set[int]:
    """Ordinals of the relevant optional cards."""
    must = {ordinal for ordinal, _ in required(view, decision)}
    return {view.ordinal(int(place)) for place in rank(view, decision, NoEmbedder()).places} - must


def check_rotation(
    batches: list[list[Card]], decision: Decision, budget: Budget, wanted: Shares, rotation: int | None
) -> None:
    view = recorded(batches).view()
    try:
        answers = list(pages(view, decision, budget, shares=wanted, rotation=rotation))
    except NeedsPartition:
        return
    visits = served(view, answers)
    assert set(visits.values()) <= {1}
    last = answers[-1].coverage
    oversize = dict(last.left).get(Left.OVERSIZE, 0)
    assert set(visits) <= relevant(view, decision)
    assert len(visits) + oversize == len(relevant(view, decision)) == last.relevant
    for page in answers:
        assert [item for item in page.items if "required" in item.retrievers] == [
            item for item in answers[0].items if "required" in item.retrievers
        ]
        assert page is answers[-1] or page.next is not None
        assert len(page.items) > last.required or page is answers[0], "a page that serves nothing is no page"


@SAMPLE
@given(batches_of_cards(cards_max=16), decisions, page_budgets, shares, rotations)
def test_a_rotation_serves_every_relevant_card_once(
    batches: list[list[Card]], decision: Decision, budget: Budget, wanted: Shares, rotation: int | None
) -> None:
    check_rotation(batches, decision, budget, wanted, rotation)


@pytest.mark.full
@pytest.mark.timeout(900)
@MANY
@given(batches_of_cards(cards_max=30), decisions, page_budgets, shares, rotations)
def test_a_rotation_serves_every_relevant_card_once_in_many_cases(
    batches: list[list[Card]], decision: Decision, budget: Budget, wanted: Shares, rotation: int | None
) -> None:
    check_rotation(batches, decision, budget, wanted, rotation)


@SAMPLE
@given(
    batches_of_cards(cards_max=16),
    decisions,
    st.lists(page_budgets, min_size=1, max_size=5),
    st.builds(Budget, bytes=st.integers(1500, 3000), tokens=st.one_of(st.none(), st.integers(700, 900))),
)
def test_pages_of_different_budgets_serve_nothing_twice_and_lose_nothing(
    batches: list[list[Card]], decision: Decision, budgets: list[Budget], largest: Budget
) -> None:
    """What was too large for a small page is offered to a larger one; the cursor is good for any budget."""
    view = recorded(batches).view()
    try:
        answers = list(pages(view, decision, *budgets, largest))
    except NeedsPartition:
        return
    visits = served(view, answers)
    assert set(visits.values()) <= {1}
    for page in answers:
        too_large = page.pool.places[page.left[Left.OVERSIZE]].tolist()
        assert relevant(view, decision) - set(visits) <= {view.ordinal(place) for place in too_large}


def test_a_large_page_after_small_ones_serves_what_they_passed_over() -> None:
    small = [card(f"s{at}", f"parser x{at}") for at in range(6)]
    large = [card(f"l{at}", f"parser x{at} " + "padding " * 60) for at in range(6)]
    view, decision = recorded([small + large]).view(), Decision(focus="parser")
    first = selected(view, decision, budget=420)
    assert {view.key(item.ordinal).id[0] for item in first.items} == {"s"}
    assert dict(first.coverage.left)[Left.OVERSIZE] == 6
    second = selected(view, decision, budget=100_000, at=first.next)
    assert second.next is None
    assert set(served(view, [first, second]).values()) == {1}
    assert len(first.items) + len(second.items) == 12
    assert second.coverage.status is CoverageStatus.COMPLETE
    assert second.coverage.left == ((Left.SERVED, len(first.items)),)


def test_a_small_page_does_not_end_a_walk() -> None:
    """What is left fits the first page's budget, so a page that has no room for it says so and loses nothing."""
    view = recorded([[card(f"c{at}", f"parser x{at}") for at in range(20)]]).view()
    decision = Decision(focus="parser")
    first = selected(view, decision, budget=900)
    with pytest.raises(InvalidInput) as refused:
        selected(view, decision, budget=60, at=first.next)
    assert refused.value.field == "budget_bytes"
    rest = selected(view, decision, budget=100_000, at=first.next)
    assert len(first.items) + len(rest.items) == 20


def test_a_card_larger_than_any_page_is_told_as_oversize_and_holds_nothing_up() -> None:
    cards = [card(f"c{at}", f"parser x{at}") for at in range(9)]
    view = recorded([[card("big", "parser " * 500), *cards]]).view()
    answers = list(pages(view, Decision(focus="parser"), 500))
    assert sum(len(page.items) for page in answers) == 9
    assert {dict(page.coverage.left)[Left.OVERSIZE] for page in answers} == {1}
    assert {page.coverage.status for page in answers} == {CoverageStatus.DEGRADED}


def test_where_nothing_fits_there_is_no_cursor() -> None:
    view = recorded([[card("a", "parser")]]).view()
    nothing = selected(view, Decision(focus="parser"), budget=50)
    assert (nothing.items, nothing.next, nothing.coverage.status) == ((), None, CoverageStatus.DEGRADED)


def test_missing_complete_and_degraded_are_three_answers() -> None:
    """Invariant 13."""
    view = recorded([[card("a", "parser"), card("b", "parser lexer")]]).view()
    assert selected(view, Decision(focus="zebra")).coverage == Coverage(status=CoverageStatus.MISSING)
    assert selected(view, Decision(focus="parser")).coverage.status is CoverageStatus.COMPLETE
    assert selected(view, Decision(focus="parser"), budget=100).coverage.status is CoverageStatus.DEGRADED
    rule = recorded([[card("r", kind=Kind.CONSTRAINT)]]).view()
    assert selected(rule, Decision(focus="zebra")).coverage.status is CoverageStatus.COMPLETE, (
        "what is required is there"
    )


def test_a_rotation_over_more_cards_than_one_page_considers() -> None:
    """Beyond the candidate cap, with opposing cards far down, and cursors that stay within their size."""
    count = CANDIDATES_MAX + 700
    cards = [
        card(f"c{at}", f"parser x{at % 97}", stance=Stance.OPPOSES if at % 400 == 0 else Stance.NEUTRAL)
        for at in range(count)
    ]
    view, decision = recorded([cards]).view(), Decision(focus="parser x13")
    first = selected(view, decision, budget=20_000, shares=Shares())
    left = dict(first.coverage.left)
    assert left[Left.CAP] == 700
    assert left[Left.BUDGET] == CANDIDATES_MAX - len(first.items)
    position, visits = first.next, served(view, [first])
    while position is not None:
        cursor = encode_cursor(position, revision=1, request_digest=REQUEST, scope=scope())
        position, _ = decode_cursor(cursor, request_digest=REQUEST, scope=scope())
        page = selected(view, decision, budget=60_000, shares=Shares(), at=position)
        visits += served(view, [page])
        position = page.next
    assert set(visits.values()) == {1}
    assert len(visits) == count


def test_budgets_too_different_for_a_cursor_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "SKIPPED_MAX", 3)
    large = [card(f"l{at}", f"parser x{at} " + "padding " * 60) for at in range(8)]
    view, decision = recorded([[*large, card("s", "parser")]]).view(), Decision(focus="parser")
    first = selected(view, decision, budget=300)
    assert first.next is None, "only the small one fits a page of this size"
    wide = Position(end=9, skipped=tuple(range(1, 9)), room=Room(5000, TOKENS_ANY))
    with pytest.raises(InvalidInput) as caught:
        selected(view, decision, budget=1300, at=wide)
    assert caught.value.field == "budget_bytes"


def test_a_position_past_the_end_serves_nothing() -> None:
    """A cursor that was forged for its bearer can say anything; it gains nothing and breaks nothing."""
    view = recorded([[card("a", "parser")]]).view()
    forged = Position(end=1 << 40, skipped=(7, 1 << 30), room=Room(1 << 50, TOKENS_ANY))
    assert selected(view, Decision(focus="parser"), at=forged).items == ()


def test_pages_do_not_depend_on_how_the_walk_began() -> None:
    """The paging state is in the cursor and nowhere else (invariant 5)."""
    view = recorded([[card(f"c{at}", f"parser x{at}") for at in range(40)]]).view()
    decision = Decision(focus="parser x3")
    walked = list(pages(view, decision, 900, shares=NO_SHARES))
    again = selected(view, decision, budget=900, at=walked[1].next)
    assert again == walked[2]


def test_what_fits_is_found_behind_more_large_cards_than_a_page_looks_at() -> None:
    large = [card(f"l{at}", "parser parser " * 60) for at in range(CANDIDATES_MAX + 700)]
    view = recorded([large + [card(f"s{at}", "parser lexer cache") for at in range(3)]]).view()
    page = selected(view, Decision(focus="parser"), budget=420)
    assert {view.key(item.ordinal).id[0] for item in page.items} == {"s"}
    assert dict(page.coverage.left)[Left.OVERSIZE] == len(large)


@SAMPLE
@given(st.lists(st.integers(0, 60), min_size=1, max_size=30), st.integers(2000, 4000))
def test_every_card_that_fits_a_turn_has_one(paddings: list[int], budget: int) -> None:
    """Cards of uneven sizes: a turn passes none over, so that going round shows each."""
    best = [card(f"best{at}", "parser lexer cache " * 8) for at in range(12)]
    cold = [card(f"cold{at}", "parser " + "padding " * padding) for at, padding in enumerate(paddings)]
    view, decision = recorded([cold + best]).view(), Decision(focus="parser lexer cache")
    rotation, shown = 0, set[str]()
    for _ in range(2 * len(cold) + 2):
        page = selected(view, decision, budget=budget, rotation=rotation)
        shown |= {view.key(item.ordinal).id for item in page.items}
        rotation = page.next_rotation
    share = next(quota.bytes for quota in page.quotas if quota.role is Role.ROTATED)
    sizes = {view.key(view.ordinal(place)).id: int(view.item_sizes[place]) for place in range(len(cold))}
    assert {one for one, size in sizes.items() if size <= share} <= shown
