"""What a memory is worth to a pack: its layer's prior times a mix of relevance, recency and trust.

utility = prior x (w_relevance * relevance + w_recency * recency + w_trust * trust), in integers. Recency halves every
30 days; its zero is not the clock but the newest of the candidates (or the time that is asked of), so that the same
record and the same request give the same pack on any day.
"""

from __future__ import annotations

from math import isqrt
from typing import Final

from mn_engine.domain.cards import LAYERS, Card, Validation
from mn_engine.select.cmp.profiles import Weights
from mn_engine.select.cmp.table import (
    HALF_LIFE_MICROS,
    ONE,
    PRIORS,
    TRUST_REJECTED,
    TRUST_UNKNOWN,
    TRUST_VALIDATED,
)

_STEP_BITS: Final = 6
_STEPS: Final = 1 << _STEP_BITS
_FRACTION_BITS: Final = 16


def _root(value: int) -> int:
    """The whole part of the _STEPS-th root."""
    for _ in range(_STEP_BITS):
        value = isqrt(value)
    return value


_POWERS: Final = tuple(_root(1 << _FRACTION_BITS * _STEPS - step) for step in range(_STEPS))
"""2 ** -(step / _STEPS), with _FRACTION_BITS fraction bits."""


def utility(card: Card, *, score: int, best: int, newest: int, weights: Weights) -> int:
    """A card's utility beside candidates of which the best scores `best`; `newest` is when recency is ONE."""
    relevance = score * ONE // best if best else 0
    mixed = (
        weights.relevance * relevance
        + weights.recency * recency(newest - time_of(card))
        + weights.trust * trust_of(card)
    )
    return PRIORS[LAYERS[card.kind][0]] * mixed // ONE


def recency(age: int) -> int:
    """How recent something is, in 1024ths, by its age in microseconds: half every half-life."""
    halves, part = divmod(max(age, 0), HALF_LIFE_MICROS)
    if halves >= _FRACTION_BITS:
        return 0
    return _POWERS[part * _STEPS // HALF_LIFE_MICROS] >> halves + _FRACTION_BITS - 10


def time_of(card: Card) -> int:
    """When it was true or seen."""
    return card.captured_at if card.occurred_at is None else card.occurred_at


def trust_of(card: Card) -> int:
    """How far it is trusted, in 1024ths: as its writer said, else by whether somebody checked it."""
    said = card.confidence if card.trust is None else card.trust
    if said is not None:
        return round(said * ONE)
    by_check = {Validation.VALIDATED: TRUST_VALIDATED, Validation.REJECTED: TRUST_REJECTED}
    return by_check.get(card.validation, TRUST_UNKNOWN)
