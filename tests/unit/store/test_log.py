"""DuckDB's log: a torn end that nobody was told of is cut off, and nothing else ever is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mn_contract.errors import DependencyUnavailable
from mn_engine.store.duckdb import DuckDBStore
from tests.crash import burst
from tests.storing import KEY, batch, everything, open_run


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A record's folder as a crash leaves it: three events in the log, none of them folded in."""
    store = DuckDBStore(tmp_path / "live" / "record.duckdb", free_bytes_floor=0)
    open_run(store)
    for number in range(3):
        store.commit(batch(burst.event_of(0, number)))
    shutil.copytree(tmp_path / "live", tmp_path / "crashed")
    store.close()
    return tmp_path / "crashed"


def log(folder: Path) -> Path:
    """The record's log."""
    return folder / "record.duckdb.wal"


def flip(file: Path, at: int) -> None:
    """Breaks a byte."""
    with file.open("rb+") as opened:
        opened.seek(at)
        was = opened.read(1)[0]
        opened.seek(at)
        opened.write(bytes([was ^ 0xFF]))


def last_event(folder: Path, scratch: Path) -> bytes:
    """The bytes that a fourth event adds to the log."""
    shutil.copytree(folder, scratch)
    before = log(scratch).stat().st_size
    store = DuckDBStore(scratch / "record.duckdb", free_bytes_floor=0, log_bytes_max=1 << 30)
    grown = log(scratch).stat().st_size if log(scratch).exists() else 0
    store.commit(batch(burst.event_of(0, 3)))
    added = log(scratch).read_bytes()[max(before, grown) :]
    store.close()
    return added


def test_a_torn_end_behind_what_was_synced_is_cut_off_with_a_warning(
    crashed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tail = bytearray(last_event(crashed, tmp_path / "scratch"))
    assert len(tail) > 3000
    tail[len(tail) // 2] ^= 0xFF
    with log(crashed).open("ab") as opened:
        opened.write(tail)
    store = DuckDBStore(crashed / "record.duckdb", free_bytes_floor=0)
    assert burst.check(store, [f"event 0 {number}" for number in range(3)]) == []
    assert store.run(KEY).revision == 3
    assert any("torn" in record.message for record in caplog.records)
    assert store.commit(batch(burst.event_of(0, 3))).revision == 4
    store.close()
    again = DuckDBStore(crashed / "record.duckdb", free_bytes_floor=0)
    assert everything(again)["head"].revision == 4
    again.close()


def test_what_was_acknowledged_and_is_broken_is_an_error_and_stays_as_it_is(crashed: Path) -> None:
    """Invariant 13: a corrupt record is told, never quietly shortened."""
    flip(log(crashed), log(crashed).stat().st_size * 2 // 3)
    before = log(crashed).read_bytes()
    for _ in range(2):
        with pytest.raises(DependencyUnavailable):
            DuckDBStore(crashed / "record.duckdb", free_bytes_floor=0)
        assert log(crashed).read_bytes() == before


@pytest.mark.parametrize("note", ["missing", "broken", "of another log"])
def test_without_a_usable_note_a_broken_end_is_cut_off(crashed: Path, note: str) -> None:
    """As other databases do."""
    file = crashed / "record.duckdb.synced"
    if note == "missing":
        file.unlink()
    elif note == "broken":
        flip(file, 3)
    else:
        other = crashed.parent / "other"
        store = DuckDBStore(other / "record.duckdb", free_bytes_floor=0)
        open_run(store)
        store.commit(batch(burst.event_of(0, 0)))
        shutil.copy(other / "record.duckdb.synced", file)
        store.close()
    flip(log(crashed), log(crashed).stat().st_size * 9 // 10)
    store = DuckDBStore(crashed / "record.duckdb", free_bytes_floor=0)
    assert store.run(KEY).revision == 2
    assert burst.check(store, ["event 0 0", "event 0 1"]) == []
    store.close()


def test_the_note_is_rewritten_in_place(crashed: Path) -> None:
    assert os.path.getsize(crashed / "record.duckdb.synced") == 16
