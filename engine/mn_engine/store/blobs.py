"""Large artifacts as files: content-addressed, written once, durable before anything cites them.

A file is written under a temporary name, fsynced, renamed to its hash, and the directory fsynced, in that order,
before the handle is committed to the record. What a crash leaves behind is a temporary file, which is swept when the
folder is opened next, or a file that nothing cites, which compaction sweeps.

A file is used only while its bytes are those of its name: it is hashed whole when it is first read, and again whenever
it has changed on the disk (invariant 6).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from mn_contract.errors import DependencyUnavailable, InvalidInput, SourceMismatch, StorageFull
from mn_contract.limits import ARTIFACT_BYTES_MAX, ARTIFACT_INLINE_BYTES_MAX
from mn_engine.domain.artifacts import check_range

_TEMPORARY: Final = ".part"
_Identity = tuple[int, int, int, int]
"""(inode, size, time of the last change of contents, of anything): another one where a file has been changed."""


class BlobStore:
    """Files `root/run_key/sha256`. Thread-safe. Opening it sweeps what uploads left when they were killed, so whoever
    opens it has the record to itself."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._arriving: Counter[str] = Counter()
        self._checked: dict[str, _Identity] = {}
        with _typed():
            for left in root.glob(f"*/*{_TEMPORARY}"):
                _unlink(left)

    def arrive(self, run_key: str) -> Arrival:
        """Begins a blob."""
        return Arrival(self, run_key)

    def read(self, run_key: str, sha256: str, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        """The bytes of each range [start, end). Raises SourceMismatch where the file is gone or is not what its name
        says, InvalidInput past its end."""
        try:
            with _typed():
                descriptor = os.open(f"{self.root}/{run_key}/{sha256}", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise SourceMismatch(
                "an artifact's file is gone from the record's folder; the evidence was not used. Put it again, or"
                " restore the file",
                artifact_sha256=sha256,
            ) from error
        try:
            with _typed():
                size = self._checked_size(f"{run_key}/{sha256}", descriptor)
                return [_read_range(descriptor, size, start, end) for start, end in ranges]
        finally:
            os.close(descriptor)

    def remove_run(self, run_key: str) -> int:
        """Unlinks all blobs of a run, those on their way in included; answers their bytes."""
        folder = self.root / run_key
        if not folder.is_dir():
            return 0
        freed = sum(_unlink(file) for file in folder.iterdir())
        with contextlib.suppress(OSError):  # an upload that has just begun has a file in it, and will take it away
            folder.rmdir()
        sync_directory(self.root)
        self._checked.clear()
        return freed

    def sweep(self, cited: Iterable[tuple[str, str]]) -> int:
        """Unlinks what is neither cited, as (run_key, sha256), nor arriving; answers the bytes given back."""
        keep = {f"{run_key}/{sha256}" for run_key, sha256 in cited}
        freed = 0
        with self._lock:
            for file in list(self._files()):
                name = f"{file.parent.name}/{file.name}"
                if name not in keep and not self._arriving[name]:
                    freed += _unlink(file)
        self._checked.clear()
        return freed

    def _checked_size(self, name: str, descriptor: int) -> int:
        """The size of an open file whose bytes are those of its name. Raises SourceMismatch where they are not."""
        status = os.fstat(descriptor)
        identity = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if self._checked.get(name) == identity:
            return status.st_size
        sha256 = name.rpartition("/")[2]
        with open(descriptor, "rb", closefd=False) as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            raise SourceMismatch(
                "an artifact's file is not what was put; the evidence was not used. Put it again, or restore the file",
                artifact_sha256=sha256,
            )
        self._checked[name] = identity
        return status.st_size

    def _files(self) -> Iterator[Path]:
        if self.root.is_dir():
            for folder in self.root.iterdir():
                if folder.is_dir():
                    yield from folder.iterdir()

    def announce(self, name: str) -> None:
        """A file that must not be swept yet."""
        with self._lock:
            self._arriving[name] += 1

    def settle(self, name: str) -> None:
        """A file that is cited by now, or gone."""
        with self._lock:
            self._arriving[name] -= 1
            if not self._arriving[name]:
                del self._arriving[name]


class Arrival:
    """Bytes on their way in: kept in memory up to the inline limit, in a temporary file beyond it."""

    def __init__(self, blobs: BlobStore, run_key: str) -> None:
        self._blobs = blobs
        self._run_key = run_key
        self._hash = hashlib.sha256()
        self._head = bytearray()
        self._file: int | None = None
        self._names: list[str] = []
        self._path: Path | None = None
        self.size = 0

    @property
    def sha256(self) -> str:
        """The hash of the bytes so far."""
        return self._hash.hexdigest()

    @property
    def inline(self) -> bytes | None:
        """All bytes, where they are few enough to lie in the record."""
        return bytes(self._head) if self._file is None else None

    def write(self, chunk: bytes) -> None:
        """Adds bytes. Raises InvalidInput over the size limit, StorageFull where the disk is."""
        self.size += len(chunk)
        if self.size > ARTIFACT_BYTES_MAX:
            raise InvalidInput(f"an artifact is at most {ARTIFACT_BYTES_MAX} bytes", field="chunk")
        self._hash.update(chunk)
        if self._file is None:
            self._head += chunk
            if len(self._head) <= ARTIFACT_INLINE_BYTES_MAX:
                return
            chunk = bytes(self._head)
            self._open()
        with _typed():
            write_all(self._descriptor, chunk)

    def settle_file(self) -> None:
        """Makes the file durable under its hash. Where it is there already, the new copy takes its place: same
        bytes."""
        assert self._path is not None, "there is no file"
        target = self._path.with_name(self.sha256)
        self._announce(target.name)
        with _typed():
            os.fsync(self._descriptor)
            self._close()
            os.rename(self._path, target)
            self._path = None
            for folder in (target.parent, self._blobs.root, self._blobs.root.parent):
                sync_directory(folder)

    def end(self) -> None:
        """Forgets what is temporary. Idempotent."""
        self._close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None
        for name in self._names:
            self._blobs.settle(name)
        self._names.clear()

    @property
    def _descriptor(self) -> int:
        assert self._file is not None, "there is no file"
        return self._file

    def _open(self) -> None:
        folder = self._blobs.root / self._run_key
        with _typed():
            folder.mkdir(parents=True, exist_ok=True)
            self._path = folder / (secrets.token_hex(16) + _TEMPORARY)
            self._announce(self._path.name)
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def _announce(self, name: str) -> None:
        full = f"{self._run_key}/{name}"
        self._blobs.announce(full)
        self._names.append(full)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _read_range(descriptor: int, size: int, start: int, end: int) -> bytes:
    check_range(size, start, end)
    return os.pread(descriptor, end - start, start)


def _unlink(file: Path) -> int:
    try:
        size = file.stat().st_size
        file.unlink()
    except FileNotFoundError:  # its upload has ended meanwhile
        return 0
    return size


def write_all(descriptor: int, data: bytes) -> None:
    """Writes all of `data`: a write may take less than it is given."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(folder: Path) -> None:
    """Makes names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _typed() -> Iterator[None]:
    """Errors of the disk as the contract's. A file that is gone stays FileNotFoundError: only callers know why."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise StorageFull("the disk is full; the artifact was not kept. Make room and retry") from error
        raise DependencyUnavailable(
            f"the record's folder of artifacts cannot be used: {error.strerror}", dependency="store"
        ) from error
