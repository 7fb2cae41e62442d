"""The suite that measures speed, on a small record: which rows it gives, never how long anything takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.benchmark.test_command import conversation, ran


@pytest.fixture
def data(tmp_path: Path) -> Path:
    contexts = [{"title": "Boats", "paragraph_text": "The boat was built in Oslo. It sails the North Sea.", "id": "0"}]
    claim = {"claim": "The sea is warm", "evidences": [{"evidence": "The North Sea is cold all year."}]}
    files = {
        "hotpotqa/one.jsonl": {"question_text": "Where was the boat built?", "contexts": contexts},
        "climate-fever/one.jsonl": claim,
        "locomo/one.json": [conversation()],
    }
    for name, content in files.items():
        (tmp_path / "data" / name).parent.mkdir(parents=True)
        (tmp_path / "data" / name).write_text(json.dumps(content))
    return tmp_path / "data"


def test_each_figure_stands_beside_the_peers(tmp_path: Path, data: Path) -> None:
    result = ran(tmp_path, "suite: speed\nsettings: {cards: 300, queries: 2, rounds: 2}", data)
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    rows = {(one["case"], one["system"], one["metric"]) for one in report["rows"]}
    cases = [f"{plan}{case}" for plan in ("", "lexical ", "unshared ") for case in ("common-term", "content-term")]
    assert rows == {
        *((case, "membrane", "ratio_to_tantivy") for case in cases),
        *((case, system, "p50_ms") for case in cases for system in ("membrane", "tantivy")),
        ("all", "membrane", "catch_up_ratio"),
        ("all", "membrane", "catch_up_longest_ms"),
        ("all", "membrane", "index_bytes_per_card"),
        ("all", "membrane", "index_bytes_per_card_with_vectors"),
    }


@pytest.mark.parametrize("settings", ["{card: 3}", "{cards: 0}", "{rounds: true}", "{queries: many}"])
def test_a_bad_setting_is_told(tmp_path: Path, data: Path, settings: str) -> None:
    result = ran(tmp_path, f"suite: speed\nsettings: {settings}", data)
    assert result.exit_code == 2
    assert len(result.output.strip().splitlines()) == 1
