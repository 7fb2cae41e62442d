"""What the supersession suite's figures mean."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mn_engine.recall.timelines import Timelines
from mn_engine.recall.view import View
from tests.unit.benchmark.running import Figures, figures, ran, write

TRIPLES = ("triple_stale_suppressed", "triple_asof_found")


def fact_list(*old: int, newer: str = "Ada lives in Rome now") -> dict[str, object]:
    """A list in letta-evals' format."""
    extra = {
        "facts": ["Ada lives in Oslo", "Bob likes tea", "Ada's home is in Oslo"],
        "contradicting_fact": newer,
        "supporting_fact_indices": list(old),
    }
    return {"input": "Where does Ada live?", "agent_args": {"extra": extra}}


def of_all(found: Figures, system: str) -> dict[str, tuple[float, int]]:
    """One system's figures by metric."""
    return {metric: figure for (case, name, metric), figure in found.items() if (case, name) == ("all", system)}


def test_a_newer_fact_replaces_every_old_one_and_history_keeps_them(tmp_path: Path) -> None:
    lists = [fact_list(0, 2), fact_list(0, newer="Ada lives in Oslo"), fact_list()]
    write(tmp_path / "data/letta-evals/one.jsonl", *lists)
    found = figures(tmp_path, "suite: supersession\npeers: [bm25s-stemmed]", tmp_path / "data")
    metrics = ("stale_suppressed", "asof_found", "newer_found", "both_shown_marked", *TRIPLES)
    assert of_all(found, "membrane") == dict.fromkeys(metrics, (1, 2))
    assert of_all(found, "bm25s-stemmed") == {"stale_suppressed": (0, 2)}


def test_without_supersession_the_old_fact_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(View, "_ended", lambda view, _: np.zeros(view.count, np.bool_))
    write(tmp_path / "data/letta-evals/one.jsonl", fact_list(0, 2))
    found = of_all(figures(tmp_path, "suite: supersession", tmp_path / "data"), "membrane")
    assert found["stale_suppressed"] == (0, 1)
    assert found["newer_found"] == (1, 1)


def test_without_timelines_the_old_triple_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Timelines, "holding", lambda self, time: self._cards)
    write(tmp_path / "data/letta-evals/one.jsonl", fact_list(0, 2))
    found = of_all(figures(tmp_path, "suite: supersession", tmp_path / "data"), "membrane")
    assert [found[metric] for metric in TRIPLES] == [(0, 1), (1, 1)]


def test_without_conflicts_nothing_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(View, "conflicts", lambda *_: [])
    monkeypatch.setattr(View, "links", (np.zeros(0, np.int64), np.zeros(0, np.int64)))
    write(tmp_path / "data/letta-evals/one.jsonl", fact_list(0, 2))
    found = of_all(figures(tmp_path, "suite: supersession", tmp_path / "data"), "membrane")
    assert found["both_shown_marked"] == (0, 1)


@pytest.mark.parametrize(
    "given", [{}, [], fact_list(3), fact_list(-1), {"input": 3, "agent_args": fact_list(0)["agent_args"]}]
)
def test_data_of_another_format_names_file_and_place(tmp_path: Path, given: object) -> None:
    write(tmp_path / "data/letta-evals/one.jsonl", fact_list(0), given)
    result = ran(tmp_path, "suite: supersession", tmp_path / "data")
    assert result.exit_code == 2
    assert "one.jsonl, record 2" in result.output


def test_an_empty_folder_is_absent(tmp_path: Path) -> None:
    (tmp_path / "letta-evals").mkdir()
    assert figures(tmp_path, "suite: supersession", tmp_path) == {}
