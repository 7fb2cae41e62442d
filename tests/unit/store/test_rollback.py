"""A checkpoint that did not end is taken back, one that did never is."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mn_contract.errors import DependencyUnavailable
from mn_engine.store.duckdb import DuckDBStore
from mn_engine.store.duckdb.rollback import Rollback
from tests.crash import burst
from tests.storing import batch, open_run

TOLD = [f"event 0 {number}" for number in range(6)]
RECORD = "record.duckdb"
HEADERS = (4096, 8192)
BLOCK = 262_144


class Checkpoint:
    """The files of a record before a checkpoint and after it, with the copy that the checkpoint would have removed."""

    def __init__(self, folder: Path, patched: pytest.MonkeyPatch) -> None:
        live = folder / "live"
        store = DuckDBStore(live / RECORD, free_bytes_floor=0)
        open_run(store)
        for number in range(6):
            store.commit(batch(burst.event_of(0, number)))
            if number < 4:  # the blocks of metadata are in use by now
                store._writer.exclusively(store._database.checkpoint)
        self.before = files(live)
        with patched.context() as kept:
            kept.setattr(Rollback, "forget", lambda self: None)
            store._writer.exclusively(store._database.checkpoint)
        self.after = files(live)
        store.close()

    def torn(self, to: Path, record: bytes, *, log: bool = True, kept: bytes | None = None) -> Path:
        """A folder as a power loss leaves it, with these bytes as its record."""
        to.mkdir()
        (to / RECORD).write_bytes(record)
        (to / f"{RECORD}.rollback").write_bytes(self.after[f"{RECORD}.rollback"] if kept is None else kept)
        if log:
            (to / f"{RECORD}.wal").write_bytes(self.before[f"{RECORD}.wal"])
        return to / RECORD

    def rewritten(self) -> list[int]:
        """Where the checkpoint wrote over blocks of the record as it was."""
        old, new = self.before[RECORD], self.after[RECORD]
        starts = range(3 * 4096, min(len(old), len(new)), BLOCK)  # it ends with cutting off what is free behind
        return [at for at in starts if old[at : at + BLOCK] != new[at : at + BLOCK]]

    def header(self) -> int:
        """Which header it wrote."""
        old, new = self.before[RECORD], self.after[RECORD]
        (at,) = [at for at in HEADERS if old[at : at + 4096] != new[at : at + 4096]]
        return at


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    return Checkpoint(tmp_path, monkeypatch)


def files(folder: Path) -> dict[str, bytes]:
    """Name -> bytes."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def overlaid(old: bytes, new: bytes, at: int, end: int) -> bytes:
    """The old bytes with a part of the new."""
    return old[:at] + new[at:end] + old[end:]


def check(record: Path) -> None:
    """All six events are there, and the record goes on."""
    store = DuckDBStore(record, free_bytes_floor=0)
    assert burst.check(store, TOLD) == []
    store.commit(batch(burst.event_of(0, 6)))
    store.close()
    again = DuckDBStore(record, free_bytes_floor=0)
    assert burst.check(again, [*TOLD, "event 0 6"]) == []
    again.close()
    assert not record.with_name(f"{RECORD}.rollback").exists()


def test_a_block_that_was_written_over_in_part_is_written_back(
    checkpoint: Checkpoint, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert checkpoint.rewritten(), "a checkpoint of this DuckDB writes over blocks"
    record = checkpoint.before[RECORD]
    for at in checkpoint.rewritten():
        record = overlaid(record, checkpoint.after[RECORD], at, at + 1024)
    with caplog.at_level(logging.WARNING):
        check(checkpoint.torn(tmp_path / "torn", record))
    assert any("taken back" in line.message for line in caplog.records)


def test_without_the_copy_such_a_record_does_not_open(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """So the test above sees what the copy is for."""
    record = checkpoint.before[RECORD]
    for at in checkpoint.rewritten():
        record = overlaid(record, checkpoint.after[RECORD], at, at + 1024)
    with pytest.raises(DependencyUnavailable, match=r"damaged .*checksum"):
        check(checkpoint.torn(tmp_path / "torn", record, kept=b""))


def test_a_header_that_was_written_in_part_is_written_back(checkpoint: Checkpoint, tmp_path: Path) -> None:
    before, after, at = checkpoint.before[RECORD], checkpoint.after[RECORD], checkpoint.header()
    record = after + before[len(after) :]  # all was written, and then of the header the first bytes
    record = record[: at + 8] + before[at + 8 : at + 4096] + record[at + 4096 :]
    check(checkpoint.torn(tmp_path / "torn", record))


def test_a_checkpoint_that_ended_is_not_taken_back(
    checkpoint: Checkpoint, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its log is gone: what it folded in would be lost."""
    with caplog.at_level(logging.WARNING):
        check(checkpoint.torn(tmp_path / "torn", checkpoint.after[RECORD], log=False))
    assert not any("taken back" in line.message for line in caplog.records)


@pytest.mark.parametrize("kept", ["torn", "empty", "of another record"])
def test_a_copy_that_is_unfinished_or_of_another_record_is_left_alone(
    checkpoint: Checkpoint, tmp_path: Path, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = checkpoint.after[f"{RECORD}.rollback"]
    if kept == "of another record":
        (tmp_path / "other").mkdir()
        copy = Checkpoint(tmp_path / "other", monkeypatch).after[f"{RECORD}.rollback"]
    elif kept == "torn":
        copy = copy[:-BLOCK] + bytes(BLOCK)
    else:
        copy = b""
    check(checkpoint.torn(tmp_path / "torn", checkpoint.before[RECORD], kept=copy))
