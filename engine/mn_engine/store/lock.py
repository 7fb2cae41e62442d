"""One process holds a record, and says who it is.

DuckDB's own lock is dropped by any open-and-close of the file in the same process, and does not name its holder; this
one is a file of ours beside the record, locked with flock for as long as the record is open.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from pathlib import Path
from typing import Any

from mn_contract.errors import DependencyUnavailable, RecordInUse
from mn_engine.store.forks import tell_when_forked

_HOLDER_BYTES_MAX = 4096


class RecordLock:
    """The lock of one record. Held from construction until release; a forked child does not hold it."""

    def __init__(self, record: Path) -> None:
        self._path = record.with_name(record.name + ".lock")
        self._is_new = not self._path.exists()
        descriptor = _locked(self._path)
        while not _is_at(descriptor, self._path):  # its last holder took it back between our two steps
            os.close(descriptor)
            descriptor = _locked(self._path)
        self._descriptor: int | None = descriptor
        self.holder = {"host": socket.gethostname(), "pid": os.getpid(), "started": process_started(os.getpid())}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(self.holder).encode(), 0)
        tell_when_forked(self)

    def take_back(self) -> None:
        """Lets go of what was no record to hold; a file that was not there before is not left behind."""
        if self._is_new:
            self._path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Lets go. Idempotent. The file stays, and tells who held it last."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def abandon(self) -> None:
        """In a forked child: closes the copy of the descriptor, so that the lock goes when the parent does."""
        self.release()


def process_started(pid: int) -> int:
    """When a process of this machine started, in clock ticks since boot; 0 where that cannot be told."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])


def _locked(path: Path) -> int:
    """The descriptor of the file at `path`, made where it is not there, and locked."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DependencyUnavailable(
            f"the record's folder cannot be written: {error.strerror}", dependency="store"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = _read(descriptor)
        os.close(descriptor)
        raise RecordInUse(
            f"the record is open in process {holder.get('pid', '?')} on {holder.get('host', '?')}; "
            "stop it, or use it through its server (MN_CONTEXT_ADDR)",
            holder=holder,
        ) from error
    return descriptor


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is the one that stands at `path`: a lock on another would hold nobody off."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _read(descriptor: int) -> dict[str, Any]:
    try:
        holder = json.loads(os.pread(descriptor, _HOLDER_BYTES_MAX, 0))
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}
