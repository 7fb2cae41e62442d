"""Blobs: durable in the right order, swept only when nobody is about to cite them."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mn_contract.errors import InvalidInput, SourceMismatch, StorageFull
from mn_contract.limits import ARTIFACT_INLINE_BYTES_MAX
from mn_engine.store import blobs as blobs_module
from mn_engine.store.blobs import Arrival, BlobStore
from tests.storing import sha

RUN = "r" * 32
BIG = b"0123456789" * 10_000


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    """An empty folder of blobs."""
    return BlobStore(tmp_path / "blobs")


def arrived(blobs: BlobStore, data: bytes = BIG) -> Arrival:
    """A blob whose file is durable and not yet cited."""
    arrival = blobs.arrive(RUN)
    arrival.write(data)
    arrival.settle_file()
    return arrival


def files(blobs: BlobStore) -> set[str]:
    """Names of all files."""
    return {file.name for file in blobs.root.rglob("*") if file.is_file()}


def test_up_to_the_inline_limit_nothing_is_a_file(blobs: BlobStore) -> None:
    arrival = blobs.arrive(RUN)
    for _ in range(2):
        arrival.write(b"x" * (ARTIFACT_INLINE_BYTES_MAX // 2))
    assert arrival.inline == b"x" * ARTIFACT_INLINE_BYTES_MAX
    assert not blobs.root.exists()
    arrival.write(b"x")
    assert arrival.inline is None
    assert arrival.sha256 == sha(b"x" * (ARTIFACT_INLINE_BYTES_MAX + 1))
    arrival.end()
    assert files(blobs) == set()


def test_a_settled_blob_is_read_by_range(blobs: BlobStore) -> None:
    arrived(blobs).end()
    assert blobs.read(RUN, sha(BIG), [(5, 9)]) == [b"5678"]
    with pytest.raises(InvalidInput):
        blobs.read(RUN, sha(BIG), [(5, len(BIG) + 1)])
    with pytest.raises(SourceMismatch):
        blobs.read(RUN, sha(b"other"), [(0, 1)])
    with pytest.raises(SourceMismatch):
        blobs.read("s" * 32, sha(BIG), [(0, 1)])


@pytest.mark.parametrize("damage", [lambda data: data[:1000], lambda data: data + b"1", lambda data: b"1" + data[1:]])
@pytest.mark.parametrize("reopened", [False, True])
def test_a_file_that_is_not_what_was_put_is_not_read(
    blobs: BlobStore, damage: Callable[[bytes], bytes], reopened: bool
) -> None:
    """Invariant 6: shorter, longer or other bytes, noticed at any time, wherever the range lies."""
    arrived(blobs).end()
    assert blobs.read(RUN, sha(BIG), [(5, 9)]) == [b"5678"]
    file = blobs.root / RUN / sha(BIG)
    file.write_bytes(damage(BIG))
    if reopened:
        blobs = BlobStore(blobs.root)
    for start, end in ((5, 9), (len(BIG) - 1, len(BIG)), (len(BIG), len(BIG) + 1)):
        with pytest.raises(SourceMismatch) as refused:
            blobs.read(RUN, sha(BIG), [(start, end)])
        assert refused.value.detail == {"artifact_sha256": sha(BIG)}
    arrived(blobs).end()
    assert blobs.read(RUN, sha(BIG), [(5, 9)]) == [b"5678"], "the same bytes put again take the damaged file's place"


def test_a_file_is_hashed_once_while_nobody_changes_it(blobs: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    arrived(blobs).end()
    hashed = []
    digest = hashlib.file_digest
    monkeypatch.setattr(blobs_module.hashlib, "file_digest", lambda file, name: hashed.append(1) or digest(file, name))
    for _ in range(3):
        blobs.read(RUN, sha(BIG), [(0, 1)])
    assert len(hashed) == 1


def test_opening_sweeps_what_killed_uploads_left(blobs: BlobStore) -> None:
    arrived(blobs).end()
    killed = blobs.arrive(RUN)
    killed.write(BIG)
    assert len(files(blobs)) == 2
    again = BlobStore(blobs.root)
    assert files(again) == {sha(BIG)}
    killed.end()


def test_the_file_is_fsynced_before_it_has_its_name_and_the_folder_after(
    blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, rename = os.fsync, os.rename

    def noting_fsync(descriptor: int) -> None:
        steps.append("fsync " + Path(os.readlink(f"/proc/self/fd/{descriptor}")).suffix)
        fsync(descriptor)

    def noting_rename(old: Path, new: Path) -> None:
        steps.append("rename")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", noting_fsync)
    monkeypatch.setattr(os, "rename", noting_rename)
    arrived(blobs).end()
    assert steps[:3] == ["fsync .part", "rename", "fsync "]


def test_the_sweep_takes_what_nothing_cites(blobs: BlobStore) -> None:
    arrived(blobs).end()
    arrived(blobs, BIG + b"1").end()
    (blobs.root / RUN / "left-over.part").write_bytes(b"12345")
    assert blobs.sweep([(RUN, sha(BIG))]) == len(BIG) + 1 + 5
    assert files(blobs) == {sha(BIG)}


def test_the_sweep_spares_what_is_about_to_be_cited(blobs: BlobStore) -> None:
    arriving, settled = blobs.arrive(RUN), arrived(blobs, BIG + b"1")
    arriving.write(BIG)
    assert blobs.sweep([]) == 0
    arriving.settle_file()
    assert blobs.sweep([]) == 0
    assert blobs.read(RUN, sha(BIG), [(0, 1)]) == [b"0"]
    for arrival in (arriving, settled):
        arrival.end()
    assert blobs.sweep([]) == 2 * len(BIG) + 1


def test_of_two_uploads_of_the_same_bytes_one_may_end_before_the_other(blobs: BlobStore) -> None:
    """Each protects the name for itself."""
    first, second = arrived(blobs), arrived(blobs)
    first.end()
    assert blobs.sweep([]) == 0
    second.end()
    assert blobs.sweep([]) == len(BIG)


def test_a_run_is_removed_whole(blobs: BlobStore) -> None:
    arrived(blobs).end()
    assert blobs.remove_run(RUN) == len(BIG)
    assert blobs.remove_run(RUN) == 0
    assert files(blobs) == set()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_storage_full_and_leaves_nothing(
    blobs: BlobStore, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError(code, os.strerror(code))

    arrival = blobs.arrive(RUN)
    monkeypatch.setattr(blobs_module.os, "write", full)
    with pytest.raises(StorageFull):
        arrival.write(BIG)
    arrival.end()
    monkeypatch.undo()
    assert files(blobs) == set()


def test_a_write_that_takes_less_than_it_is_given_goes_on(blobs: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(blobs_module.os, "write", lambda descriptor, data: write(descriptor, bytes(data[:777])))
    arrived(blobs).end()
    monkeypatch.undo()
    assert blobs.read(RUN, sha(BIG), [(0, len(BIG))]) == [BIG]
