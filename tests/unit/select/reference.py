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
    tokens: int
    stance: Stance
    terms: frozenset[int]
    text: int
    against: frozenset[int] = frozenset()
    """Places of cards that it contradicts, or that contradict it."""
    standing: bool = False
    number: int = 0
    """Its number among the cards that the reader may read."""


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
    """Each card's score less its redundancy with those that rank above it."""
    return [
        card.score * (2048 - max((_same(card, other) for other in window[:at]), default=0)) // 2048
        for at, card in enumerate(window)
    ]


def filled(
    ranked: Sequence[Candidate], *, room: int, tokens: int | None, slots: int, shares: Shares, rotation: int | None
) -> list[tuple[int, Role]]:
    """(place, role) of what a first page takes, in order."""
    ordered = in_order(ranked)
    metered = 1 << 62 if tokens is None else tokens
    taken: dict[int, Role] = {}
    used = [0, 0]

    def offer(role: Role, cards: Sequence[Candidate], bytes_left: int, tokens_left: int) -> None:
        left = [min(bytes_left, room - used[0]), min(tokens_left, metered - used[1])]
        for card in cards:
            fits = card.size <= left[0] and card.tokens <= left[1]
            if card.place not in taken and fits and len(taken) < slots:
                taken[card.place] = role
                for measure, amount in enumerate((card.size, card.tokens)):
                    used[measure] += amount
                    left[measure] -= amount

    def part(share: float) -> tuple[int, int]:
        whole = Fraction(repr(share))
        return int(whole * room), metered if tokens is None else int(whole * tokens)

    against = [card for card in ordered if card.stance in (Stance.OPPOSES, Stance.MIXED)]
    offer(Role.OPPOSING_SHARE, against, *part(shares.opposing))
    offer(
        Role.SUPPORTING_SHARE,
        [card for card in ordered if card.stance in (Stance.SUPPORTS, Stance.MIXED)],
        *part(shares.supporting),
    )
    offer(Role.STANDING, [card for card in ranked if card.standing], *part(0.5))
    kept = (0, 0) if rotation is None else part(0.1)
    rest = (room - kept[0], metered if tokens is None else tokens - kept[1])
    offer(Role.RANKED, ordered, rest[0] - used[0], rest[1] - used[1])
    _exchange(ordered, taken, room=rest[0], tokens=rest[1])
    used[:] = [sum(getattr(card, measure) for card in ordered if card.place in taken) for measure in ("size", "tokens")]
    if rotation is not None:
        turns = sorted(ordered, key=lambda card: (card.number < rotation, card.number))
        due = [card for card in turns if card.place not in taken and card.size <= kept[0] and card.tokens <= kept[1]]
        for count in range(len(due) + 1):
            if sum(card.size for card in due[:count]) > kept[0] or sum(card.tokens for card in due[:count]) > kept[1]:
                due = due[: count - 1]  # from here on it is the next turn's
                break
        offer(Role.ROTATED, due, *kept)
    offer(Role.RANKED, ordered, room, metered)
    return [(card.place, taken[card.place]) for card in ordered if card.place in taken]


def _exchange(ordered: Sequence[Candidate], taken: dict[int, Role], *, room: int, tokens: int) -> None:
    """Cards taken by rank, the least useful first, give way to one that is worth more than they are together."""
    worth = utilities(ordered)

    def fits(places: set[int]) -> bool:
        some = [card for card in ordered if card.place in places]
        return sum(card.size for card in some) <= room and sum(card.tokens for card in some) <= tokens

    by_rank = sorted(ordered, key=lambda card: (-card.score, -card.place))
    for card in sorted((one for one in by_rank if one.place not in taken), key=lambda one: -worth[one.place])[:64]:
        if not fits({card.place}) or Role.RANKED not in taken.values():
            continue
        held = [one.place for one in reversed(by_rank) if taken.get(one.place) is Role.RANKED]
        leaving: list[int] = []
        for place in sorted(held, key=lambda place: worth[place]):
            if not fits({*taken, card.place} - set(leaving)):
                leaving.append(place)
        if not fits({*taken, card.place} - set(leaving)):
            continue
        if not leaving or sum(worth[place] for place in leaving) >= worth[card.place]:
            continue
        for place in leaving[::-1]:
            if fits({*taken, card.place} - (set(leaving) - {place})):
                leaving.remove(place)
        for place in leaving:
            del taken[place]
        taken[card.place] = Role.RANKED


def utilities(ordered: Sequence[Candidate]) -> dict[int, int]:
    """What each card adds to those that rank above it in its window, by its place."""
    ranked = sorted(ordered, key=lambda card: (-card.score, -card.place))
    found: dict[int, int] = {}
    for first in range(0, len(ranked), DIVERSITY_WINDOW):
        window = ranked[first : first + DIVERSITY_WINDOW]
        found |= {card.place: worth for card, worth in zip(window, marginal(window), strict=True)}
    return found


def _same(one: Candidate, other: Candidate) -> int:
    if other.place in one.against:
        return 0
    if one.text == other.text:
        return 2048
    shared = len(one.terms & other.terms)
    return 1024 * shared // max(len(one.terms) + len(other.terms) - shared, 1)
