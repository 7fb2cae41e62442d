"""The ladder's rungs: a summary that says what it is, a head that is an exact part of the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_engine.domain.cards import Kind
from mn_engine.domain.packs import Form
from mn_engine.select.cmp.ladder import head_end, rungs
from tests.unit.select.cmp.memories import memory


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("The launch is in May. The site follows.", "The launch is in May."),
        ("Is it in May? Nobody knows.", "Is it in May?"),
        ("See Fig. 3 for the plan. It is old.", "See Fig. 3 for the plan."),
        ("Tools, e.g. hammers, are there. Use them.", "Tools, e.g. hammers, are there."),
        ("Asked by J. Smith in May. He left.", "Asked by J. Smith in May."),
        ('She said "stop it now." Then she left.', 'She said "stop it now."'),
        ("Version 1.2 is out now. Get it.", "Version 1.2 is out now."),
        ("First line of it\nsecond line", "First line of it"),
        ("\u4eca\u65e5\u306f\u6674\u308c\u3002\u660e\u65e5\u306f\u96e8\u3002", "\u4eca\u65e5\u306f\u6674\u308c\u3002"),
        ("One sentence only.", ""),
        ("No end at all", ""),
        ("Short. But this goes on.", ""),
        ("", ""),
    ],
)
def test_the_head_is_the_first_sentence(text: str, head: str) -> None:
    assert text[: head_end(text)] == head


@given(st.text(min_size=1, max_size=200).filter(str.strip))
def test_a_head_is_a_proper_part_and_an_exact_range(text: str) -> None:
    end = head_end(text)
    assert 0 <= end < len(text)
    item = memory("m", text)
    for form, bytes_end in rungs(item.card):
        assert form is Form.HEAD
        assert text.encode()[:bytes_end].decode() == text[:end]


def test_the_fuller_rung_comes_first() -> None:
    item = memory("m", "The launch is in May. The site follows later in the year.", summary="Launch in May, site later")
    assert [form for form, _ in rungs(item.card)] == [Form.SUMMARY, Form.HEAD]


def test_a_summary_longer_than_the_text_is_no_rung() -> None:
    assert list(rungs(memory("m", "Short text", summary="a summary that is longer").card)) == []


def test_a_derived_memory_has_no_head() -> None:
    """Invariant 6: a head is cited as an exact part of what was said, and a summary was not said."""
    text = "The launch is in May. The site follows later in the year."
    assert list(rungs(memory("m", text, Kind.SUMMARY).card)) == []
