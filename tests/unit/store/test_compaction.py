"""Physical removal (invariant 15): no byte is left, nothing else is lost, and a crash leaves a whole record."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mn_contract.errors import DependencyUnavailable, StorageFull
from mn_engine.domain.access import OPEN
from mn_engine.domain.runs import Removal
from mn_engine.store.duckdb import DuckDBStore, compaction
from mn_engine.store.duckdb.connection import Settings
from tests.storing import JOB, KEY, NOW, batch, card, event, everything, observe, open_run, sha

MARK = "q7Zk2Xw9"
PLAIN: Settings = {"force_compression": "uncompressed"}
"""So that a search through the files is not blind."""


def secret(name: str) -> str:
    """Text that is found wherever it lies."""
    return f"{MARK}-{name}-" + sha(name.encode())


def holding(folder: Path, text: str) -> set[str]:
    """The files below `folder` in which `text` stands."""
    return {
        str(file.relative_to(folder))
        for file in folder.rglob("*")
        if file.is_file() and text.encode() in file.read_bytes()
    }


def fill(store: DuckDBStore, run: str) -> str:
    """A run whose secrets stand in texts, ids, topics, artifacts, blobs and responses."""
    key = open_run(store, run)
    for number in range(20):
        made = card(f"{MARK}-{run}-{number}", secret(f"{run}-{number}"), topics=(secret(f"topic-{run}-{number}"),))
        store.commit(batch(event(f"{MARK}-e{number}", made), run=key))
    arriving = store.upload(key)
    arriving.write(secret(f"blob-{run}").encode() * 2000)
    arriving.finish(media_type="text/plain", owner="ada", acl=OPEN, expected_sha256="")
    return key


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The record's folder."""
    return tmp_path / "record"


@pytest.fixture
def store(folder: Path) -> Iterator[DuckDBStore]:
    """A record whose columns are not compressed."""
    opened = DuckDBStore(folder / "record.duckdb", free_bytes_floor=0, settings=PLAIN)
    yield opened
    opened.close()


def test_after_compacting_no_file_holds_a_byte_of_a_cleared_run(store: DuckDBStore, folder: Path) -> None:
    """Invariant 15."""
    kept = open_run(store)
    observe(store, "kept", text="what stays")
    gone = fill(store, "gone")
    before = everything(store)
    assert holding(folder, MARK), "it is there before: the search is not blind"
    tombstone = store.clear_run(gone, reason="", now=NOW)
    assert tombstone.removal is Removal.LOGICAL
    assert holding(folder, MARK), "a logical removal leaves bytes behind, and says so"
    assert store.compact() > 100_000
    assert holding(folder, MARK) == set()
    assert holding(folder, secret("blob-gone")) == set()
    physical = store.run(gone).tombstone
    assert physical is not None
    assert (physical.removal, physical.root) == (Removal.PHYSICAL, tombstone.root)
    assert everything(store, kept) == before
    store.close()
    assert holding(folder, MARK) == set()


def test_compacting_gives_back_blobs_that_nothing_cites(store: DuckDBStore, folder: Path) -> None:
    key = fill(store, "kept")
    orphan = folder / "record.duckdb.blobs" / key / sha(b"orphan")
    orphan.write_bytes(bytes(12_345))
    leftover = orphan.with_name("0123.part")
    leftover.write_bytes(bytes(100))
    assert store.compact() >= 12_445
    assert not orphan.exists()
    assert not leftover.exists()
    data = secret("blob-kept").encode() * 2000
    assert store.read_ranges(key, [(sha(data), 0, len(data))]) == [data]


def test_compacting_spares_an_upload_under_way(store: DuckDBStore) -> None:
    open_run(store)
    arriving = store.upload(KEY)
    arriving.write(b"u" * 100_000)
    store.compact()
    arriving.write(b"u" * 100_000)
    arriving.finish(media_type="a/b", owner="ada", acl=OPEN, expected_sha256=sha(b"u" * 200_000))
    assert store.read_ranges(KEY, [(sha(b"u" * 200_000), 199_999, 200_000)]) == [b"u"]


