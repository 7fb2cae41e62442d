"""Selection as the design words it, one card at a time, in plain Python: the arrays are held to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from mn_contract.limits import DIVERSITY_WINDOW
from mn_engine.domain.cards import Stance
from mn_engine.domain.packets import Role, Shares


@dataclass(frozen=True)
class Candidate:
    """A ranked optional card, as selection knows it."""

    place: int
    score: int
    size: int
    stance: Stance
    terms: frozenset[int]
    text: int


def in_order(ranked: Sequence[Candidate]) -> list[Candidate]:
    """The one order, window by window: utility per byte, newest first among equals."""
    ordered: list[Candidate] = []
    for first in range(0, len(ranked), DIVERSITY_WINDOW):
        window = ranked[first : first + DIVERSITY_WINDOW]
        utilities = marginal(window)
        density = {card.place: (utility << 12) // card.size for card, utility in zip(window, utilities, strict=True)}
        ordered += sorted(window, key=lambda card: (-density[card.place], -card.place))
    return ordered


def marginal(window: Sequence[Candidate]) -> list[int]:
    """Each card's score less its redundancy with those picked before, picking what adds most."""
    utilities = dict[int, int]()
    while len(utilities) < len(window):
        adds = {
            at: card.score * (2048 - max((_same(card, window[other]) for other in utilities), default=0))
            for at, card in enumerate(window)
            if at not in utilities
        }
        best = max(adds, key=lambda at: (adds[at], -at))
        utilities[best] = adds[best] // 2048
    return [utilities[at] for at in range(len(window))]


def filled(ordered: Sequence[Candidate], *, room: int, slots: int, shares: Shares) -> list[tuple[int, Role]]:
    """(place, role) of what a first page takes, in order."""
    taken: dict[int, Role] = {}
    used = 0
    offers = (
        (Role.OPPOSING_SHARE, shares.opposing, (Stance.OPPOSES, Stance.MIXED)),
        (Role.SUPPORTING_SHARE, shares.supporting, (Stance.SUPPORTS, Stance.MIXED)),
        (Role.RANKED, 1.0, tuple(Stance)),
    )
    for role, share, stances in offers:
        left = min(int(Fraction(repr(share)) * room), room - used)
        for card in ordered:
            if card.place not in taken and card.stance in stances and card.size <= left and len(taken) < slots:
                taken[card.place] = role
                used += card.size
                left -= card.size
    return [(card.place, taken[card.place]) for card in ordered if card.place in taken]


def _same(one: Candidate, other: Candidate) -> int:
    if one.text == other.text:
        return 2048
    shared = len(one.terms & other.terms)
    return 1024 * shared // max(len(one.terms) + len(other.terms) - shared, 1)
