"""What a memory is worth: the protocol's formula, in integers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_engine.domain.cards import Kind, Validation
from mn_engine.select.cmp.profiles import resolve_profile
from mn_engine.select.cmp.table import HALF_LIFE_MICROS, ONE, PRIORS
from mn_engine.select.cmp.utility import recency, trust_of, utility
from tests.unit.select.cmp.memories import NOON, memory

DAY = 24 * 60 * 60 * 1_000_000
WEIGHTS = resolve_profile("gpt").weights


@given(st.integers(0, 20 * HALF_LIFE_MICROS))
def test_recency_halves_every_thirty_days(age: int) -> None:
    assert recency(age) == pytest.approx(ONE * math.exp(-age / DAY * math.log(2) / 30), abs=ONE / 64 + 1)


@given(st.integers(0, 1 << 62), st.integers(0, 1 << 62))
def test_what_is_older_is_never_more_recent(one: int, other: int) -> None:
    assert recency(max(one, other)) <= recency(min(one, other)) <= ONE


def test_recency_at_whole_half_lives_and_beyond() -> None:
    assert [recency(halves * HALF_LIFE_MICROS) for halves in range(4)] == [1024, 512, 256, 128]
    assert recency(-DAY) == ONE
    assert recency(10**18) == 0


@given(
    score=st.integers(0, 1 << 24),
    best=st.integers(1, 1 << 24),
    age=st.integers(0, 5 * HALF_LIFE_MICROS),
    trust=st.floats(0, 1),
)
def test_utility_is_the_prior_times_the_mix(score: int, best: int, age: int, trust: float) -> None:
    score = min(score, best)
    item = memory("m", "text", Kind.DECISION, trust=trust, occurred_at=NOON - age)
    mixed = WEIGHTS.relevance * score / best + WEIGHTS.recency * recency(age) / ONE + WEIGHTS.trust * trust
    told = utility(item.card, score=score, best=best, newest=NOON, weights=WEIGHTS)
    assert told == pytest.approx(PRIORS["decisions"] * mixed, abs=3 * ONE)


def test_a_constraint_is_worth_more_than_chatter_of_the_same_match() -> None:
    told = [
        utility(memory("m", "text", kind).card, score=5, best=10, newest=NOON, weights=WEIGHTS)
        for kind in (Kind.CONSTRAINT, Kind.FACT, Kind.OBSERVATION)
    ]
    assert told == sorted(told, reverse=True)
    assert len(set(told)) == len(told)


def test_trust_is_as_said_else_by_check() -> None:
    assert trust_of(memory("m", "t", trust=0.25, confidence=1.0).card) == 256
    assert trust_of(memory("m", "t", confidence=1.0).card) == ONE
    by_check = [trust_of(memory("m", "t", validation=checked).card) for checked in (
        Validation.VALIDATED, Validation.UNVERIFIED, Validation.REJECTED)]  # fmt: skip
    assert by_check == sorted(by_check, reverse=True)
