"""Power loss at any moment: what was acknowledged is on the disk; with syncs switched off it is not."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mn_contract.errors import ContextError
from mn_engine.store.duckdb import DuckDBStore
from tests.crash import burst
from tests.crash.powerloss import Did, Disk, Step, notes, shim, steps, watched

ROOT = Path(__file__).resolve().parents[2]
CUTS = [pytest.param(8, id="8 cuts"), pytest.param(150, id="150 cuts", marks=pytest.mark.full)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The preload shim."""
    return shim(tmp_path_factory.mktemp("shim"))


def journaled(library: Path, folder: Path, *, swallow: str = "", events: int = 12, compactions: int = 1) -> list[Step]:
    """The journal of a whole burst into `folder`."""
    folder.mkdir()
    journal = folder.with_name("journal")
    environment = {**watched(library, folder, journal, swallow=swallow), "PYTHONPATH": str(ROOT)}
    arguments = [str(folder / "record.duckdb"), "4", str(events), str(compactions)]
    subprocess.run(
        [sys.executable, "-m", "tests.crash.burst", *arguments], check=True, cwd=ROOT, env=environment, timeout=110
    )
    return steps(journal)


def wrong_after(disk: Disk, done: list[Step], to: Path, chance: random.Random | None) -> list[str]:
    """What is wrong with the record when the power comes back after these steps."""
    disk.lose_power(to, chance)
    told = notes(done)
    if "open" not in told:
        return []
    try:
        store = DuckDBStore(to / "record.duckdb", free_bytes_floor=0)
    except ContextError as error:
        return [f"cannot be opened: {error.message}"]
    try:
        return burst.check(store, [note for note in told if note != "open"])
    except ContextError as error:
        return [f"cannot be read: {error.message}"]
    finally:
        store.close()


def wrongs(
    journal: list[Step], folder: Path, scratch: Path, cuts: list[int], seed: int, draws: int = 1
) -> dict[str, list[str]]:
    """(cut, what was kept) -> what is wrong, at these cuts and at the end of the journal: with nothing kept that was
    not durable, and as often as `draws` says with some of it."""
    disk, at, found = Disk(folder), 0, {}
    for cut in [*sorted(cuts), len(journal)]:
        for step in journal[at:cut]:
            disk.do(step)
        at = cut
        for draw in range(draws + 1):
            some = random.Random(f"{seed} {cut} {draw}") if draw else None
            wrong = wrong_after(disk, journal[:cut], scratch / f"{cut}-{draw}", some)
            if wrong:
                found[f"cut {cut} of {len(journal)}, {f'draw {draw}' if draw else 'nothing else'} kept"] = wrong
            shutil.rmtree(scratch / f"{cut}-{draw}")
    return found


def before_syncs_of_checkpoints(journal: list[Step]) -> list[int]:
    """Before each sync of the record and of what a checkpoint writes over: there the most hangs in the air."""
    names: dict[int, str] = {}
    cuts = []
    for at, step in enumerate(journal):
        if step.did is Did.CREATE:
            names[step.inode] = Path(step.path).name
        if step.did is Did.SYNC and names[step.inode] in ("record.duckdb.new", "record.duckdb.rollback"):
            cuts.append(at)
    return cuts


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.timeout(900)
def test_nothing_acknowledged_is_lost_with_the_power(library: Path, tmp_path: Path, cuts: int) -> None:
    """The port's first law. Through checkpoints, a compaction and blobs; unsynced bytes gone, or there in part."""
    seed = int(os.environ.get("MN_TEST_SEED", "11"))
    journal = journaled(library, tmp_path / "record")
    assert len(notes(journal)) > 50
    anywhere = random.Random(seed).sample(range(len(journal)), cuts)
    assert wrongs(journal, tmp_path / "record", tmp_path, anywhere, seed) == {}, f"seed {seed}"


@pytest.mark.parametrize(
    "draws", [pytest.param(4, id="4 draws"), pytest.param(30, id="30 draws", marks=pytest.mark.full)]
)
@pytest.mark.timeout(900)
def test_nothing_acknowledged_is_lost_with_the_power_in_a_checkpoint(library: Path, tmp_path: Path, draws: int) -> None:
    """It writes over blocks that the record needs."""
    seed = int(os.environ.get("MN_TEST_SEED", "11"))
    journal = journaled(library, tmp_path / "record")
    cuts = before_syncs_of_checkpoints(journal)
    assert len(cuts) > 6
    assert wrongs(journal, tmp_path / "record", tmp_path, cuts, seed, draws) == {}, f"seed {seed}"


@pytest.mark.parametrize("swallow", ["all", "files", "folders"])
def test_without_syncs_something_acknowledged_is_lost(library: Path, tmp_path: Path, swallow: str) -> None:
    """So the test above is able to see a loss: of bytes, and of names."""
    journal = journaled(library, tmp_path / "record", swallow=swallow, events=4, compactions=0)
    some = random.Random(1).sample(range(len(journal)), 3)
    found = wrongs(journal, tmp_path / "record", tmp_path, some, 1)
    assert any("nothing else" in cut for cut in found)


def test_the_simulated_disk_keeps_what_was_synced_and_nothing_else(library: Path, tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    script = """
import ctypes, os, sys
os.chdir(sys.argv[1])
def put(name, data, sync):
    file = os.open(name, os.O_WRONLY | os.O_CREAT)
    os.write(file, data)
    if sync:
        os.fsync(file)
    return file
here = os.open(".", os.O_RDONLY)
one = put("one", b"durable", True)
two = put("two", b"durable too", True)
os.fsync(here)
os.pwrite(one, b"DUR", 0)
os.ftruncate(two, 3)
put("three", b"has no durable name", True)
os.rename("two", "renamed")
ctypes.CDLL(None).powerloss_note(b"middle")
os.fsync(one)
os.fsync(here)
os.unlink("one")
"""
    journal = tmp_path / "journal"
    environment = watched(library, folder, journal)
    subprocess.run([sys.executable, "-c", script, str(folder)], check=True, env=environment, timeout=60)
    done = steps(journal)
    disk = Disk(folder)
    middle = next(place for place, step in enumerate(done) if step.path == "middle")
    for step in done[:middle]:
        disk.do(step)
    disk.lose_power(tmp_path / "middle")
    assert contents(tmp_path / "middle") == {"one": b"durable", "two": b"durable too"}
    for step in done[middle:]:
        disk.do(step)
    disk.lose_power(tmp_path / "end")
    assert contents(tmp_path / "end") == {
        "one": b"DURable",
        "renamed": b"durable too",
        "three": b"has no durable name",
    }
    assert contents(folder) == {"renamed": b"dur", "three": b"has no durable name"}, "the process saw all of it"
    seen = set()
    for seed in range(40):
        disk.lose_power(tmp_path / f"some-{seed}", random.Random(seed))
        seen.add(tuple(sorted(contents(tmp_path / f"some-{seed}").items())))
    assert len(seen) > 2, "any part of what was not synced may be there"


def contents(folder: Path) -> dict[str, bytes]:
    """Name -> bytes."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}
