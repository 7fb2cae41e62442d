"""A disk that fills: typed errors, nothing half-written, and going on without a restart when there is room again."""

from __future__ import annotations

import contextlib
import random
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from mn_contract.errors import StorageFull
from mn_engine.domain.access import OPEN
from mn_engine.domain.runs import RunState
from mn_engine.store.duckdb import DuckDBStore
from mn_engine.store.duckdb.connection import Database
from tests.storing import JOB, KEY, NOW, batch, card, event, everything, observe, open_run

MIB = 1024 * 1024
NOISE = random.Random(7)


def noise(size: int) -> str:
    """Text that does not compress."""
    return NOISE.randbytes(size // 2).hex()


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file of this process grows beyond `size` bytes: a write that would is refused with EFBIG."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def reopenings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows each time the database is opened again."""
    counted: list[int] = []
    reopen = Database.reopen

    def counting(self: Database, **how: object) -> None:
        counted.append(1)
        reopen(self, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(Database, "reopen", counting)
    return counted


def write_until_full(store: DuckDBStore, *, most: int = 400) -> list[str]:
    """Commits events until one is refused for want of room; answers the keys that were acknowledged."""
    acknowledged: list[str] = []
    for number in range(most):
        key = f"e{number}"
        cards = [card(f"{key}-{part}", noise(8000)) for part in range(8)]
        try:
            store.commit(batch(event(key, *cards)))
        except StorageFull:
            break
        acknowledged.append(key)
    return acknowledged


def check_whole(store: DuckDBStore, acknowledged: list[str]) -> None:
    """What was acknowledged is there, whole, and nothing else is."""
    assert store.run(KEY).revision == len(acknowledged)
    ids = store.index_columns(KEY, after=0, upto=len(acknowledged)).cards["id"].to_pylist()
    assert ids == [f"{key}-{part}" for key in acknowledged for part in range(8)]
    everything(store)
    assert store.event(KEY, "ada", f"e{len(acknowledged)}") is None


@pytest.mark.parametrize(
    ("where", "threshold", "limit"), [("the log", 1 << 30, 4 * MIB), ("a checkpoint", 3 * MIB, 6 * MIB)]
)
def test_a_disk_that_fills_costs_no_acknowledged_event_and_no_restart(
    tmp_path: Path, where: str, threshold: int, limit: int, reopenings: list[int]
) -> None:
    path = tmp_path / "record.duckdb"
    store = DuckDBStore(path, free_bytes_floor=0, log_bytes_max=threshold)
    open_run(store)
    with files_of_at_most(limit):
        acknowledged = write_until_full(store)
        assert 10 < len(acknowledged) < 400
        assert reopenings, f"{where} was not hit"
        check_whole(store, acknowledged)
    assert observe(store, "room-again") == len(acknowledged) + 1
    store.close()
    reopened = DuckDBStore(path, free_bytes_floor=0)
    assert reopened.run(KEY).revision == len(acknowledged) + 1
    everything(reopened)
    reopened.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB; only an administrator can make one."""
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("this user cannot mount a small file system; the same is tested with a file size limit")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("threshold", [1 << 30, 4 * MIB])
def test_a_real_disk_that_fills_costs_no_acknowledged_event_and_no_restart(
    small_disk: Path, threshold: int, reopenings: list[int]
) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(bytes(10 * MIB))
    path = small_disk / "record.duckdb"
    store = DuckDBStore(path, free_bytes_floor=0, log_bytes_max=threshold)
    open_run(store)
    acknowledged = write_until_full(store)
    assert 10 < len(acknowledged) < 400
    check_whole(store, acknowledged)
    filler.unlink()
    assert observe(store, "room-again") == len(acknowledged) + 1
    store.close()
    reopened = DuckDBStore(path, free_bytes_floor=0)
    assert reopened.run(KEY).revision == len(acknowledged) + 1
    reopened.close()


def test_a_bulk_table_that_does_not_fit_is_refused_whole(tmp_path: Path, reopenings: list[int]) -> None:
    from tests.storing import bulk, sha

    store = DuckDBStore(tmp_path / "record.duckdb", free_bytes_floor=0)
    open_run(store)
    observe(store, "a")
    before = everything(store)
    table = bulk(*(card(f"b{number}", noise(8000)) for number in range(1500)))
    with files_of_at_most(4 * MIB), pytest.raises(StorageFull):
        store.commit_table(KEY, owner="ada", key="bulk", fingerprint=sha(b""), cards=table)
    assert reopenings
    assert everything(store) == before
    store.commit_table(KEY, owner="ada", key="bulk", fingerprint=sha(b""), cards=table)
    assert store.index_columns(KEY, after=1, upto=2).cards.num_rows == 1500
    store.close()


class Disk:
    """A disk whose free bytes are what the test says."""

    def __init__(self) -> None:
        self.free = 1000 * MIB

    def __call__(self, folder: Path) -> int:
        return self.free


def test_below_the_floor_nothing_is_written_and_the_numbers_are_told(tmp_path: Path) -> None:
    disk = Disk()
    store = DuckDBStore(tmp_path / "record.duckdb", free_bytes_floor=100 * MIB, free_bytes=disk)
    open_run(store)
    observe(store, "a")
    arriving = store.upload(KEY)
    disk.free = 100 * MIB - 1
    before = everything(store)
    with pytest.raises(StorageFull) as refused:
        observe(store, "b")
    assert refused.value.detail == {"free_bytes": 100 * MIB - 1, "floor_bytes": 100 * MIB}
    for write in (
        lambda: store.open_run(JOB, "another", max_stored_bytes=None, now=NOW),
        lambda: arriving.write(b"x"),
    ):
        with pytest.raises(StorageFull):
            write()
    assert everything(store) == before, "reads go on"
    assert store.commit(batch(event("a", card("a")))).events[0].replayed, "so do replays"
    disk.free = 101 * MIB
    observe(store, "b")
    arriving.write(b"x" * 10)
    arriving.finish(media_type="a/b", owner="ada", acl=OPEN, expected_sha256="")
    store.close()


def test_a_write_that_would_go_below_the_floor_is_refused(tmp_path: Path) -> None:
    disk = Disk()
    store = DuckDBStore(tmp_path / "record.duckdb", free_bytes_floor=100 * MIB, free_bytes=disk)
    open_run(store)
    disk.free = 100 * MIB + 10_000
    with pytest.raises(StorageFull):
        store.commit(batch(event("e", card("a", noise(8000)))))
    assert observe(store, "small") == 1
    store.close()


def test_cancelling_and_clearing_go_on_below_the_floor(tmp_path: Path) -> None:
    """They are how one gets room."""
    disk = Disk()
    store = DuckDBStore(tmp_path / "record.duckdb", free_bytes_floor=100 * MIB, free_bytes=disk)
    open_run(store)
    disk.free = 50 * MIB
    assert store.cancel_run(KEY, reason="").state is RunState.CANCELLED
    store.clear_run(KEY, reason="", now=NOW)
    assert store.run(KEY).state is RunState.CLEARED
    store.close()


def test_a_failure_to_open_again_heals_when_the_cause_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the writer nor readers stay broken."""
    from mn_contract.errors import DependencyUnavailable

    store = DuckDBStore(tmp_path / "record.duckdb", free_bytes_floor=0)
    open_run(store)
    observe(store, "a")
    database = store._database

    def unopenable(*_: object, **__: object) -> object:
        raise duckdb.IOException("no")

    with monkeypatch.context() as patched:
        patched.setattr(duckdb, "connect", unopenable)
        for call in (database.reopen, lambda: observe(store, "b"), lambda: store.roots(KEY)):
            with pytest.raises(DependencyUnavailable):
                call()
    assert store.index_columns(KEY, after=0, upto=1).cards.num_rows == 1
    assert observe(store, "b") == 2
    store.close()
