"""What a power loss leaves: replays a log of changes and syncs (powerloss.c), keeping only what was durable.

The model is a journalling file system's: syncing a file makes its bytes durable and, where it is new, its name; a
rename and an unlink are durable once their directory was synced. Until then the old name stands.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).with_name("powerloss.c")
_HEAD = struct.Struct("<cIIq")


@dataclass(frozen=True, slots=True)
class Change:
    """One record of the log."""

    kind: str
    path: str
    second: bytes
    offset: int


def build(folder: Path) -> Path:
    """Compiles the shim; answers the library to preload."""
    library = folder / "powerloss.so"
    command = [
        "cc",
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Werror",
        "-o",
        str(library),
        str(SOURCE),
        "-ldl",
        "-lpthread",
    ]
    subprocess.run(command, check=True)
    return library


def environment(library: Path, watched: Path, log: Path, *, sync: bool) -> dict[str, str]:
    """The environment of a process whose changes under `watched` are logged; `sync=False` leaves its syncs out."""
    variables = {"LD_PRELOAD": str(library), "MN_POWER_DIR": str(watched), "MN_POWER_LOG": str(log)}
    return {**os.environ, **variables, **({} if sync else {"MN_POWER_NOSYNC": "1"})}


def changes(log: Path) -> list[Change]:
    """The records of a log; one that was cut short at its end is left out."""
    return list(_changes(log.read_bytes()))


def _changes(data: bytes) -> Iterator[Change]:
    at = 0
    while at + _HEAD.size <= len(data):
        kind, path_length, second_length, offset = _HEAD.unpack_from(data, at)
        start = at + _HEAD.size
        at = start + path_length + second_length
        if at > len(data):
            return
        path = data[start : start + path_length].decode()
        yield Change(kind.decode(), path, data[start + path_length : at], offset)


@dataclass(slots=True)
class _File:
    now: bytearray = field(default_factory=bytearray)
    durable: bytes = b""


def after_power_loss(log: list[Change]) -> dict[str, bytes]:
    """Path -> bytes of every file that is there after a power loss at the end of `log`."""
    names: dict[str, _File] = {}
    durable: dict[str, _File] = {}
    for change in log:
        path = change.path
        if change.kind == "O":
            names[path] = _File()
        elif change.kind == "W":
            _write(names.setdefault(path, _File()).now, change.offset, change.second)
        elif change.kind == "T":
            _truncate(names.setdefault(path, _File()).now, change.offset)
        elif change.kind == "S" and path in names:
            names[path].durable = bytes(names[path].now)
            # The file's own name becomes durable with it, unless it got that name by a rename that was not synced.
            if names[path] not in durable.values():
                durable[path] = names[path]
        elif change.kind == "D":
            inside = {name for name in (*names, *durable) if os.path.dirname(name) == path.rstrip("/")}
            for name in inside:
                if name in names:
                    durable[name] = names[name]
                else:
                    durable.pop(name, None)
        elif change.kind == "R" and path in names:
            names[change.second.decode()] = names.pop(path)
        elif change.kind == "U":
            names.pop(path, None)
    return {path: file.durable for path, file in durable.items()}


def lay_out(files: dict[str, bytes], watched: Path, target: Path) -> None:
    """Writes what was left under `watched` into `target`."""
    for path, data in files.items():
        place = target / Path(path).relative_to(watched)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def _write(data: bytearray, offset: int, new: bytes) -> None:
    if len(data) < offset:
        data.extend(bytes(offset - len(data)))
    data[offset : offset + len(new)] = new


def _truncate(data: bytearray, size: int) -> None:
    if size < len(data):
        del data[size:]
    else:
        data.extend(bytes(size - len(data)))
