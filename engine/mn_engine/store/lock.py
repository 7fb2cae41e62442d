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
        path = record.with_name(record.name + ".lock")
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
        self._descriptor: int | None = descriptor
        self.holder = {"host": socket.gethostname(), "pid": os.getpid(), "started": process_started(os.getpid())}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(self.holder).encode(), 0)
        tell_when_forked(self)

    def release(self) -> None:
        """Lets go. Idempotent. The file stays: removing it would let two processes lock two files of one name."""
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


def _read(descriptor: int) -> dict[str, Any]:
    try:
        holder = json.loads(os.pread(descriptor, _HOLDER_BYTES_MAX, 0))
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}
