"""What the BEAM suite's figures mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mn_benchmark.suites.beam import without_marker
from mn_engine.recall import rank, required
from tests.unit.benchmark.running import figures, ran

CONFIG = "suite: beam\npeers: [bm25s]"
INSTRUCTION = "Always answer in rhyme. ->-> 1,1"
PREFERENCE = "Serif fonts please me. ->-> 1,2"


def chat(data: Path, *messages: str, **questions: Any) -> Path:
    """A chat in BEAM's format after 4,000 tokens that talk of what every question asks. Its folder."""
    folder = data / "beam/one"
    (folder / "probing_questions").mkdir(parents=True)
    talk = [f"How should the report on sales number {number} look? " + "Sales report. " * 40 for number in range(60)]
    turn = [{"id": number, "role": "user", "content": text} for number, text in enumerate([*messages, *talk])]
    asked = {
        ability: [{"question": "How should the sales report look?", "source_chat_ids": cited}]
        for ability, cited in questions.items()
    }
    (folder / "chat.json").write_text(json.dumps([{"batch_number": 1, "turns": [turn[:5], turn[5:]]}]))
    (folder / "probing_questions/probing_questions.json").write_text(json.dumps(asked))
    return folder


def test_typed_messages_are_found_whatever_their_words(tmp_path: Path) -> None:
    chat(
        tmp_path,
        INSTRUCTION,
        PREFERENCE,
        instruction_following=[0],
        preference_following=[1],
        knowledge_update={"a": [0]},
    )
    found = figures(tmp_path, CONFIG, tmp_path)
    assert found["all", "membrane", "typed_present"] == (1, 2)
    assert found["all", "bm25s", "typed_present"] == (0, 2)
    assert found["all", "membrane", "recall@4000tokens"] == (1, 1)
    assert found["knowledge_update", "bm25s", "recall@4000tokens"] == (0, 1)


def test_without_the_rules_for_types_they_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(view: Any, _: Any) -> Any:
        return np.zeros(0, np.int64)

    monkeypatch.setattr(rank, "standing", nothing)
    monkeypatch.setattr(required, "demanded", nothing)
    chat(tmp_path, INSTRUCTION, PREFERENCE, instruction_following=[0], preference_following=[1])
    found = figures(tmp_path, CONFIG, tmp_path)
    assert found["all", "membrane", "typed_present"] == (0, 2)


def test_a_question_is_about_all_that_it_cites_and_knows_no_other_messages(tmp_path: Path) -> None:
    chat(
        tmp_path,
        INSTRUCTION,
        PREFERENCE,
        instruction_following=[0, 999],
        abstention=None,
        event_ordering=[0, [7, 8]],
        summarization={"first": [0], "second": 1},
    )
    found = figures(tmp_path, CONFIG, tmp_path)
    assert found["all", "membrane", "typed_present"] == (1, 1)
    assert ("abstention", "membrane", "recall@4000tokens") not in found
    assert found["summarization", "membrane", "recall@4000tokens"] == (0.5, 1)


def test_a_message_that_is_longer_than_a_card_is_found_whole(tmp_path: Path) -> None:
    chat(tmp_path, "Zebra crossing. " * 1000, instruction_following=[0], temporal_reasoning=[0])
    found = figures(tmp_path, CONFIG, tmp_path)
    assert found["all", "membrane", "typed_present"] == (1, 1)
    assert found["all", "membrane", "recall@4000tokens"] == (1, 1)


def test_a_part_of_a_message_is_not_the_message(tmp_path: Path) -> None:
    chat(tmp_path, "How the sales report should look. " * 800, temporal_reasoning=[0])
    assert figures(tmp_path, CONFIG, tmp_path)["all", "membrane", "recall@4000tokens"] == (0, 1)


def test_constraints_that_do_not_fit_are_told_and_count_as_not_found(tmp_path: Path) -> None:
    chat(tmp_path, "Zebra crossing. " * 2000, instruction_following=[0])
    result = ran(tmp_path, CONFIG, tmp_path)
    assert "no packet" in result.output
    assert figures(tmp_path, CONFIG, tmp_path)["all", "membrane", "typed_present"] == (0, 1)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Go on ->-> 1,1", "Go on"),
        ("Go on\n ->-> 12,N/A \n", "Go on"),
        ("a ->-> b", "a ->-> b"),
        ("Go ->-> 1,1 on", "Go ->-> 1,1 on"),
    ],
)
def test_a_marker_ends_a_message(text: str, left: str) -> None:
    assert without_marker(text) == left


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("chat.json", "[{"),
        ("chat.json", "[3]"),
        ("chat.json", '[{"turns": [[{"id": 1, "content": 3}]]}]'),
        ("chat.json", '[{"turns": [[{"id": 1, "content": "a"}, {"id": 1, "content": "b"}]]}]'),
        ("probing_questions/probing_questions.json", "[]"),
        ("probing_questions/probing_questions.json", '{"knowledge_update": [{"source_chat_ids": [1]}]}'),
        (
            "probing_questions/probing_questions.json",
            '{"knowledge_update": [{"question": "a", "source_chat_ids": ["x"]}]}',
        ),
    ],
)
def test_data_of_another_format_names_the_file(tmp_path: Path, file: str, content: str) -> None:
    (chat(tmp_path, "a") / file).write_text(content)
    result = ran(tmp_path, CONFIG, tmp_path)
    assert result.exit_code == 2
    assert file in result.output


def test_questions_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    (chat(tmp_path, "a") / "probing_questions/probing_questions.json").unlink()
    assert ran(tmp_path, CONFIG, tmp_path).exit_code == 2


def test_an_empty_folder_is_absent(tmp_path: Path) -> None:
    (tmp_path / "beam").mkdir()
    assert figures(tmp_path, CONFIG, tmp_path) == {}
