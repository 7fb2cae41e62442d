"""Power loss at any moment: what was acknowledged is on the disk; with syncs switched off it is not."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from mn_contract.errors import ContextError
from mn_engine.store.duckdb import DuckDBStore
from tests.crash import burst, journaling
from tests.crash.powerloss import Did, Disk, Step, journaled, notes, shim, steps, watched, wrongs

CUTS = [pytest.param(8, id="8 cuts"), pytest.param(150, id="150 cuts", marks=pytest.mark.full)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The preload shim."""
    return shim(tmp_path_factory.mktemp("shim"))


def written(library: Path, folder: Path, *, swallow: str = "", events: int = 12, compactions: int = 1) -> list[Step]:
    """The journal of a whole burst into `folder`."""
    arguments = [str(folder / "record.duckdb"), "4", str(events), str(compactions)]
    return journaled(library, folder, "tests.crash.burst", *arguments, swallow=swallow)


def wrong_record(root: Path, told: list[str]) -> list[str]:
    """What is wrong with the record when the power comes back."""
    if "open" not in told:
        return []
    try:
        store = DuckDBStore(root / "record.duckdb", free_bytes_floor=0)
    except ContextError as error:
        return [f"cannot be opened: {error.message}"]
    try:
        return burst.check(store, [note for note in told if note != "open"])
    except ContextError as error:
        return [f"cannot be read: {error.message}"]
    finally:
        store.close()


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
    journal = written(library, tmp_path / "record")
    assert len(notes(journal)) > 50
    anywhere = random.Random(seed).sample(range(len(journal)), cuts)
    assert wrongs(journal, tmp_path / "record", tmp_path, anywhere, seed, wrong_record) == {}, f"seed {seed}"


@pytest.mark.parametrize(
    "draws", [pytest.param(4, id="4 draws"), pytest.param(30, id="30 draws", marks=pytest.mark.full)]
)
@pytest.mark.timeout(900)
def test_nothing_acknowledged_is_lost_with_the_power_in_a_checkpoint(library: Path, tmp_path: Path, draws: int) -> None:
    """It writes over blocks that the record needs."""
    seed = int(os.environ.get("MN_TEST_SEED", "11"))
    journal = written(library, tmp_path / "record")
    cuts = before_syncs_of_checkpoints(journal)
    assert len(cuts) > 6
    assert wrongs(journal, tmp_path / "record", tmp_path, cuts, seed, wrong_record, draws) == {}, f"seed {seed}"


@pytest.mark.parametrize("swallow", ["all", "files", "folders"])
def test_without_syncs_something_acknowledged_is_lost(library: Path, tmp_path: Path, swallow: str) -> None:
    """So the test above is able to see a loss: of bytes, and of names."""
    journal = written(library, tmp_path / "record", swallow=swallow, events=4, compactions=0)
    some = random.Random(1).sample(range(len(journal)), 3)
    found = wrongs(journal, tmp_path / "record", tmp_path, some, 1, wrong_record)
    assert any("nothing else" in cut for cut in found)


def wrong_journal(root: Path, told: list[str]) -> list[str]:
    """What is wrong with a session's journal when the power comes back."""
    try:
        return journaling.check(root / "run", told)
    except ContextError as error:
        return [f"cannot be opened: {error.message}"]


def journal_of_calls(library: Path, folder: Path, calls: int, *sabotage: str, swallow: str = "") -> list[Step]:
    """What a burst of calls does in `folder`; the session's root is a folder in it."""
    arguments = [str(folder / "run"), "4", str(calls), *sabotage]
    return journaled(library, folder, "tests.crash.journaling", *arguments, swallow=swallow)


@pytest.mark.parametrize(
    "cuts", [pytest.param(10, id="10 cuts"), pytest.param(400, id="400 cuts", marks=pytest.mark.full)]
)
@pytest.mark.timeout(900)
def test_no_transition_of_a_call_is_lost_with_the_power(library: Path, tmp_path: Path, cuts: int) -> None:
    """Invariant 10, for the journal under a session's root: what was acknowledged is there, and nothing is torn.
    Through checkpoints of SQLite's log, too."""
    seed = int(os.environ.get("MN_TEST_SEED", "11"))
    journal = journal_of_calls(library, tmp_path / "disk", 20)
    assert len(notes(journal)) > 300
    anywhere = random.Random(seed).sample(range(len(journal)), cuts)
    assert wrongs(journal, tmp_path / "disk", tmp_path, anywhere, seed, wrong_journal, 2) == {}, f"seed {seed}"


@pytest.mark.parametrize(("sabotage", "swallow"), [([journaling.OFF], ""), ([], "files"), ([], "folders")])
def test_without_syncs_transitions_are_lost(library: Path, tmp_path: Path, sabotage: list[str], swallow: str) -> None:
    """So the test above is able to see a loss: with SQLite told to sync nothing, and with syncs that do not happen."""
    journal = journal_of_calls(library, tmp_path / "disk", 3, *sabotage, swallow=swallow)
    some = random.Random(1).sample(range(len(journal)), 3)
    found = wrongs(journal, tmp_path / "disk", tmp_path, some, 1, wrong_journal)
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
