"""DuckDB's write-ahead log, where DuckDB leaves durability to others.

Two things. A log's *name* must be durable too: DuckDB makes a new log after each checkpoint and does not fsync the
folder. And a power loss in the middle of an append may leave any part of the unsynced bytes; DuckDB then takes the log
for corrupt and refuses to open the record. So it is noted beside the log how far it was synced: what is broken behind
that was acknowledged to nobody and is cut off, with a warning; what is broken before it is real corruption and stays an
error. The note is not fsynced: an old one only makes the part that may be cut larger, by what a disk lost that had said
it was safe.
"""

from __future__ import annotations

import logging
import os
import re
import struct
import zlib
from pathlib import Path
from typing import Final

from mn_engine.store.blobs import sync_directory
from mn_engine.store.duckdb.fresh import log_of, note_of

_NOTE: Final = struct.Struct("<III")
_IDENTITY_BYTES: Final = 128
"""A log begins with the record's identity and the number of its checkpoint: no two are alike."""
_BROKEN: Final = re.compile(
    r"Corrupt WAL file: entry at byte position (\d+) computed checksum \d+ does not match stored checksum (\d+)"
)
_ENTRY: Final = struct.Struct("<QQ")
"""Size and checksum, before each entry's bytes; the position that DuckDB tells is of the bytes."""
_log: Final = logging.getLogger(__name__)


class Log:
    """The log of one record. For one thread at a time."""

    def __init__(self, record: Path) -> None:
        self._path = log_of(record)
        self._note_path = note_of(record)
        self._note: int | None = None
        # Held open: its inode is not used again meanwhile, so that a new log is always seen to be one.
        self._held: int | None = None
        self._identity = 0

    def synced(self) -> None:
        """After a commit: makes the log's name durable where it is a new log, and notes how far it goes. Raises
        OSError."""
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return  # a checkpoint has taken the log in: all of it is in the record, fsynced
        if self._held is None or os.fstat(self._held).st_ino != found.st_ino:
            self._hold()
        if self._note is None:
            self._note = os.open(self._note_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.pwrite(self._note, _note(self._identity, found.st_size), 0)

    @property
    def size(self) -> int:
        """Its bytes; 0 where there is none."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def let_go(self) -> None:
        """Closes its files. Idempotent."""
        for descriptor in (self._held, self._note):
            if descriptor is not None:
                os.close(descriptor)
        self._held = self._note = None

    def cut_torn_tail(self, error: str) -> bool:
        """Cuts off what DuckDB calls broken, where it was never acknowledged; answers whether it did. For a record that
        is closed."""
        told = _BROKEN.search(error)
        if told is None:
            return False
        start = int(told[1]) - _ENTRY.size
        if start < self._noted():
            return False
        with open(self._path, "rb+") as log:
            log.seek(max(start, 0))
            entry = log.read(_ENTRY.size)
            if len(entry) < _ENTRY.size or _ENTRY.unpack(entry)[1] != int(told[2]):
                return False  # this DuckDB counts otherwise: better an error than a wrong cut
            size = log.seek(0, os.SEEK_END)
            _log.warning("the last %d bytes of the record's log are torn and were cut off", size - start)
            log.truncate(start)
            os.fsync(log.fileno())
        return True

    def _hold(self) -> None:
        held = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            sync_directory(self._path.parent)
            self._identity = zlib.crc32(os.pread(held, _IDENTITY_BYTES, 0))
        except OSError:
            os.close(held)
            raise
        if self._held is not None:
            os.close(self._held)
        self._held = held

    def _noted(self) -> int:
        """How far this log was synced, as far as is known."""
        try:
            note = self._note_path.read_bytes()
        except FileNotFoundError:
            return 0
        if len(note) != _NOTE.size + 4 or zlib.crc32(note[:-4]) != int.from_bytes(note[-4:], "little"):
            return 0
        identity, low, high = _NOTE.unpack(note[:-4])
        with open(self._path, "rb") as log:
            if zlib.crc32(log.read(_IDENTITY_BYTES)) != identity:
                return 0
        return int(high << 32 | low)


def _note(identity: int, size: int) -> bytes:
    body = _NOTE.pack(identity, size & 0xFFFFFFFF, size >> 32)
    return body + zlib.crc32(body).to_bytes(4, "little")
