"""The protocol's demo, as a user starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from jsonschema import Draft202012Validator

from mn_contract.smp import ENVELOPE_SCHEMA


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mn_engine.cli", "cmp-demo", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_it_keeps_its_promises_and_writes_its_examples(tmp_path: Path) -> None:
    told = _run("--output", str(tmp_path / "examples"))
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines()[-1] == "CMP DEMO OK"
    schema = Draft202012Validator(dict(ENVELOPE_SCHEMA))
    examples = {file.name: json.loads(file.read_text()) for file in (tmp_path / "examples").iterdir()}
    assert set(examples) == {"example_smp_claude.json", "example_smp_delta_turn2.json"}
    for envelope in examples.values():
        schema.validate(envelope)
    assert examples["example_smp_claude.json"]["working_memory"] is None
    delta = examples["example_smp_delta_turn2.json"]["working_memory"]
    assert delta["cursor"] == "2"
    assert delta["new"]


def test_it_says_where_it_could_not_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told = _run("--output", str(tmp_path / "file" / "below"))
    assert told.returncode == 1
    assert told.stderr.startswith("CMP DEMO FAILED: ")
