"""SIGKILL at any moment of a burst of writes: nothing acknowledged is lost, nothing unacknowledged is half there."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from mn_engine.store.duckdb import DuckDBStore
from tests.crash import burst
from tests.storing import batch

ROOT = Path(__file__).resolve().parents[2]
THREADS = 6
SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 50))]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_burst_that_is_killed_loses_nothing_and_halves_nothing(seed: int, tmp_path: Path) -> None:
    """Invariant 9, and the port's first two laws."""
    chance = random.Random(seed)
    path = tmp_path / "record.duckdb"
    command = [sys.executable, "-m", "tests.crash.burst", str(path), str(THREADS), "1000", str(chance.choice([0, 2]))]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert child.stdout is not None
    after = chance.randint(1, 250)
    told = [child.stdout.readline().decode().strip() for _ in range(after)]
    child.kill()
    told += [line.decode().strip() for line in child.stdout.read().splitlines()]  # told before the kill came
    child.stdout.close()
    child.wait(60)

    store = DuckDBStore(path, free_bytes_floor=0)
    acknowledged = [line for line in told if line != "open"]
    assert burst.check(store, acknowledged) == [], f"seed {seed}"
    for line in acknowledged[-20:]:
        what, thread, number = line.split()
        if what == "event":
            assert store.commit(batch(burst.event_of(int(thread), int(number)))).events[0].replayed
    assert burst.check(store, acknowledged) == [], f"seed {seed}, after the retries"
    store.close()
