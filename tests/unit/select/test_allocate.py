"""Allocation: budget (1), required (2), counter-evidence (3), one revision (4), the reference, and the optimum."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal, localcontext
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mn_contract.errors import NeedsPartition
from mn_contract.limits import PACKET_ITEMS_MAX
from mn_engine.domain.cards import SUPERSEDES, Card, Kind, Relation, Stance
from mn_engine.domain.packets import CoverageStatus, Decision, Left, Role, Shares, packet_size
from mn_engine.recall.index import NO_TERM
from mn_engine.recall.rank import Ranking, rank
from mn_engine.recall.required import required
from mn_engine.recall.view import View
from mn_engine.select.allocate import _share
from mn_engine.select.order import marginal_utilities
from mn_engine.select.sizes import item_sizes, required_sizes
from mn_engine.select.stances import stances_toward
from tests.unit.recall.corpus import MANY, SAMPLE, batches_of_cards, card, decisions, recorded, scope
from tests.unit.recall.reference import visible_cards
from tests.unit.select.reference import Candidate, filled, in_order
from tests.unit.select.selecting import NO_SHARES, budgets, selected, shares

OPTIONAL = (Role.OPPOSING_SHARE, Role.SUPPORTING_SHARE, Role.RANKED)


def candidates(
    view: View, decision: Decision, ranking: Ranking, without: frozenset[int] = frozenset()
) -> list[Candidate]:
    """The ranked cards as the reference takes them, but for those at the places `without`."""
    stances = stances_toward(view, decision)
    sizes = item_sizes(view, ranking.places).tolist()
    return [
        Candidate(
            place=place,
            score=score,
            size=size,
            stance=Stance(int(stances[place])),
            terms=frozenset(view.index.sketches(np.asarray([place], np.uint32))[0].tolist()) - {NO_TERM},
            text=int(view.column("text_hashes")[place]),
        )
        for place, score, size in zip(ranking.places.tolist(), ranking.scores.tolist(), sizes, strict=True)
        if place not in without
    ]


def check_reference(batches: list[list[Card]], decision: Decision, budget: int, wanted: Shares) -> None:
    view = recorded(batches).view()
    must = required(view, decision)
    places = [view.place(ordinal) for ordinal, _ in must]
    size = sum(required_sizes(view, np.asarray(places, np.uint32), [role for _, role in must]).tolist())
    assume(1 + size <= budget)
    offered = in_order(candidates(view, decision, rank(view, decision), frozenset(places)))
    expected = filled(offered, room=budget - 1 - size, slots=PACKET_ITEMS_MAX - len(must), shares=wanted)
    found = selected(view, decision, budget=budget, shares=wanted).items
    assert [(item.ordinal, item.role) for item in found[: len(must)]] == must
    assert [(view.place(item.ordinal), item.role) for item in found[len(must) :]] == expected


@SAMPLE
@given(batches_of_cards(), decisions, budgets, shares)
def test_a_selection_is_the_references(
    batches: list[list[Card]], decision: Decision, budget: int, wanted: Shares
) -> None:
    check_reference(batches, decision, budget, wanted)


@pytest.mark.full
@pytest.mark.timeout(900)
@MANY
@given(batches_of_cards(cards_max=30), decisions, budgets, shares)
def test_a_selection_is_the_references_in_many_cases(
    batches: list[list[Card]], decision: Decision, budget: int, wanted: Shares
) -> None:
    check_reference(batches, decision, budget, wanted)


@SAMPLE
@given(batches_of_cards(), decisions, budgets, shares)
def test_a_packet_is_within_its_budget_or_names_all_that_is_required(
    batches: list[list[Card]], decision: Decision, budget: int, wanted: Shares
) -> None:
    """Invariants 1 and 2: what is required is whole in the packet, or stands in the refusal with its size."""
    view = recorded(batches).view()
    must = required(view, decision)
    try:
        found = selected(view, decision, budget=budget, shares=wanted)
    except NeedsPartition as refused:
        detail = refused.detail
        assert detail["reason"] == "required_over_budget"
        assert (detail["budget"], detail["size"]) == (budget, packet_size([item["bytes"] for item in detail["items"]]))
        assert detail["size"] > budget
        assert [view.resolve(item["id"]) for item in detail["items"]] == [ordinal for ordinal, _ in must]
        check_plan(detail)
        alone = [ordinal for ordinal, _ in required(view, replace(decision, required=()))]
        assert [view.resolve(ref) for ref in detail["plan"]["every_part"]] == alone
        for packet in detail["plan"]["packets"]:
            selected(view, replace(decision, required=tuple(packet)), budget=budget, shares=wanted)
        return
    assert packet_size([item.size for item in found.items]) <= budget
    assert [(item.ordinal, item.role) for item in found.items if item.role not in OPTIONAL] == must
    assert len({item.ordinal for item in found.items}) == len(found.items)


def check_plan(detail: dict[str, object]) -> None:
    """Every item stands in all parts, or is in one packet that fits beside those, or fits in none. Where those that
    stand in all parts do not fit, no packet is planned, and what is named is too large alone."""
    sizes = {item["id"]: item["bytes"] for item in detail["items"]}  # type: ignore[attr-defined]
    budget, plan = detail["budget"], detail["plan"]
    planned = [ref for packet in plan["packets"] for ref in packet]  # type: ignore[index]
    every = plan["every_part"]  # type: ignore[index]
    if every and packet_size([sizes[ref] for ref in every]) > budget:
        assert planned == []
        assert sorted(plan["oversize"]) == sorted(ref for ref, size in sizes.items() if packet_size([size]) > budget)  # type: ignore[index]
        return
    assert sorted(every + planned + plan["oversize"]) == sorted(sizes)  # type: ignore[index]
    assert all(packet_size([sizes[ref] for ref in every + packet]) <= budget for packet in plan["packets"])  # type: ignore[index]
    assert all(packet_size([sizes[ref] for ref in [*every, ref]]) > budget for ref in plan["oversize"])  # type: ignore[index]


def test_too_many_required_cards_are_refused_with_a_plan() -> None:
    cards = [card(f"c{number:04d}", kind=Kind.OBLIGATION) for number in range(PACKET_ITEMS_MAX + 1)]
    view = recorded([cards]).view()
    with pytest.raises(NeedsPartition) as caught:
        selected(view, Decision(), budget=1_000_000)
    assert caught.value.detail["reason"] == "too_many_required"
    assert len(caught.value.detail["plan"]["every_part"]) == PACKET_ITEMS_MAX + 1
    assert caught.value.detail["plan"]["packets"] == []
    assert {item["why"] for item in caught.value.detail["items"]} == {"obligation"}


def test_a_packet_that_required_cards_fill_to_the_last_byte_is_no_refusal() -> None:
    view = recorded([[card("a", kind=Kind.CONSTRAINT), card("b", "parser")]]).view()
    exact = packet_size([item.size for item in selected(view, Decision()).items[:1]])
    assert [item.role for item in selected(view, Decision(), budget=exact).items] == [Role.CONSTRAINT]
    with pytest.raises(NeedsPartition):
        selected(view, Decision(), budget=exact - 1)


def test_no_more_items_than_a_packet_holds() -> None:
    view = recorded([[card(f"c{number}", f"parser x{number}") for number in range(PACKET_ITEMS_MAX + 9)]]).view()
    found = selected(view, Decision(focus="parser"), budget=1_000_000)
    assert len(found.items) == PACKET_ITEMS_MAX
    assert found.coverage.left == ((Left.BUDGET, 9),)
    assert found.next is not None


@SAMPLE
@given(batches_of_cards(), decisions, budgets, shares)
def test_coverage_accounts_for_every_relevant_card_once(
    batches: list[list[Card]], decision: Decision, budget: int, wanted: Shares
) -> None:
    """Invariants 3 and 13."""
    view = recorded(batches).view()
    try:
        found = selected(view, decision, budget=budget, shares=wanted)
    except NeedsPartition:
        return
    told = found.coverage
    optional = [item for item in found.items if item.role in OPTIONAL]
    assert told.relevant == len(optional) + sum(count for _, count in told.left)
    for rows in (told.stances, told.kinds):
        assert sum(considered for _, considered, _ in rows) == told.relevant
        assert sum(taken for _, _, taken in rows) == len(optional)
    assert told.required == len(found.items) - len(optional)
    remains = any(count for reason, count in told.left if reason is not Left.SERVED)
    nothing = not told.relevant and not told.required
    expected = CoverageStatus.DEGRADED if remains else CoverageStatus.COMPLETE
    assert told.status is (CoverageStatus.MISSING if nothing else expected)


@SAMPLE
@given(batches_of_cards(), decisions, st.integers(200, 3000), st.sampled_from((0.2, 0.35, 0.5, 1.0)))
def test_opposition_that_fits_its_share_is_in_the_packet(
    batches: list[list[Card]], decision: Decision, budget: int, share: float
) -> None:
    """Invariant 3, whatever else ranks above it."""
    view = recorded(batches).view()
    try:
        found = selected(view, decision, budget=budget, shares=Shares(opposing=share))
    except NeedsPartition:
        return
    must = [item for item in found.items if item.role not in OPTIONAL]
    room = budget - 1 - sum(item.size for item in must)
    hidden = frozenset(view.place(item.ordinal) for item in must)
    opposing = [
        one
        for one in candidates(view, decision, rank(view, decision), hidden)
        if one.stance in (Stance.OPPOSES, Stance.MIXED)
    ]
    if sum(one.size for one in opposing) <= share * room:
        assert {one.place for one in opposing} <= {view.place(item.ordinal) for item in found.items}


def dominated() -> View:
    """Thirty cards for a hypothesis, two against it that match the question worst."""
    cards = [card(f"for-{at:02d}", f"parser fast x{at}", stance=Stance.SUPPORTS) for at in range(30)]
    against = [card(f"against-{at}", f"well x{100 + at} " * 9 + "parser", stance=Stance.OPPOSES) for at in range(2)]
    return recorded([against + cards]).view()


def test_a_dominant_hypothesis_does_not_crowd_out_opposition() -> None:
    """Invariant 3: without the share it would."""
    view, decision = dominated(), Decision(focus="parser fast")
    plain, shared = (
        selected(view, decision, budget=2500, shares=wanted) for wanted in (NO_SHARES, Shares(opposing=0.4))
    )
    assert not any(view.key(item.ordinal).id.startswith("against") for item in plain.items)
    taken = [view.key(item.ordinal).id for item in shared.items if item.role is Role.OPPOSING_SHARE]
    assert sorted(taken) == ["against-0", "against-1"]
    assert (Stance.OPPOSES, 2, 2) in shared.coverage.stances


def test_a_share_that_is_not_used_flows_back() -> None:
    view = recorded([[card(f"c{at}", f"parser x{at}") for at in range(30)]]).view()
    plain, shared = (
        selected(view, Decision(focus="parser"), budget=2000, shares=wanted)
        for wanted in (NO_SHARES, Shares(opposing=0.9))
    )
    assert plain.items == shared.items


def test_stance_toward_a_named_claim_goes_before_the_general_one() -> None:
    told = (("it works", Stance.OPPOSES),)
    view = recorded(
        [
            [
                card("a", stance=Stance.SUPPORTS, claims=told),
                card(
                    "b", stance=Stance.OPPOSES, claims=(("it works", Stance.NEUTRAL), ("it is fast", Stance.SUPPORTS))
                ),
                card("c", claims=(("it works", Stance.SUPPORTS), ("it is fast", Stance.OPPOSES))),
                card("d", stance=Stance.MIXED),
            ]
        ]
    ).view()

    def toward(*claims: str) -> list[Stance]:
        return [Stance(int(stance)) for stance in stances_toward(view, Decision(claims=claims))]

    assert toward() == [Stance.SUPPORTS, Stance.OPPOSES, Stance.NEUTRAL, Stance.MIXED]
    assert toward("it works") == [Stance.OPPOSES, Stance.NEUTRAL, Stance.SUPPORTS, Stance.MIXED]
    assert toward("it is fast", "it works") == [Stance.OPPOSES, Stance.SUPPORTS, Stance.MIXED, Stance.MIXED]
    assert toward("unheard of") == toward()


@SAMPLE
@given(st.floats(0, 1, allow_nan=False), st.integers(0, 1 << 24))
def test_a_share_is_the_floor_of_its_decimal(share: float, room: int) -> None:
    with localcontext() as context:
        context.prec = 400
        assert _share(room, share) == int(Decimal(repr(share)) * room)
    assert _share(10, 0.7) == 7
    assert _share(50, 0.58) == 29, "in binary it is a little less"


@SAMPLE
@given(batches_of_cards(), decisions, budgets)
def test_every_item_is_live_at_the_views_revision(batches: list[list[Card]], decision: Decision, budget: int) -> None:
    """Invariant 4."""
    index = recorded(batches).index()
    for revision in range(index.revision + 1):
        view = View(index, scope(), revision)
        live = {card.key for card in visible_cards(batches, scope(), revision)}
        try:
            shown = {view.key(item.ordinal) for item in selected(view, decision, budget=budget).items}
        except NeedsPartition as refused:
            shown = {view.key(view.resolve(item["id"])) for item in refused.detail["items"]}
        assert shown <= live


def test_a_superseded_card_gives_way_to_its_successor() -> None:
    old = card("old", "parser price 10")
    record = recorded([[old], [card("new", "parser price 12", relations=(Relation(SUPERSEDES, old.key),))]])
    for revision, expected in ((1, ["old"]), (2, ["new"])):
        view = record.view(revision=revision)
        assert [view.key(item.ordinal).id for item in selected(view, Decision(focus="parser price")).items] == expected


def test_the_greedy_choice_is_near_the_optimum() -> None:
    """On random instances of ten cards: mean of chosen utility over the exhaustive optimum's at least .95."""
    rng = random.Random(20)
    ratios = []
    for _ in range(60):
        cards = [
            card(
                f"c{at}",
                " ".join(rng.choices(("parser", "lexer", "slow", "fast", "cache", "nested"), k=rng.randint(2, 40))),
            )
            for at in range(10)
        ]
        view, decision = recorded([cards]).view(), Decision(focus="parser lexer slow")
        ranking = rank(view, decision)
        sizes = item_sizes(view, ranking.places)
        utilities = marginal_utilities(
            ranking.scores, view.index.sketches(ranking.places), view.column("text_hashes")[ranking.places]
        )
        room = int(sizes.sum()) * rng.randint(30, 70) // 100
        worth = {
            view.ordinal(int(place)): int(utility) for place, utility in zip(ranking.places, utilities, strict=True)
        }
        chosen = sum(worth[item.ordinal] for item in selected(view, decision, budget=room + 1).items)
        best = max(
            sum(int(utilities[at]) for at in some)
            for count in range(len(sizes) + 1)
            for some in combinations(range(len(sizes)), count)
            if sum(int(sizes[at]) for at in some) <= room
        )
        ratios.append(chosen / best)
    assert sum(ratios) / len(ratios) >= 0.95
    assert min(ratios) >= 0.7
