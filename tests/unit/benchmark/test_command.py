"""The runner: configurations, exit codes, and a report in every case."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mn_benchmark.command import main
from mn_benchmark.config import Gate, read_config
from mn_benchmark.report import Sample, Statistic, check_folder, row
from mn_benchmark.suites.cranfield import ndcg
from mn_benchmark.tokens import tokens
from mn_contract.errors import InvalidInput
from mn_tokens import encodings
from tests.unit.benchmark.running import ran


def conversation() -> dict[str, object]:
    """A conversation of two sessions in LoCoMo's format."""
    return {
        "sample_id": "one",
        "conversation": {
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ada", "dia_id": "D1:1", "text": "The parser rejects nested brackets."},
                {"speaker": "Bob", "dia_id": "D1:2", "text": "Since when?"},
            ],
            "session_2_date_time": "2:00 pm on 9 May, 2023",
            "session_2": [{"speaker": "Bob", "dia_id": "D2:1", "text": "We bought a boat."}],
        },
        "qa": [
            {"question": "What does the parser reject?", "answer": "x", "evidence": ["D1:1"], "category": 4},
            {"question": "What was bought?", "answer": "x", "evidence": ["D:2:1"], "category": 1},
            {"question": "Who flew?", "answer": "x", "evidence": [], "category": 5},
        ],
    }


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data" / "locomo").mkdir(parents=True)
    (tmp_path / "data" / "locomo" / "one.json").write_text(json.dumps([conversation()]))
    return tmp_path / "data"


def test_a_suite_runs_and_reports(tmp_path: Path, data: Path) -> None:
    result = ran(tmp_path, "suite: locomo\ngates: [{metric: recall@10, at_least: 0.9}]", data)
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    rows = {(one["case"], one["system"], one["metric"]): one for one in report["rows"]}
    assert rows["all", "membrane", "recall@10"]["value"] == 1.0
    assert rows["all", "membrane", "recall@10"]["n"] == 2
    assert {case for case, _, _ in rows} == {"all", "single-hop", "multi-hop"}
    assert list(report["environment"]["data"]) == ["locomo/one.json"]


def test_a_gate_that_fails_is_told_and_ends_with_1(tmp_path: Path, data: Path) -> None:
    result = ran(tmp_path, "suite: locomo\ngates: [{metric: recall@10, at_most: 0.5}]", data)
    assert result.exit_code == 1
    assert json.loads((tmp_path / "out" / "report.json").read_text())["failed_gates"]


@pytest.mark.parametrize(("value", "failed"), [(0.6, True), (0.7, False), (0.8, False)])
def test_a_gate_may_hold_a_figure_to_that_of_a_peer(value: float, failed: bool) -> None:
    figures = {"membrane": value, "bm25s": 0.7}
    rows = [row(Sample(case="all", system=name, metric="m", values=[one]), seed=1) for name, one in figures.items()]
    assert bool(Gate(metric="m", at_least_peer="bm25s").failure(rows)) is failed


def test_absent_data_is_reported_and_no_failure(tmp_path: Path) -> None:
    result = ran(tmp_path, "suite: locomo\ngates: [{metric: recall@10, at_least: 0.9}]", tmp_path)
    assert result.exit_code == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["rows"] == []
    assert "locomo" in report["absent"][0]


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (
            "suite: none",
            "there is no suite 'none'; suites are beam, counter_evidence, cranfield, delta, faces, locomo, multihop,",
        ),
        ("suite: 3", "there is no suite 3; suites are beam, "),
        ("seed: 1", "config.yaml: it names no suite; suites are beam, "),
        ("", "config.yaml: it is empty; a configuration has gates, peers, seed, settings, suite"),
        ("- 1", "is an object with gates, peers, seed, settings, suite"),
        ("suite: locomo\nsede: 1", "has no 'sede'; it has gates, peers, seed, settings, suite"),
        ("suite: locomo\nsettings: {k: 3}", "the suite has no settings, so no 'k'"),
        ("suite: locomo\nseed: 2001-99-99", "no YAML"),
        ("suite: locomo\nseed: -1", "seed"),
        ("suite: locomo\npeers: [grep]", "there is no peer"),
        ("suite: locomo\npeers: grep", "peers"),
        ("suite: locomo\nsettings: 3", "settings"),
        ("suite: locomo\ngates: [{metric: x}]", "at_least"),
        ("suite: locomo\ngates: [{metric: x, at_least: true}]", "number"),
        ("suite: locomo\ngates: [{metric: x, at_least_peer: bm25s}]", "at_least_peer"),
        ("suite: locomo\ngates: [3]", "object"),
        ("suite: [", "YAML"),
    ],
)
def test_a_bad_configuration_is_one_line_and_exit_code_2(tmp_path: Path, data: Path, config: str, told: str) -> None:
    result = ran(tmp_path, config, data)
    assert result.exit_code == 2
    assert told in result.output
    assert len(result.output.strip().splitlines()) == 1


