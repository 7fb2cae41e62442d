"""What of the facts on offer a context takes: never above its budget, and what it looks at is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mn_engine.service.graph.context import filled


def offering(sizes: list[int], looked: list[int]) -> Iterator[tuple[Any, str]]:
    """Lines of so many letters; `looked` gets the number of each that is looked at. No item is ever read."""
    for number, size in enumerate(sizes):
        looked.append(number)
        yield number, "x" * size


@given(st.lists(st.integers(1, 200), max_size=60), st.integers(1, 400))
def test_what_is_taken_fits_and_what_was_passed_over_did_not(sizes: list[int], budget: int) -> None:
    taken, lines, used = filled(offering(sizes, []), budget, len)
    room = budget
    for number, size in enumerate(sizes):
        if number in taken:
            room -= size
        elif room >= 8:
            assert size > room
    assert used == sum(map(len, lines)) == budget - room
    assert room >= 0


def test_lines_that_together_take_more_than_alone_give_way() -> None:
    """Tokens may join where lines do: the whole is counted, too."""
    taken, lines, used = filled(offering([50, 49], []), 100, lambda text: len(text) + (10 if len(text) > 50 else 0))
    assert (taken, len(lines), used) == ([0], 1, 50)


def test_for_what_room_is_left_only_some_more_are_looked_at() -> None:
    looked: list[int] = []
    filled(offering([50] + [100] * 1000, looked), 100, len)
    assert len(looked) == 128
    looked.clear()
    taken, _, _ = filled(offering([9] * 200 + [100] * 1000, looked), 200 * 9 + 50, len)
    assert (len(taken), len(looked)) == (200, 400)


def test_while_nothing_has_fitted_all_are_looked_at() -> None:
    taken, _, _ = filled(offering([500] * 390 + [20], []), 100, len)
    assert taken == [390]
