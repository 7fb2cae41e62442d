"""Simulated power loss: what was acknowledged is there after any cut; with syncs switched off, it is not."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from mn_contract.errors import ContextError
from mn_engine.store.duckdb import DuckDBStore
from tests.crash.burst import large
from tests.crash.powerloss import Change, after_power_loss, build, changes, environment, lay_out
from tests.storing import KEY, sha

ACKNOWLEDGED = "acknowledged"
"""A file in the watched folder: what is written to it is told, in the order of all other changes."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("shim"))


def _log(tmp_path: Path, library: Path, seed: int, *, sync: bool, writes: int = 60) -> tuple[Path, list[Change]]:
    watched, log = tmp_path / "watched", tmp_path / "log"
    watched.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.burst", str(watched / "record.duckdb"), str(seed), str(writes)],
        env=environment(library, watched, log, sync=sync),
        check=False,
        timeout=100,
    )
    assert done.returncode == 0
    return watched, changes(log)


def _lost(log: list[Change], cut: int, watched: Path, target: Path) -> list[str]:
    """Acknowledged writes that are not there after a power loss after `cut` changes."""
    path = str(watched / ACKNOWLEDGED)
    told = b"".join(change.second for change in log[:cut] if change.path == path).decode().splitlines()
    files = {name: data for name, data in after_power_loss(log[:cut]).items() if name != path}
    target.mkdir()
    lay_out(files, watched, target)
    acknowledged = [line.split() for line in told if line.startswith("ack ")]
    try:
        store = DuckDBStore(target / "record.duckdb", free_bytes_floor=0)
    except ContextError:
        return [words[2] for words in acknowledged] or ["the record itself"]
    try:
        return [words[2] for words in acknowledged if not _there(store, words)]
    finally:
        store.close()


def _there(store: DuckDBStore, words: list[str]) -> bool:
    _, kind, name, _ = words
    try:
        if kind == "blob":
            data = large(name)
            return store.read_ranges(KEY, [(sha(data), 0, len(data))]) == [data]
        receipt = store.event(KEY, "ada", name)
        return receipt is not None and receipt.revision <= store.run(KEY).revision
    except ContextError:
        return False


def _check(tmp_path: Path, library: Path, seed: int, cuts: int) -> None:
    watched, log = _log(tmp_path, library, seed, sync=True)
    rng = random.Random(seed)
    for number in range(cuts):
        cut = rng.randint(1, len(log))
        assert _lost(log, cut, watched, tmp_path / f"after{number}") == [], f"seed {seed}, cut after {cut}"


def test_a_power_loss_at_any_moment_loses_nothing_acknowledged(tmp_path: Path, library: Path) -> None:
    _check(tmp_path, library, 1, 8)


def test_without_syncs_a_power_loss_loses_something(tmp_path: Path, library: Path) -> None:
    """The shim can tell: the same burst, its syncs left out."""
    watched, log = _log(tmp_path, library, 1, sync=False)
    assert _lost(log, len(log), watched, tmp_path / "after")


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(200, 210))
def test_a_power_loss_in_many_cases(tmp_path: Path, library: Path, seed: int) -> None:
    """Ten bursts, forty cuts each."""
    _check(tmp_path, library, seed, 40)
