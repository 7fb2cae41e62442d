"""The demo as a person runs it, on a small input of the test's own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

_LAST = re.compile(
    r"MEMBRANE DEMO OK decisions=40 over_window=0 repeated_calls=0 ambiguous=1 reconciled=1 max_history_tokens=(\d+)"
)


def _demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MN_")}
    return subprocess.run(
        [sys.executable, "-m", "mn_sdk.demo", *arguments],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={**environment, "COLUMNS": "100"},
    )


def test_the_demo_is_killed_resumed_and_reconciled_and_pays_for_nothing_twice(tmp_path: Path) -> None:
    letters = "abcdefghijklmnopqrst"
    lines = []
    for number in range(80):
        word = f"gadget{letters[number % 20]}{letters[number // 20]}"
        text = f"The {word} opens the door.\nThe {word} must never be used without a key.\n" + f"Notes on {word}. " * 40
        lines.append(json.dumps({"text": text}))
    source = tmp_path / "notes.jsonl"
    source.write_text("\n".join(lines))
    done = _demo("--input", str(source), "--decisions", "40", "--root", str(tmp_path / "root"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "", "other people's warnings are no part of the demo"
    found = _LAST.fullmatch(done.stdout.splitlines()[-1])
    assert found, done.stdout
    assert int(found[1]) > 10_000
    ledger = (tmp_path / "root" / "stand-in-ledger.jsonl").read_text().splitlines()
    assert len({json.loads(line)["decision"] for line in ledger}) == len(ledger) == 40


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("absent", None, "no file or folder"),
        ("empty.jsonl", "", "no readable text"),
        ("broken.jsonl", "{", "JSON-lines"),
        ("short.jsonl", '"a b c"', "too few words"),
    ],
)
def test_an_input_that_cannot_be_used_is_told_in_a_line(
    tmp_path: Path, name: str, content: str | None, told: str
) -> None:
    source = tmp_path / name
    if content is not None:
        source.write_text(content)
    done = _demo("--input", str(source))
    said = " ".join((done.stdout + done.stderr).split())
    assert "Traceback" not in said
    assert told in said
    assert done.returncode == 2
