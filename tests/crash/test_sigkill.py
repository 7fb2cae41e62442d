"""SIGKILL at any moment of a write burst: no acknowledged write is lost, no other one is half there."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mn_engine.domain.cards import CardKey
from mn_engine.store.duckdb import DuckDBStore
from tests.crash.burst import LARGE_BYTES, large
from tests.storing import KEY, sha

ROUNDS = 3
"""Kills of one record, one after the other."""


def _burst(record: Path, seed: str, acknowledgements: int) -> list[list[str]]:
    """What a burst said before it was killed, after so many acknowledgements."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.burst", str(record), seed], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    said: list[list[str]] = []
    waiting = acknowledgements
    for line in process.stdout:
        if not line.endswith("\n"):
            break  # the kill cut it short: nobody has read this acknowledgement
        said.append(line.split())
        waiting -= said[-1][0] == "ack"
        if waiting == 0:
            process.send_signal(signal.SIGKILL)
    process.stdout.close()
    assert process.wait(60) == -signal.SIGKILL, "the burst ended by itself; let it write more"
    return said


def _check_event(store: DuckDBStore, name: str, kind: str, present: set[CardKey], ended: dict[str, bool]) -> bool:
    """Whether the event is there; whole, or not at all."""
    receipt = store.event(KEY, "ada", name)
    count = 2 if kind == "event" else 50
    places = range(1, 3) if kind == "event" else range(50)
    cards = {CardKey("ada", f"{name}/{place}") for place in places}
    there = len(cards & present)
    assert there == (0 if receipt is None else count), f"{name} is half there: {there} of {count} cards"
    if kind == "event":
        bytes_there = bool(store.artifacts(KEY, sha(name.encode())))
        assert bytes_there == (receipt is not None), f"the artifact of {name} does not fit its event"
        assert ended.get(f"{name}/1", False) == (receipt is not None), f"the supersession of {name} is alone"
        if receipt is not None:
            assert store.read_ranges(KEY, [(sha(name.encode()), 0, len(name))]) == [name.encode()]
    return receipt is not None


def _names(store: DuckDBStore) -> tuple[set[CardKey], dict[str, bool]]:
    """The cards that the record has, and which of them were superseded."""
    upto = store.run(KEY).revision
    columns = store.index_columns(KEY, after=0, upto=upto)
    present = {
        CardKey(owner, card_id)
        for owner, card_id in zip(columns.cards["owner"].to_pylist(), columns.cards["id"].to_pylist(), strict=True)
    }
    by_hash = {key.hash: key.id for key in present}
    return present, {by_hash[target]: True for target in columns.endings["target_hash"].to_pylist()}


def _tried(said: list[list[str]]) -> Iterator[tuple[str, str, str | None]]:
    """(kind, name, what its acknowledgement told or None) of every write that was begun."""
    told = {words[2]: words[3] for words in said if words[0] == "ack"}
    for words in said:
        if words[0] == "try":
            yield words[1], words[2], told.get(words[2])


def _kill_and_check(record: Path, seed: int) -> None:
    rng = random.Random(seed)
    said: list[list[str]] = []
    for number in range(ROUNDS):
        said += _burst(record, f"{seed}.{number}", rng.randint(1, 60))
        store = DuckDBStore(record, free_bytes_floor=0)
        try:
            present, ended = _names(store)
            for kind, name, acknowledged in _tried(said):
                if kind == "blob":
                    handles = store.artifacts(KEY, sha(large(name)))
                    assert handles or acknowledged is None, f"{name} was acknowledged and is lost"
                    if handles:
                        assert store.read_ranges(KEY, [(sha(large(name)), 0, LARGE_BYTES)]) == [large(name)]
                else:
                    there = _check_event(store, name, kind, present, ended)
                    assert there or acknowledged is None, f"{name} was acknowledged and is lost"
        finally:
            store.close()


@pytest.mark.parametrize("seed", [11, 12])
def test_a_killed_writer_loses_nothing_acknowledged_and_leaves_nothing_half_there(tmp_path: Path, seed: int) -> None:
    _kill_and_check(tmp_path / "record.duckdb", seed)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(100, 150))
def test_a_killed_writer_in_many_cases(tmp_path: Path, seed: int) -> None:
    """Fifty seeds, three kills each."""
    _kill_and_check(tmp_path / "record.duckdb", seed)
