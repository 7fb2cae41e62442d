"""Packing: budgets hold, what is required is in, nothing is dropped that fits in some form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_contract.errors import NeedsPartition
from mn_engine.domain.cards import Kind
from mn_engine.domain.packs import Form, PackItem
from mn_engine.select.cmp.ladder import rungs
from mn_engine.select.cmp.packing import Packed, by_layer, knapsack
from tests.unit.select.cmp.memories import OWNER, memory, words

KINDS = (Kind.FACT, Kind.DECISION, Kind.OBSERVATION, Kind.CONSTRAINT, Kind.PREFERENCE, Kind.PROCEDURE)


def _drawn(number: int, shape: tuple[int, int, Kind, bool]) -> PackItem:
    head, rest, kind, summarised = shape
    text = " ".join(["word"] * head) + "." + (" " + " ".join(["more"] * rest) if rest else "")
    return memory(f"m{number}", text, kind, summary="short one" if summarised else "", rank=number + 1)


POOLS = st.lists(
    st.tuples(st.integers(3, 12), st.integers(0, 20), st.sampled_from(KINDS), st.booleans()), max_size=24
).map(lambda shapes: [_drawn(number, shape) for number, shape in enumerate(shapes)])


def packed(pool: list[PackItem], budget: int, pack: Callable[..., Packed] = knapsack, **fields: Any) -> Packed:
    given = {"required": (), "opposing": (), "counter_share": 0.0, **fields}
    return pack(pool, budget=budget, cost=words, asker=OWNER, **given)


@given(pool=POOLS, budget=st.integers(1, 200))
def test_a_pack_never_takes_more_than_its_budget(pool: list[PackItem], budget: int) -> None:
    """Invariant 1; and each memory stands in it once."""
    for told in (packed(pool, budget), packed(pool, budget, by_layer)):
        assert told.used == sum(words(item) for _, item in told.taken) <= budget
        assert len({place for place, _ in told.taken}) == len(told.taken)


@given(pool=POOLS, budget=st.integers(1, 200))
def test_what_would_fit_in_any_form_is_not_dropped(pool: list[PackItem], budget: int) -> None:
    told = packed(pool, budget)
    left = budget - told.used
    there = {place for place, _ in told.taken}
    for place, item in enumerate(pool):
        if place not in there:
            assert words(item) > left
            for form, end in rungs(item.card):
                shorter = PackItem(seen=item.seen, why=item.why, form=form, end=end)
                assert words(shorter) > left


@given(pool=POOLS, budget=st.integers(1, 200))
def test_compression_takes_nothing_away(pool: list[PackItem], budget: int) -> None:
    whole = {place for place, item in packed(pool, budget).taken if item.form is Form.FULL}
    plain = [memory(item.card.id, item.card.text.replace(". ", " "), item.card.kind) for item in pool]
    assert whole >= {place for place, _ in packed(plain, budget).taken}


@given(pool=POOLS, smaller=st.integers(1, 200), more=st.integers(0, 200))
def test_what_is_taken_before_the_first_miss_is_nested(pool: list[PackItem], smaller: int, more: int) -> None:
    taken = {place for place, _ in packed(pool, smaller).taken}
    first = []
    left = smaller
    for place, item in enumerate(pool):
        if words(item) > left:
            break
        left -= words(item)
        first.append(place)
    assert set(first) <= taken
    assert set(first) <= {place for place, _ in packed(pool, smaller + more).taken}


@given(pool=POOLS.filter(bool), budget=st.integers(1, 200), data=st.data())
def test_what_is_required_is_in_whole_or_the_pack_is_refused(
    pool: list[PackItem], budget: int, data: st.DataObject
) -> None:
    """Invariant 2."""
    required = data.draw(st.sets(st.integers(0, len(pool) - 1), min_size=1))
    size = sum(words(pool[place]) for place in required)
    for pack in (
        lambda: packed(pool, budget, required=required),
        lambda: packed(pool, budget, by_layer, required=required),
    ):
        if size > budget:
            with pytest.raises(NeedsPartition) as caught:
                pack()
            detail = caught.value.detail
            assert (detail["size"], detail["budget"]) == (size, budget)
            assert [item["id"] for item in detail["items"]] == [f"m{place}" for place in sorted(required)]
        else:
            taken = dict(pack().taken)
            assert all(taken[place].form is Form.FULL for place in required)


@pytest.mark.parametrize("pack", [knapsack, by_layer])
def test_opposition_is_offered_its_share_first(pack: Callable[..., Packed]) -> None:
    """Invariant 3."""
    pool = [memory(f"s{number}", "for it and again for it") for number in range(10)]
    pool += [memory("o", "against it and so not for")]
    assert 10 not in dict(packed(pool, 30, pack).taken)
    assert 10 in dict(packed(pool, 30, pack, opposing={10}, counter_share=0.25).taken)
    assert 10 not in dict(packed(pool, 30, pack, opposing={10}, counter_share=0.2).taken), "no more than its share"
    unused = packed(pool, 30, pack, opposing=set(), counter_share=0.2)
    assert unused.used == packed(pool, 30, pack).used, "what the share does not use flows back"


def test_the_generic_pack_fills_layer_by_layer() -> None:
    chatter = [memory(f"o{number}", "one two three four", Kind.OBSERVATION) for number in range(20)]
    rules = [memory("c", "one two three four", Kind.CONSTRAINT), memory("d", "one two three four", Kind.DECISION)]
    told = packed([*chatter, *rules], 60, by_layer)
    places = [place for place, _ in told.taken]
    assert {20, 21} <= set(places), "a layer's share is kept for it"
    assert places == sorted(places), "what stands there is best first"
    assert told.used == 60, "what layers do not use goes to the rest, by rank"
    assert all(item.form is Form.FULL for _, item in told.taken)


def test_a_compressed_memory_says_what_it_is_and_where_it_stands() -> None:
    """Invariant 6."""
    text = "The launch is in May. " + "More of it follows here. " * 20
    ((place, item),) = packed([memory("m", text)], 8).taken
    document = item.document(OWNER)
    assert (place, document["content"], document["form"]) == (0, "The launch is in May.", "head")
    assert "derived" not in document
    (cited,) = document["cites"]
    assert (cited["start"], cited["end"]) == (0, len("The launch is in May."))
    ((_, item),) = packed([memory("m", text, summary="Launch: May")], 4).taken
    document = item.document(OWNER)
    assert (document["content"], document["form"], document["derived"]) == ("Launch: May", "summary", True)
    assert document["cites"][0]["end"] == len(text)
