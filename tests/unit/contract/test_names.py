"""Ids, references and media types."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_contract.errors import InvalidInput
from mn_contract.names import check_id, check_media_type, check_text, format_ref, parse_ref

ids = st.text("abcXYZ019_-.@/", min_size=1, max_size=160)


@given(ids, ids, ids)
def test_a_reference_says_whose_card_it_is(owner: str, card_id: str, asker: str) -> None:
    """Bare for one's own, with the owner's name for another's, and read back as written."""
    parsed = parse_ref(format_ref(owner, card_id, asker), "ref")
    assert parsed == ((None if owner == asker else owner), card_id)


@pytest.mark.parametrize("bad", ["", "a b", "a:b:c ", "ä", "x" * 161, "a\n", "a\0", None, 5, "a:", ":a"])
def test_malformed_names_are_refused_by_field(bad: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_ref(bad, "the_field")  # type: ignore[arg-type]
    assert caught.value.field == "the_field"


def test_a_trailing_newline_is_no_part_of_an_id() -> None:
    with pytest.raises(InvalidInput):
        check_id("abc\n", "id")


@pytest.mark.parametrize("good", ["text/plain", "text/plain; charset=utf-8", 'a/b;x="y z"', "application/vnd.a+json"])
def test_media_types_of_the_standard_pass(good: str) -> None:
    assert check_media_type(good, "m") == good


@pytest.mark.parametrize("bad", ["", "text", "text/", "/plain", "text/plain;", "a/b c", "a/" + "b" * 300])
def test_other_media_types_are_refused(bad: str) -> None:
    with pytest.raises(InvalidInput):
        check_media_type(bad, "m")


def test_text_is_measured_in_bytes_and_surrogates_are_refused() -> None:
    assert check_text("äö", "t", 4) == "äö"
    with pytest.raises(InvalidInput):
        check_text("äö", "t", 3)
    with pytest.raises(InvalidInput):
        check_text("\ud800", "t", 10)
