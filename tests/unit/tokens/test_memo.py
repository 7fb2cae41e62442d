"""A memo gives back what it was given for the same value, and is bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_contract.errors import InvalidInput
from mn_tokens.memo import Memo
from mn_tokens.reading.json_values import frozen, frozen_group

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def test_it_keeps_what_came_last_within_its_bounds() -> None:
    memo = Memo[int](entries_max=3, characters_max=10)
    for number in range(5):
        assert memo.keep(f"k{number}", number) == number
    assert [memo.find(f"k{number}") for number in range(5)] == [None, None, 2, 3, 4]
    memo.keep("a" * 8, 7)
    assert (memo.find("k4"), memo.find("a" * 8), len(memo)) == (4, 7, 2)
    assert memo.keep("b" * 11, 9) == 9
    assert memo.find("b" * 11) is None


def same(one: object, other: object) -> bool:
    """Whether two values are the same JSON: types, values and the order of keys."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other)


def test_zeros_that_are_written_differently_are_different_values() -> None:
    assert frozen(0.0, "f") != frozen(-0.0, "f")
    assert frozen({"a": [0.0]}, "f") != frozen({"a": [-0.0]}, "f")


@given(JSON, JSON)
def test_frozen_values_are_equal_where_the_values_are(one: object, other: object) -> None:
    assert (frozen(one, "f") == frozen(other, "f")) == same(one, other)
    assert hash(frozen(one, "f")) == hash(frozen(one, "f"))


OBJECTS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["a", "b", "c", 1, True, None]), max_size=3)


@given(st.lists(OBJECTS, min_size=1, max_size=2), st.lists(OBJECTS, min_size=1, max_size=2))
def test_groups_are_equal_where_their_items_are(one: list[dict[str, object]], other: list[dict[str, object]]) -> None:
    assert (frozen_group(one, "f") == frozen_group(other, "f")) == same(one, other)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"x", {1: 2}, {"a": {1}}, object(), [set()]])
def test_what_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        frozen(value, "f")
    assert refused.value.field == "f"
