"""Canonical JSON: one byte string a value."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_contract.canonical import digest, encoded
from mn_contract.errors import InvalidInput

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_encoding_what_was_decoded_gives_the_same_bytes(value: object) -> None:
    """Bytes are a fixed point, whatever order keys came in."""
    assert encoded(json.loads(encoded(value))) == encoded(value)


@given(st.dictionaries(st.text(), st.integers(), min_size=2))
def test_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    assert encoded(dict(reversed(value.items()))) == encoded(value)


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), {1: "a"}, {"a": object()}, "\ud800", {"\udfff": 1}, b"bytes", {"a": {None: 1}}],
)
def test_what_has_no_single_form_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput):
        encoded(value)


def test_a_value_nested_without_end_is_refused() -> None:
    value: list[object] = []
    for _ in range(5000):
        value = [value]
    with pytest.raises(InvalidInput):
        encoded(value)


def test_the_digest_of_bytes_is_their_own_and_of_values_that_of_their_form() -> None:
    assert digest(b"{}") == digest({})
    assert digest("{}") != digest(b"{}")
