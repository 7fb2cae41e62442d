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


_WORDS = [
    a + b + a
    for a in ("gad", "mor", "pil", "tun", "vex", "zor")
    for b in ("ba", "ce", "di", "fo", "gu", "ha", "ji", "ka")
]


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
    lines = done.stdout.splitlines()
    rows = [line.split()[0] for line in lines if line.endswith((" made", " replay"))]
    assert [int(number) for number in dict.fromkeys(rows)] == list(range(1, 41)), "every decision has a line"
    told = ("starting the worker", "  1 ", "decision 20: SIGKILL", " 21 ")
    places = [next(at for at, line in enumerate(lines) if line.startswith(start)) for start in told]
    assert places == sorted(places)
    ledger = (tmp_path / "root" / "stand-in-ledger.jsonl").read_text().splitlines()
    assert len({json.loads(line)["decision"] for line in ledger}) == len(ledger) == 40


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("absent", None, "no file or folder"),
        ("empty.jsonl", "", "no readable text"),
        ("broken.jsonl", "{", "JSON-lines"),
        ("notes.txt", "Notes on doors.\n", "A single text file is not taken"),
        ("number.jsonl", '{"text": 3}', '"text" must be a string'),
        ("short.jsonl", '"a b c"', "too few words"),
        ("latin.jsonl", '"caf\udce9"', "not UTF-8"),
        ("surrogate.jsonl", '"caf\\ud800"', "lone surrogate"),
        ("deep.jsonl", "[" * 100_000, "JSON-lines"),
    ],
)
def test_an_input_that_cannot_be_used_is_told_in_a_line(
    tmp_path: Path, name: str, content: str | None, told: str
) -> None:
    source = tmp_path / name
    if content is not None:
        source.write_text(content, errors="surrogateescape")
    done = _demo("--input", str(source))
    _check_told(done, told)
    assert not done.stdout


def _check_told(done: subprocess.CompletedProcess[str], told: str) -> None:
    """A line of its own says why, and what it is about."""
    (line,) = done.stderr.splitlines()
    assert line.startswith("mn-context-engine demo: ")
    assert told in line
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--root", "{file}"], "--root"),
        (["--root", "{file}/below"], "--root"),
        (["--root", "/proc/nowhere"], "--root"),
        (["--root", "{folder}"], "not empty"),
        (["--model", "openai/gpt-4o-mini"], "OPENAI_API_KEY"),
        (["--model", "no-such-model"], "provider/name"),
    ],
)
def test_what_the_demo_cannot_use_is_told_before_it_starts(tmp_path: Path, arguments: list[str], told: str) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    done = _demo(*(argument.format(file=file, folder=tmp_path) for argument in arguments))
    _check_told(done, told)
    assert not done.stdout


@pytest.mark.parametrize("option", ["--root", "--input", "--model"])
def test_an_option_that_is_empty_is_not_taken_for_none(option: str) -> None:
    done = _demo(option, "")
    assert done.returncode == 2
    assert f"'{option}': it is empty" in done.stderr
    assert done.stderr.startswith("Usage: mn-context-engine demo")


def test_a_provider_that_refuses_ends_the_demo_in_a_few_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_API_BASE", "http://127.0.0.1:1/v1")
    source = tmp_path / "notes.jsonl"
    source.write_text("\n".join(f'"The {word * 2} opens the door."' for word in _WORDS))
    done = _demo("--input", str(source), "--model", "openai/gpt-4o-mini")
    assert done.returncode == 1
    assert not done.stderr
    failures = [line for line in done.stdout.splitlines() if "does not hold" in line]
    assert len(failures) == 2
    assert "InternalServerError" in failures[0] or "APIConnectionError" in failures[0]