def test_an_upload_into_a_run_that_is_cleared_and_compacted_leaves_nothing(store: DuckDBStore, folder: Path) -> None:
    """Invariant 15: what is on its way in is removed with the run."""
    from mn_contract.errors import RunClosed

    open_run(store)
    arriving = store.upload(KEY)
    arriving.write(secret("late").encode() * 2000)
    store.clear_run(KEY, reason="", now=NOW)
    store.compact()
    assert holding(folder, MARK) == set()
    with pytest.raises(RunClosed):
        arriving.finish(media_type="a/b", owner="ada", acl=OPEN, expected_sha256="")
    assert holding(folder, MARK) == set()


def test_readers_and_writers_go_on_through_compactions(store: DuckDBStore) -> None:
    open_run(store)
    observe(store, "first")
    done = threading.Event()
    failures: list[Exception] = []
    written: list[int] = []

    def read() -> None:
        while not done.is_set():
            try:
                revision = store.run(KEY).revision
                assert store.index_columns(KEY, after=0, upto=revision).cards.num_rows == revision
                assert store.cards(KEY, [1 << 20], revision=1)[0].card.id == "first"
            except Exception as error:
                failures.append(error)
                return

    def write() -> None:
        for number in range(200):
            if done.is_set():
                return
            try:
                written.append(observe(store, f"w{number}"))
            except Exception as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=read), threading.Thread(target=read), threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    for _ in range(4):
        store.compact()
    done.set()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert store.run(KEY).revision == 1 + len(written)


CUTS = ("before the copy", "in the copy", "before the rename", "after the rename")


class Crash(BaseException):
    """The process dies here."""


@pytest.mark.parametrize("cut", CUTS)
def test_a_crash_at_any_point_leaves_the_old_record_or_the_new_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    """Invariant 15. The folder is copied at the moment of the crash and opened as a new process would."""
    store = DuckDBStore(folder / "record.duckdb", free_bytes_floor=0)
    open_run(store)
    observe(store, "kept")
    gone = fill(store, "gone")
    store.clear_run(gone, reason="", now=NOW)
    before = everything(store)
    snapshot = tmp_path / "snapshot"
    places = {
        "before the copy": (compaction, "write_fresh", False),
        "in the copy": (os, "fsync", False),
        "before the rename": (os, "rename", False),
        "after the rename": (os, "rename", True),
    }
    where, name, after = places[cut]
    original = getattr(where, name)

    def crash(*arguments: object) -> None:
        if after:
            original(*arguments)
        shutil.copytree(folder, snapshot)
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(where, name, crash)
        with pytest.raises((Crash, DependencyUnavailable)):
            compaction.compact(store._database, folder / "record.duckdb", store._blobs, lambda size, essential: None)
    store.close()
    reopened = DuckDBStore(snapshot / "record.duckdb", free_bytes_floor=0)
    assert everything(reopened) == before
    tombstone = reopened.run(gone).tombstone
    assert tombstone is not None
    assert tombstone.removal is (Removal.PHYSICAL if cut == "after the rename" else Removal.LOGICAL)
    if tombstone.removal is Removal.PHYSICAL:
        assert holding(snapshot, secret("blob-gone")) == set()
    assert not list(snapshot.glob("*.new*")), "opening removes what a crash left"
    reopened.compact()
    assert observe(reopened, "after") == 2
    reopened.close()


def test_a_compaction_without_room_for_the_copy_changes_nothing(folder: Path) -> None:
    free = [1 << 40]
    store = DuckDBStore(folder / "record.duckdb", free_bytes_floor=1 << 20, free_bytes=lambda _: free[0])
    open_run(store)
    observe(store, "a")
    before = everything(store)
    free[0] = 1 << 18
    with pytest.raises(StorageFull):
        store.compact()
    assert everything(store) == before
    free[0] = 1 << 40
    store.compact()
    assert store.open_run(JOB, "run", max_stored_bytes=None, now=NOW).revision == 1
    store.close()