@pytest.mark.parametrize("content", ["{", "[1]", "[{}]", '{"a": 1}', "\x00", '[{"conversation": {}, "qa": 3}]'])
def test_data_of_another_format_names_the_file(tmp_path: Path, data: Path, content: str) -> None:
    (data / "locomo" / "one.json").write_text(content)
    result = ran(tmp_path, "suite: locomo", data)
    assert result.exit_code == 2
    assert "one.json" in result.output


@pytest.mark.parametrize("option", ["--config", "--data", "--output"])
def test_an_empty_path_is_not_the_working_folder(tmp_path: Path, data: Path, option: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("suite: locomo")
    paths = {"--config": str(config), "--data": str(data), "--output": str(tmp_path / "out"), option: ""}
    result = CliRunner().invoke(main, [part for pair in paths.items() for part in pair])
    assert result.exit_code == 2
    assert f"'{option}': it is empty" in result.output


def several(tmp_path: Path, data: Path, **configs: str) -> Result:
    """What the command did with configurations of these names; `__` is a folder's end."""
    options = []
    for name, content in configs.items():
        file = tmp_path / f"{name.replace('__', '/')}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(content)
        options += ["--config", str(file)]
    return CliRunner().invoke(main, [*options, "--data", str(data), "--output", str(tmp_path / "out")])


def test_a_suite_whose_data_is_damaged_stops_no_other(tmp_path: Path, data: Path) -> None:
    (data / "letta-evals").mkdir()
    (data / "letta-evals/one.jsonl").write_text("{")
    assert several(tmp_path, data, one="suite: supersession", two="suite: locomo").exit_code == 2
    reports = {name: json.loads((tmp_path / "out" / name / "report.json").read_text()) for name in ("one", "two")}
    assert [bool(reports["one"]["rows"]), len(reports["one"]["errors"])] == [False, 1]
    assert [bool(reports["two"]["rows"]), len(reports["two"]["errors"])] == [True, 0]


def test_all_configurations_are_read_before_anything_is_measured(tmp_path: Path, data: Path) -> None:
    result = several(tmp_path, data, one="suite: locomo", two="suite: nosuch")
    assert (result.exit_code, len(result.output.splitlines())) == (2, 1)
    assert not (tmp_path / "out").exists()


def test_two_configurations_of_one_name_are_refused(tmp_path: Path, data: Path) -> None:
    result = several(tmp_path, data, a__one="suite: locomo", b__one="suite: locomo")
    assert (result.exit_code, "2 files are called one" in result.output) == (2, True)


def test_what_ends_a_suite_is_reported(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encodings, "available", lambda _: False)
    tokens.cache_clear()
    assert ran(tmp_path, "suite: locomo", data).exit_code == 2
    assert "tokenizer" in json.loads((tmp_path / "out" / "report.json").read_text())["errors"][0]


def test_damage_counts_for_more_than_a_gate(tmp_path: Path, data: Path) -> None:
    (data / "locomo" / "two.json").write_text("{")
    result = ran(tmp_path, "suite: locomo\ngates: [{metric: recall@10, at_most: 0.5}]", data)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (result.exit_code, len(report["failed_gates"]), len(report["errors"])) == (2, 1, 1)


def test_make_names_the_suites() -> None:
    root = Path(__file__).parents[3]
    command = ["make", "benchmark", "SUITE=nosuch", "DATA=."]
    made = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=60)
    assert made.returncode == 2
    assert "there is no suite nosuch; suites are beam counter_evidence" in made.stderr


