"""Allocation: budget (1), required (2), counter-evidence (3), one revision (4), the reference, and the optimum."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal, localcontext
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mn_contract.errors import NeedsPartition
from mn_contract.limits import PACKET_ITEMS_MAX
from mn_engine.domain.cards import SUPERSEDES, Card, Kind, Relation, Stance
from mn_engine.domain.packets import Budget, CoverageStatus, Decision, Left, Role, Shares, packet_size
from mn_engine.recall.embedder import NoEmbedder
from mn_engine.recall.index import NO_TERM
from mn_engine.recall.rank import STANDING, Ranking, rank
from mn_engine.recall.required import required
from mn_engine.recall.view import View
from mn_engine.select.room import TOKENS_ANY, Room
from mn_engine.select.sizes import required_sizes
from mn_engine.select.stances import stances_toward
from tests.unit.recall.corpus import MANY, SAMPLE, batches_of_cards, card, decisions, recorded, scope
from tests.unit.recall.reference import visible_cards
from tests.unit.select.reference import Candidate, filled, utilities
from tests.unit.select.selecting import NO_SHARES, budgets, rotations, selected, shares

OPTIONAL = (Role.OPPOSING_SHARE, Role.SUPPORTING_SHARE, Role.RANKED, Role.STANDING, Role.ROTATED)


NOBODY = (np.zeros(0, np.int64), np.zeros(0, np.int64))
"""No card contradicts another."""


def charged(view: View, place: int, size: int) -> int:
    """The writer's estimate, and a token for every three bytes that the engine adds."""
    added = size - int(view.column("document_bytes")[place])
    return int(view.column("document_tokens")[place]) + (added + 2) // 3


def candidates(
    view: View, decision: Decision, ranking: Ranking, without: frozenset[int] = frozenset()
) -> list[Candidate]:
    """The ranked cards as the reference takes them, but for those at the places `without`."""
    stances = stances_toward(view, decision)
    sizes = view.item_sizes[ranking.places].tolist()
    return [
        Candidate(
            place=place,
            score=score,
            size=size,
            tokens=charged(view, place, size),
            against=frozenset(map(view.place, view.conflicts(view.ordinal(place)))),
            standing=bool(found_by & STANDING),
            number=int(np.count_nonzero(view.readable[:place])),
            stance=Stance(int(stances[place])),
            terms=frozenset(view.index.sketches(np.asarray([place], np.uint32))[0].tolist()) - {NO_TERM},
            text=int(view.column("text_hashes")[place]),
        )
        for place, score, size, found_by in zip(
            ranking.places.tolist(), ranking.scores.tolist(), sizes, ranking.found_by.tolist(), strict=True
        )
        if place not in without
    ]


def check_reference(
    batches: list[list[Card]], decision: Decision, budget: Budget, wanted: Shares, rotation: int | None
) -> None:
    view = recorded(batches).view()
    must = required(view, decision)
    places = [view.place(ordinal) for ordinal, _ in must]
    sizes = required_sizes(view, np.asarray(places, np.uint32), [role for _, role in must]).tolist()
    size = sum(sizes)
    tokens = sum(charged(view, place, one) for place, one in zip(places, sizes, strict=True))
    assume(1 + size <= budget.bytes and (budget.tokens is None or tokens <= budget.tokens))
    expected = filled(
        candidates(view, decision, rank(view, decision, NoEmbedder()), frozenset(places)),
        room=budget.bytes - 1 - size,
        tokens=None if budget.tokens is None else budget.tokens - tokens,
        slots=PACKET_ITEMS_MAX - len(must),
        shares=wanted,
        rotation=rotation,
    )
    found = selected(view, decision, budget=budget, shares=wanted, rotation=rotation).items
    assert [(item.ordinal, item.role) for item in found[: len(must)]] == must
    assert [(view.place(item.ordinal), item.role) for item in found[len(must) :]] == expected


@SAMPLE
@given(batches_of_cards(), decisions, budgets, shares, rotations)
def test_a_selection_is_the_references(
    batches: list[list[Card]], decision: Decision, budget: Budget, wanted: Shares, rotation: int | None
) -> None:
    check_reference(batches, decision, budget, wanted, rotation)


