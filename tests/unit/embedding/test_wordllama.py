"""wordllama's packaged vectors."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mn_contract.errors import DependencyUnavailable
from mn_engine.embedding import wordllama
from mn_engine.recall.analysis import term_hash, terms
from mn_engine.recall.vectors import cosines


def near(word: str) -> dict[int, int]:
    """Neighbours of a word, with their cosines."""
    return dict(wordllama.load().lexicon.near(term_hash(next(terms(word)))))


@pytest.mark.parametrize(("word", "other"), [("car", "vehicle"), ("doctor", "patient"), ("painting", "art")])
def test_words_that_are_near_in_meaning_are_neighbours(word: str, other: str) -> None:
    assert term_hash(next(terms(other))) in near(word)


def test_a_text_is_nearer_to_what_says_the_same_in_other_words() -> None:
    texts = [
        "The physician saw her patient.",
        "A doctor treated the sick.",
        "The parser rejects nested brackets.",
    ]
    vectors = wordllama.load().embed(texts)
    same, other = cosines(vectors[1:], vectors[0]).tolist()
    assert same > 2 * max(other, 1)


def test_texts_are_embedded_alike_one_by_one_and_together() -> None:
    """Invariant 5. The empty text says nothing."""
    texts = ["one", "", "zwei 三 four 🙂", "x" * 5000]
    together = wordllama.load().embed(texts)
    assert all((wordllama.load().embed([text])[0] == row).all() for text, row in zip(texts, together, strict=True))
    assert not together[1].any()
    assert together.dtype == np.int8


def test_a_package_that_is_not_whole_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wordllama.load.cache_clear()
    for spec in (None, SimpleNamespace(submodule_search_locations=[str(tmp_path)])):
        with monkeypatch.context() as patched:
            patched.setattr(importlib.util, "find_spec", lambda name, spec=spec: spec)
            with pytest.raises(DependencyUnavailable, match="wordllama"):
                wordllama.load()