@pytest.mark.parametrize(("suite", "status"), [("resume", 0), ("temporal", 0), ("locomo", 2), ("", 2)])
def test_make_asks_for_data_where_a_suite_needs_it(suite: str, status: int) -> None:
    root = Path(__file__).parents[3]
    made = subprocess.run(
        ["make", "known-suite", f"SUITE={suite}", "DATA="],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert made.returncode == status
    assert ("none is needed for resume temporal" in made.stderr) is bool(status)


def test_a_configuration_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        read_config(tmp_path / "none.yaml")


def test_an_interval_holds_its_mean_and_comes_out_alike() -> None:
    sample = Sample(case="all", system="x", metric="m", values=[0.0, 1.0, 1.0, 0.5])
    one = row(sample, seed=1)
    assert one.ci_low <= one.value == 0.625 <= one.ci_high
    assert row(sample, seed=1) == one


@pytest.mark.parametrize(
    ("ranked", "value"), [([1, 2], 1.0), ([3, 1], 0.3868528), ([3], 0.0), ([], 0.0), ([2, 1, 3], 1.0)]
)
def test_gain_is_discounted_and_normalised(ranked: list[int], value: float) -> None:
    assert ndcg(ranked, {1, 2}) == pytest.approx(value)


def test_a_report_that_cannot_be_written_is_told_before_anything_is_measured(tmp_path: Path, data: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    result = ran(tmp_path, "suite: locomo", data)
    assert (result.exit_code, result.exception.__class__) == (2, SystemExit)
    assert "--output" in result.output
    assert "cannot be made: it is a file" in result.output
    assert "membrane" not in result.output
    (tmp_path / "out").unlink()
    (tmp_path / "out" / "report.json").mkdir(parents=True)
    assert ran(tmp_path, "suite: locomo", data).exit_code == 2


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that nobody can write to")
def test_a_folder_that_nobody_can_write_to_holds_no_report() -> None:
    with pytest.raises(InvalidInput, match="--output: /proc/self cannot be written"):
        check_folder(Path("/proc/self"))


def test_a_gate_that_can_hold_nothing_is_no_gate(tmp_path: Path, data: Path) -> None:
    unknown = ran(tmp_path, "suite: locomo\ngates: [{metric: recal@10, at_least: 0.9}]", data)
    assert unknown.exit_code == 1
    assert "recal@10 is no figure of this suite" in unknown.output
    assert ran(tmp_path, "suite: locomo\ngates: [{metric: recall@10, at_least: .nan}]", data).exit_code == 2
    absent = ran(tmp_path, "suite: locomo\ngates: [{metric: recall@10, case: temporal, at_least: 0.9}]", data)
    assert absent.exit_code == 0, "data of this case is not there"
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert "no temporal recall@10 of membrane was measured" in report["absent"][0]


def test_data_that_holds_nothing_is_reported_as_absent(tmp_path: Path, data: Path) -> None:
    (data / "locomo" / "one.json").write_text("[]")
    result = ran(tmp_path, "suite: locomo", data)
    assert result.exit_code == 0
    assert json.loads((tmp_path / "out" / "report.json").read_text())["absent"]


def test_documents_that_were_cut_short_are_no_cranfield(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "cranfield"
    folder.mkdir(parents=True)
    whole = "".join(f".I {n}\n.T\ntitle {n}\n.W\nwing {n}\n" for n in (1, 2))
    (folder / "cran.qry").write_text(".I 001\n.W\nwing 2\n")
    (folder / "cranqrel").write_text("1 2 1\n")
    (folder / "cran.all.1400").write_text(whole)
    assert ran(tmp_path, "suite: cranfield", tmp_path / "data").exit_code == 0
    (folder / "cran.all.1400").write_text(whole[: len(whole) // 2])
    cut = ran(tmp_path, "suite: cranfield", tmp_path / "data")
    assert (cut.exit_code, "cut short" in cut.output) == (2, True)


@pytest.mark.parametrize(("statistic", "value"), [("mean", 3.5), ("p50", 2.5), ("p95", 7.25), ("max", 8.0)])
def test_a_row_is_the_statistic_that_its_sample_names(statistic: Statistic, value: float) -> None:
    made = row(Sample(case="all", system="s", metric="m", values=[1, 2, 3, 8], statistic=statistic), seed=7)
    assert (made.value, made.n) == (value, 4)
    assert made.ci_low <= made.value <= made.ci_high