@pytest.mark.full
@pytest.mark.timeout(900)
@MANY
@given(batches_of_cards(cards_max=30), decisions, budgets, shares, rotations)
def test_a_selection_is_the_references_in_many_cases(
    batches: list[list[Card]], decision: Decision, budget: Budget, wanted: Shares, rotation: int | None
) -> None:
    check_reference(batches, decision, budget, wanted, rotation)


@SAMPLE
@given(batches_of_cards(), decisions, budgets, shares, rotations)
def test_a_packet_is_within_its_budget_or_names_all_that_is_required(
    batches: list[list[Card]], decision: Decision, budget: Budget, wanted: Shares, rotation: int | None
) -> None:
    """Invariants 1 and 2: what is required is whole in the packet, or stands in the refusal with its size."""
    view = recorded(batches).view()
    must = required(view, decision)
    try:
        found = selected(view, decision, budget=budget, shares=wanted, rotation=rotation)
    except NeedsPartition as refused:
        detail = refused.detail
        assert detail["reason"] == "required_over_budget"
        assert (detail["budget"], detail.get("budget_tokens")) == (budget.bytes, budget.tokens)
        assert detail["size"] == packet_size([item["bytes"] for item in detail["items"]])
        tokens = sum(item["tokens"] for item in detail["items"])
        assert budget.tokens is None or tokens == detail["tokens"]
        assert detail["size"] > budget.bytes or (budget.tokens is not None and tokens > budget.tokens)
        assert [view.resolve(item["id"]) for item in detail["items"]] == [ordinal for ordinal, _ in must]
        check_plan(detail)
        alone = [ordinal for ordinal, _ in required(view, replace(decision, required=()))]
        assert [view.resolve(ref) for ref in detail["plan"]["every_part"]] == alone
        for packet in detail["plan"]["packets"]:
            selected(view, replace(decision, required=tuple(packet)), budget=budget, shares=wanted)
        return
    assert packet_size([item.size for item in found.items]) <= budget.bytes
    assert budget.tokens is None or sum(item.tokens for item in found.items) <= budget.tokens
    assert [(item.ordinal, item.role) for item in found.items if item.role not in OPTIONAL] == must
    assert len({item.ordinal for item in found.items}) == len(found.items)


def check_plan(detail: dict[str, object]) -> None:
    """Every item stands in all parts, or is in one packet that fits beside those, or fits in none. Where those that
    stand in all parts do not fit, no packet is planned, and what is named is too large alone."""
    sizes = {item["id"]: (item["bytes"], item["tokens"]) for item in detail["items"]}  # type: ignore[attr-defined]
    budget, plan = (detail["budget"], detail.get("budget_tokens", 1 << 62)), detail["plan"]

    def fits(refs: list[str]) -> bool:
        return (
            packet_size([sizes[ref][0] for ref in refs]) <= budget[0]
            and sum(sizes[ref][1] for ref in refs) <= budget[1]
        )  # type: ignore[operator]

    planned = [ref for packet in plan["packets"] for ref in packet]  # type: ignore[index]
    every = plan["every_part"]  # type: ignore[index]
    if every and not fits(every):
        assert planned == []
        assert sorted(plan["oversize"]) == sorted(ref for ref in sizes if not fits([ref]))  # type: ignore[index]
        return
    assert sorted(every + planned + plan["oversize"]) == sorted(sizes)  # type: ignore[index]
    assert all(fits(every + packet) for packet in plan["packets"])  # type: ignore[index]
    assert not any(fits([*every, ref]) for ref in plan["oversize"])  # type: ignore[index]


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
@given(batches_of_cards(), decisions, budgets, shares, rotations)
def test_coverage_accounts_for_every_relevant_card_once(
    batches: list[list[Card]], decision: Decision, budget: Budget, wanted: Shares, rotation: int | None
) -> None:
    """Invariants 3 and 13."""
    view = recorded(batches).view()
    try:
        found = selected(view, decision, budget=budget, shares=wanted, rotation=rotation)
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
        for one in candidates(view, decision, rank(view, decision, NoEmbedder()), hidden)
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
        part = int(Decimal(repr(share)) * room)
    assert Room(room, room).share(share) == Room(part, part)
    assert Room(room).share(share) == Room(part, TOKENS_ANY), "tokens that are not counted are not shared out"
    assert Room(10).share(0.7).bytes == 7
    assert Room(50).share(0.58).bytes == 29, "in binary it is a little less"


