"""A checkpoint that a power loss breaks off is taken back: a rollback journal, as SQLite's.

DuckDB writes its metadata in blocks of 256 KiB, and a checkpoint writes new parts of such a block over the block that
the record as it stands refers to. Where that write survives in part, the block fails its checksum and the record with
it, though nothing that the record needs has changed. So before a checkpoint these blocks and the two headers, of which
one is written over too, are copied into a file beside the record, fsynced; it goes when the checkpoint is durable.

On opening, a copy that is there belongs to a checkpoint that did not end. The header is the last thing a checkpoint
writes: where both are as they were, the blocks are written back, and the log, which is there still, holds the rest.
Where one was written, all before it is durable and nothing is to be done; where it was written in part, which only
DuckDB can tell, it is written back too.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import duckdb

from mn_engine.store.blobs import sync_directory

_PAGE: Final = 4096
_IDENTITY: Final = 0
_HEADERS: Final = (_PAGE, 2 * _PAGE)
_BLOCKS_AT: Final = 3 * _PAGE
"""The file begins with a page that names it and never changes, and the two headers; blocks follow, counted from 0."""
_PART: Final = struct.Struct("<QQ")
"""Where the bytes that follow belong in the record, and how many they are."""
_DIGEST_BYTES: Final = 32
_BROKEN_HEADER: Final = re.compile(r"does not match stored checksum \d+ in block at location (\d+)\b")
_BLOCKS: Final = "SELECT block_id FROM pragma_metadata_info() ORDER BY block_id"
_BLOCK_SIZE: Final = "SELECT block_size FROM pragma_database_size()"
_log: Final = logging.getLogger(__name__)


class Rollback:
    """The rollback journal of one record. For one thread at a time."""

    def __init__(self, record: Path) -> None:
        self._record = record
        self._path = record.with_name(record.name + ".rollback")

    def keep(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Before a checkpoint: copies what it may write over. Raises OSError, and duckdb.Error."""
        found = connection.execute(_BLOCK_SIZE).fetchone()
        assert found is not None
        size = int(found[0])
        blocks = [_BLOCKS_AT + size * block for (block,) in connection.execute(_BLOCKS).fetchall()]
        with open(self._record, "rb") as record, open(self._path, "wb") as journal:
            digest = hashlib.sha256()
            for at, length in [
                *((page, _PAGE) for page in (_IDENTITY, *_HEADERS)),
                *((block, size) for block in blocks),
            ]:
                data = os.pread(record.fileno(), length, at)
                part = _PART.pack(at, len(data)) + data
                digest.update(part)
                journal.write(part)
            journal.write(digest.digest())
            journal.flush()
            os.fsync(journal.fileno())
        sync_directory(self._path.parent)

    def forget(self) -> None:
        """After a checkpoint that is durable, or when what it broke is mended. Before anything new is acknowledged,
        the removal is durable too: a new log makes its folder so."""
        self._path.unlink(missing_ok=True)

    def take_back(self) -> None:
        """For a record that is closed: mends what a checkpoint that did not end has written."""
        kept = self._kept()
        if kept and all(self._stands(page, kept) for page in (_IDENTITY, *_HEADERS)):
            self._write_back(kept)

    def take_back_header(self, error: str) -> bool:
        """The same where the checkpoint was broken off in its header, as DuckDB's error tells; answers whether."""
        told = _BROKEN_HEADER.search(error)
        kept = self._kept()
        broken = int(told[1]) if told else 0
        if not kept or broken not in _HEADERS:
            return False
        if not all(self._stands(page, kept) for page in (_IDENTITY, *_HEADERS) if page != broken):
            return False
        self._write_back(kept)
        return True

    def _kept(self) -> dict[int, bytes]:
        """Where -> what was there; nothing where the copy was never finished: then no checkpoint has begun."""
        try:
            journal = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        parts, digest = journal[:-_DIGEST_BYTES], journal[-_DIGEST_BYTES:]
        return dict(_parts(parts)) if hashlib.sha256(parts).digest() == digest else {}

    def _stands(self, page: int, kept: dict[int, bytes]) -> bool:
        with open(self._record, "rb") as record:
            return os.pread(record.fileno(), _PAGE, page) == kept[page]

    def _write_back(self, kept: dict[int, bytes]) -> None:
        with open(self._record, "rb+") as record:
            changed = [at for at, data in kept.items() if os.pread(record.fileno(), len(data), at) != data]
            for at in changed:
                os.pwrite(record.fileno(), kept[at], at)
            os.fsync(record.fileno())
        if changed:
            _log.warning("a checkpoint that did not end was taken back: %d blocks", len(changed))


def _parts(journal: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(journal):
        place, size = _PART.unpack_from(journal, at)
        at += _PART.size
        yield place, journal[at : at + size]
        at += size
