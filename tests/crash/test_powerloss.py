"""Power loss at any moment: what was acknowledged is on the disk; with syncs switched off it is not."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mn_contract.errors import ContextError
from mn_engine.store.duckdb import DuckDBStore
from tests.crash import burst
from tests.crash.powerloss import Disk, Step, notes, shim, steps, watched

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


def outside_the_record(name: str) -> bool:
    """DuckDB writes blocks of 256 KiB into the record, some over what its last checkpoint refers to, and has nothing
    against one that survives in part but its checksum."""
    return name != "record.duckdb"


def wrong_after(
    disk: Disk, done: list[Step], to: Path, chance: random.Random | None, tears: Callable[[str], bool]
) -> list[str]:
    """What is wrong with the record when the power comes back after these steps."""
    disk.lose_power(to, chance, tears=tears)
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
    journal: list[Step],
    folder: Path,
    scratch: Path,
    cuts: int,
    seed: int,
    tears: Callable[[str], bool] = outside_the_record,
) -> dict[str, list[str]]:
    """(cut, what was kept) -> what is wrong, at random cuts and at the end of the journal."""
    chance = random.Random(seed)
    disk, at, found = Disk(folder), 0, {}
    for cut in [*sorted(chance.sample(range(len(journal)), cuts)), len(journal)]:
        for step in journal[at:cut]:
            disk.do(step)
        at = cut
        for kept in ("nothing else", "some of the rest"):
            some = None if kept == "nothing else" else random.Random(f"{seed} {cut}")
            to = scratch / f"{cut}-{kept}".replace(" ", "-")
            wrong = wrong_after(disk, journal[:cut], to, some, tears)
            if wrong:
                found[f"cut {cut} of {len(journal)}, {kept} kept"] = wrong
    return found


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.timeout(900)
def test_nothing_acknowledged_is_lost_with_the_power(library: Path, tmp_path: Path, cuts: int) -> None:
    """The port's first law. Through checkpoints, a compaction and blobs; unsynced bytes gone, or there in part."""
    seed = int(os.environ.get("MN_TEST_SEED", "11"))
    journal = journaled(library, tmp_path / "record")
    assert len(notes(journal)) > 50
    assert wrongs(journal, tmp_path / "record", tmp_path, cuts, seed) == {}, f"seed {seed}"


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.timeout(900)
def test_a_block_of_the_record_that_survives_in_part_is_told_and_never_read(
    library: Path, tmp_path: Path, cuts: int
) -> None:
    """Invariant 13. A known gap: only a power loss in a checkpoint, on a disk that tears writes, can do this."""
    journal = journaled(library, tmp_path / "record")
    found = wrongs(journal, tmp_path / "record", tmp_path, cuts, 5, tears=lambda name: True)
    assert all(wrong[0].startswith("cannot be") for wrong in found.values()), found


@pytest.mark.parametrize("swallow", ["all", "files", "folders"])
def test_without_syncs_something_acknowledged_is_lost(library: Path, tmp_path: Path, swallow: str) -> None:
    """So the test above is able to see a loss: of bytes, and of names."""
    journal = journaled(library, tmp_path / "record", swallow=swallow, events=4, compactions=0)
    found = wrongs(journal, tmp_path / "record", tmp_path, 3, 1)
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