@SAMPLE
@given(batches_of_cards(), decisions, budgets)
def test_every_item_is_live_at_the_views_revision(
    batches: list[list[Card]], decision: Decision, budget: Budget
) -> None:
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


@pytest.mark.parametrize("wanted", [NO_SHARES, Shares()], ids=["no shares", "shares"])
def test_the_choice_is_near_the_optimum(wanted: Shares) -> None:
    """Of at most twelve cards, against every choice that keeps to both budgets and to what the shares have taken."""
    rng = random.Random(20)
    ratios = []
    for _ in range(60):
        cards = [
            card(
                f"c{at}",
                " ".join(rng.choices(("parser", "lexer", "slow", "fast", "cache", "nested"), k=rng.randint(2, 40))),
                stance=rng.choice(list(Stance)),
                tokens=rng.randint(5, 60),
            )
            for at in range(rng.randint(3, 12))
        ]
        view, decision = recorded([cards]).view(), Decision(focus="parser lexer slow")
        ranked = candidates(view, decision, rank(view, decision, NoEmbedder()))
        room = sum(one.size for one in ranked) * rng.randint(20, 80) // 100
        tokens = sum(one.tokens for one in ranked) * rng.randint(20, 80) // 100 if rng.random() < 0.5 else None
        found = selected(view, decision, budget=Budget(bytes=room + 1, tokens=tokens), shares=wanted)
        shared = {view.place(item.ordinal) for item in found.items if item.role is not Role.RANKED}
        worth = utilities(ranked)
        best = max(
            sum(worth[one.place] for one in some)
            for some in powerset(ranked)
            if shared <= {one.place for one in some}
            and sum(one.size for one in some) <= room
            and (tokens is None or sum(one.tokens for one in some) <= tokens)
        )
        if best:
            ratios.append(sum(worth[view.place(item.ordinal)] for item in found.items) / best)
    ratios.sort()
    assert sum(ratios) / len(ratios) >= 0.97
    assert ratios[len(ratios) // 20] >= 0.88


def powerset(some: list[Candidate]) -> Iterator[tuple[Candidate, ...]]:
    """Every choice among some cards."""
    return chain.from_iterable(combinations(some, count) for count in range(len(some) + 1))


def test_preferences_take_what_the_evidence_shares_do_not_use() -> None:
    """What a share does not use flows back to them, too (invariant 3), to half of the room at most."""
    liked = [card(f"p{at}", f"tidy {at} " + "padding " * 8, kind=Kind.PREFERENCE) for at in range(30)]
    view = recorded([[*liked, *(card(f"c{at}", f"parser x{at}") for at in range(40))]]).view()
    kept = []
    for wanted in (NO_SHARES, Shares(), Shares(opposing=0.5, supporting=0.5), Shares(opposing=1.0)):
        page = selected(view, Decision(focus="parser"), budget=4000, shares=wanted)
        kept.append([item for item in page.items if item.role is Role.STANDING])
        assert sum(item.size for item in kept[-1]) <= 2000
    assert kept == [kept[0]] * 4
    assert len(kept[0]) > 5


def test_an_exchange_leaves_the_turns_share_alone() -> None:
    """However useful a large card is, a tenth stays for cards whose turn it is (invariant 8)."""
    cold = [card(f"cold{at}", f"parser z{at}") for at in range(12)]
    small = [card(f"small{at}", f"parser lexer s{at} " + "padding " * 4) for at in range(16)]
    large = [card(f"large{at}", "parser lexer cache " + f"l{at} " * 150) for at in range(4)]
    view = recorded([[*cold, *small, *large]]).view()
    for budget in range(2000, 6000, 173):
        page = selected(view, Decision(focus="parser lexer cache"), budget=budget, rotation=0)
        (turns,) = (quota for quota in page.quotas if quota.role is Role.ROTATED)
        left_cold = {view.key(view.ordinal(place)).id for place in page.pool.places[page.left[Left.BUDGET]].tolist()}
        if "cold0" in left_cold:
            assert turns.used_bytes > 0
