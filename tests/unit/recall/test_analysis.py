"""What becomes of text: terms of prose, code, numbers and CJK, and the numbers that are stored of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_engine.domain.cards import Stance, document_size
from mn_engine.recall.analysis import (
    COUNT_MAX,
    analyse,
    analyse_query,
    claim_hash,
    label_hash,
    matched_terms,
    term_hash,
    terms,
)
from tests.unit.recall.corpus import SAMPLE, card


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The parsers were failing", {"parser", "fail"}),
        ("it doesn't, she'll, Ada's", {"ada"}),
        ("getUserName", {"getusername", "get", "user", "name"}),
        ("parse_http_header", {"parse_http_header", "pars", "http", "header"}),
        ("os.path.join", {"os.path.join", "os", "path", "join"}),
        ("src/mn_engine/view.py", {"src/mn_engine/view.py", "mn_engine", "src", "mn", "engin", "view", "py"}),
        ("__init__", {"__init__", "init"}),
        ("RunIndex.of_rows", {"runindex.of_rows", "runindex", "of_rows", "run", "index", "row"}),
        ("HTTPServer", {"httpserver", "http", "server"}),
        ("E1101 and ERR-42", {"e1101", "1101", "err-42", "err", "42"}),
        ("3.14 on 2024-05-01", {"3.14", "14", "2024-05-01", "2024", "05", "01"}),
        ("日本語", {"日", "本", "語", "日本", "本語"}),
        ("日本語parser", {"日", "本", "語", "日本", "本語", "parser"}),
        ("ｆｕｌｌ width cafe\u0301", {"full", "width", "café"}),
        ("", set()),
        ("the of and ... !", set()),
    ],
)
def test_text_yields_whole_tokens_and_their_parts(text: str, expected: set[str]) -> None:
    assert set(terms(text)) == expected


def test_a_card_is_found_by_part_or_whole_of_an_identifier_in_any_case() -> None:
    text = "RunIndex.extended_by raises E1101"
    for question in ("runindex", "run index", "extended", "RUNINDEX.EXTENDED_BY", "e1101"):
        assert matched_terms(text, analyse_query(question)), question


def test_matched_terms_are_the_queries_own_ascending() -> None:
    query = analyse_query("zebra parsers and the lexer")
    assert matched_terms("a lexer, two lexers, one parser", query) == ("lexer", "parser")
    assert matched_terms("anything", analyse_query("the of")) == ()


def test_a_query_holds_each_term_once_in_order_of_appearance() -> None:
    query = analyse_query("lexer parser lexer parsers")
    assert query.terms == ("lexer", "parser")
    assert query.hashes == (term_hash("lexer"), term_hash("parser"))


@SAMPLE
@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=200))
def test_analysis_of_any_text_is_well_formed(text: str) -> None:
    analysed = analyse(card("a", text))
    hashes, counts = np.frombuffer(analysed.terms, "<u4"), np.frombuffer(analysed.counts, np.uint8)
    assert len(hashes) == len(counts)
    assert (np.diff(hashes.astype(np.int64)) > 0).all()
    assert set(hashes.tolist()) == {term_hash(term) for term in terms(text)}
    assert analysed.length >= len(hashes)
    assert (counts >= 1).all()


def test_counts_are_capped_and_lengths_are_not() -> None:
    analysed = analyse(card("a", "parser " * 300))
    assert list(analysed.counts) == [COUNT_MAX]
    assert analysed.length == 300


def test_summary_topics_and_entities_are_searched_by_their_words() -> None:
    analysed = analyse(card("a", "x1", summary="parsers", topics=("cold cache",), entities=("Ada Lovelace",)))
    hashes = set(np.frombuffer(analysed.terms, "<u4").tolist())
    assert hashes >= {term_hash(term) for term in ("parser", "cold", "cach", "ada", "lovelac")}


def test_a_term_has_the_same_hash_in_every_process_and_for_ever() -> None:
    """Invariant 5, against a hash that was written down: stored analysis must go on matching queries."""
    assert term_hash("parser") == 2395856528


def test_labels_fold_case_and_claims_are_exact() -> None:
    assert label_hash(" Pricing ") == label_hash("pricing")
    assert claim_hash("Claim-a") != claim_hash("claim-A")
    analysed = analyse(card("a", claims=(("x", Stance.SUPPORTS), ("X", Stance.OPPOSES)), topics=("T", "t")))
    stances = dict(zip(np.frombuffer(analysed.claims, "<u4").tolist(), analysed.claim_stances, strict=True))
    assert stances == {claim_hash("x"): Stance.SUPPORTS, claim_hash("X"): Stance.OPPOSES}
    assert len(analysed.topics) == 4, "two spellings of a topic are one label"


def test_ids_are_told_apart_by_owner_and_texts_by_content() -> None:
    mine, yours = analyse(card("a", "x")), analyse(card("a", "x", owner="bob"))
    assert mine.id_hash == yours.id_hash
    assert mine.text_hash == yours.text_hash
    assert mine.key_hash != yours.key_hash


def test_document_bytes_are_those_of_the_document() -> None:
    written = card("a", "naïve 日本", topics=("t",), confidence=0.5, source_url="https://example.org")
    assert analyse(written).document_bytes == document_size(written.document(ref="a"))
