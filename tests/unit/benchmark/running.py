"""Running a suite on made-up data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from mn_benchmark.command import main

Figures = dict[tuple[str, str, str], tuple[float, int]]


def ran(folder: Path, config: str, data: Path) -> Result:
    """What the command did."""
    file = folder / "config.yaml"
    file.write_text(config, encoding="utf-8")
    return CliRunner().invoke(main, ["--config", str(file), "--data", str(data), "--output", str(folder / "out")])


def figures(folder: Path, config: str, data: Path) -> Figures:
    """(value, n) by case, system and metric of a run that must succeed."""
    result = ran(folder, config, data)
    assert result.exit_code == 0, result.output
    return {(one["case"], one["system"], one["metric"]): (one["value"], one["n"]) for one in report(folder)["rows"]}


def report(folder: Path) -> Any:
    """The report of the last run."""
    return json.loads((folder / "out" / "report.json").read_text(encoding="utf-8"))


def write(file: Path, *records: object) -> Path:
    """Writes one JSON value a line and answers the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    return file
