"""Candidates: what simple text says, where it stands, and what says nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_engine.domain.extraction import candidates
from mn_engine.domain.facts import Fact


def said(text: str, *, about: str = "") -> list[tuple[str, str, str]]:
    """The triples of a text."""
    return [(one.subject, one.predicate, one.object) for one in candidates(text, about=about)]


@pytest.mark.parametrize(
    ("text", "triples"),
    [
        ("Ada works at Acme.", [("Ada", "works at", "Acme")]),
        ("The engine uses DuckDB 1.4.2", [("engine", "uses", "DuckDB 1.4.2")]),
        ("Ada likes it. Bo moved to Berlin", [("Ada", "likes", "it"), ("Bo", "moved to", "Berlin")]),
        ("service.port: 8080\n  - retries = 3\n", [("service", "port", "8080"), ("app", "retries", "3")]),
        ("CacheStore.get_item returns None", [("CacheStore.get_item", "returns", "None")]),
        ("Das Wetter in K\u00f6ln is sch\u00f6n.", [("Das Wetter in K\u00f6ln", "is", "sch\u00f6n")]),
    ],
)
def test_simple_sentences_and_pairs_are_candidates(text: str, triples: list[tuple[str, str, str]]) -> None:
    assert said(text, about="app") == triples


@pytest.mark.parametrize(
    "text",
    [
        "Is Ada at Acme?",
        "Ada is not in Berlin.",
        "Ada may use DuckDB.",
        "If it rains, the match is off.",
        "It is late.",
        "She works at Acme.",
        "Ada, who is tall, runs.",
        "port: 8080",
        "http://example.org/a",
        "",
        "x" * 5000 + " is y",
        " " * 100_000,
        "a: " + " " * 100_000,
        ("a " * 50_000) + "is",
    ],
)
def test_what_states_nothing_is_left_out(text: str) -> None:
    assert said(text) == []


@given(st.text(alphabet="Ada is works at\n.:=\u00e9\U0001f600? ", max_size=200), st.sampled_from(["", "app"]))
def test_a_candidate_says_where_it_stands_and_can_be_a_fact(text: str, about: str) -> None:
    data = text.encode()
    for one in candidates(text, about=about):
        stated = data[one.start : one.end].decode()
        assert one.object in stated
        assert one.predicate in stated
        assert one.subject in (about, *(stated[at : at + len(one.subject)] for at in range(len(stated))))
        Fact(subject=one.subject, predicate=one.predicate, object=one.object)
    assert candidates(text, about=about) == candidates(text, about=about)


def test_many_candidates_are_the_first_ones() -> None:
    assert len(candidates("\n".join(f"k{number}: v" for number in range(1000)), about="x")) == 256
