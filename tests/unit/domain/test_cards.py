"""What a card may hold in all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mn_contract.canonical import encoded
from mn_contract.errors import InvalidInput
from mn_contract.limits import (
    CARD_BYTES_MAX,
    CARD_LIST_MAX,
    CARD_SUMMARY_BYTES_MAX,
    CARD_TEXT_BYTES_MAX,
    CLAIM_BYTES_MAX,
    FACT_OBJECT_BYTES_MAX,
    ID_BYTES_MAX,
    LABEL_BYTES_MAX,
    SOURCE_URL_BYTES_MAX,
)
from mn_engine.domain.access import OPEN, Acl
from mn_engine.domain.cards import Card, CardKey, Kind, Relation, SourceRange, Stance
from mn_engine.domain.facts import Fact

COUNTS = st.sampled_from((0, 0, 0, 1, 5, CARD_LIST_MAX))
LETTERS = st.sampled_from(("a", '"', "\x01"))


def numbered(letter: str, count: int, length: int) -> list[str]:
    """So many different texts of so many bytes, made of one letter as far as that goes."""
    return [f"{number:02}".rjust(length, letter) for number in range(count)]


@st.composite
def fields(draw: Any) -> dict[str, Any]:
    """All that a card can say much of, in letters that JSON spells in one, two or six."""
    letter = draw(LETTERS)
    sources = tuple(
        SourceRange(artifact="a" * 64, start=number, end=1 << 30, sha256="b" * 64)
        for number in range(draw(COUNTS) or 1)
    )
    relations = [
        Relation("r" * ID_BYTES_MAX, CardKey("o" * ID_BYTES_MAX, one)) for one in numbered("i", draw(COUNTS), 160)
    ]
    fact = Fact(
        subject=letter * draw(st.integers(1, LABEL_BYTES_MAX)),
        predicate=letter * LABEL_BYTES_MAX,
        object=letter * draw(st.integers(1, FACT_OBJECT_BYTES_MAX)),
        qualifier=letter * LABEL_BYTES_MAX,
    )
    return {
        "owner": "w" * ID_BYTES_MAX,
        "id": "n" * ID_BYTES_MAX,
        "kind": Kind.FACT,
        "text": letter * draw(st.integers(1, CARD_TEXT_BYTES_MAX)),
        "summary": letter * draw(st.integers(0, CARD_SUMMARY_BYTES_MAX)),
        "source_url": letter * draw(st.integers(0, SOURCE_URL_BYTES_MAX)),
        "topics": tuple(numbered(letter, draw(COUNTS), LABEL_BYTES_MAX)),
        "entities": tuple(numbered(letter, draw(COUNTS), LABEL_BYTES_MAX)),
        "claims": tuple((one, Stance.OPPOSES) for one in numbered(letter, draw(COUNTS), CLAIM_BYTES_MAX)),
        "body": sources[0],
        "sources": sources,
        "relations": tuple(relations),
        "captured_at": 1 << 50,
        "valid_from": 1 << 50,
        "acl": draw(st.sampled_from((OPEN, Acl(allow_roles=frozenset(numbered("r", 32, ID_BYTES_MAX)))))),
        "fact": draw(st.sampled_from((None, fact))),
        "confidence": 0.12345678901234567,
    }


@settings(max_examples=300)
@given(said=fields())
def test_a_card_is_refused_just_where_it_is_too_large(said: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Card, "_check_size", lambda self: None)
        card = Card(**said)
    size = len(encoded(card.as_json()))
    if size <= CARD_BYTES_MAX:
        assert Card(**said) == card
    else:
        with pytest.raises(InvalidInput, match=f"not {size}"):
            Card(**said)
