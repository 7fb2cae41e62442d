"""Whether SQLite's log of a journal still has all that was committed to it.

A log that ends in a broken frame is to SQLite one that a power loss cut off, and everything from there on is dropped in
silence. But commits are synced to the log before its index (`-shm`) tells of them, so a log that has less than its
index tells of was damaged. None of it may be gone that the file does not have yet; where the file has all of it the log
may be gone altogether, but not end early: what it then has is older, and SQLite would read that before the file. Of
another generation than its index a log is after a power loss, before which the index was not synced.
Formats: https://sqlite.org/walformat.html and https://sqlite.org/fileformat2.html#walformat
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mn_contract.errors import DependencyUnavailable

_INDEX: Final = struct.Struct("=16xI12x8s56xI")
"""Of the index: frames in the log, the salt of its generation, and how many of its frames the file has already."""
_MAGIC: Final = (0x377F0682, 0x377F0683)
"""How a log begins; the last bit is the byte order of its checksums."""
_HEAD_BYTES: Final = 32
_FRAME_HEAD_BYTES: Final = 24
_MASK: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class _Index:
    frames: int
    salt: bytes
    merged: int


def check_log(path: Path) -> None:
    """Raises DependencyUnavailable where the log of this file lacks what was committed to it. Nothing of the file may
    be open in this process."""
    index = _read_index(path)
    if index is None or not index.frames:
        return
    log = path.with_name(f"{path.name}-wal")
    try:
        whole = _whole_frames(log.read_bytes(), index)
    except FileNotFoundError:
        whole = 0
    lacking = whole < index.frames and (whole > 0 or index.merged < index.frames)
    if lacking and _read_index(path) == index:  # else another process works on it
        raise damaged(log)


def damaged(path: Path) -> DependencyUnavailable:
    """The error for a file that cannot be used."""
    return DependencyUnavailable(
        f"{path} is damaged: restore its folder from a backup; nothing was read from it", dependency="journal"
    )


def _read_index(path: Path) -> _Index | None:
    try:
        with path.with_name(f"{path.name}-shm").open("rb") as file:
            head = file.read(_INDEX.size)
    except FileNotFoundError:
        return None
    return _Index(*_INDEX.unpack(head)) if len(head) == _INDEX.size else None


def _whole_frames(log: bytes, index: _Index) -> int:
    """How many of the index's frames are whole in the log; all of them where the log is of another generation."""
    if len(log) < _HEAD_BYTES:
        return 0
    magic, _, page_bytes = struct.unpack_from(">III", log)
    if magic not in _MAGIC:
        return 0
    order = ">" if magic & 1 else "<"
    sums = _summed((0, 0), log[: _HEAD_BYTES - 8], order)
    if sums != struct.unpack_from(">II", log, _HEAD_BYTES - 8):
        return 0
    if log[16:24] != index.salt:
        return index.frames
    for number in range(index.frames):
        start = _HEAD_BYTES + number * (_FRAME_HEAD_BYTES + page_bytes)
        page = start + _FRAME_HEAD_BYTES
        if len(log) < page + page_bytes or log[start + 8 : start + 16] != index.salt:
            return number
        sums = _summed(_summed(sums, log[start : start + 8], order), log[page : page + page_bytes], order)
        if sums != struct.unpack_from(">II", log, start + 16):
            return number
    return index.frames


def _summed(sums: tuple[int, int], data: bytes, order: str) -> tuple[int, int]:
    """The running checksum of the log."""
    first, second = sums
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for one, other in zip(words, words, strict=True):
        first = (first + one + second) & _MASK
        second = (second + other + first) & _MASK
    return first, second
