"""A disk that loses power, replayed from the journal of powerloss.c.

What an fsync of the file made durable stays; of what it did not, nothing stays, or any of it. The same holds of names:
a creation, a rename or a removal is durable after an fsync of its folder, and of those that are not, the first few may
stay. This is the least that POSIX promises; file systems promise more, and a record must not need that.

A harness for any durable store: `shim` compiles the preload library, `journaled` runs a program under it (`watched` is
its environment), `Disk` replays, `wrongs` looks at what is left. Deterministic: all choices come from the random
generator that is handed in.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("powerloss.c")
_HEAD: Final = struct.Struct("<6q")
_SECTOR: Final = 512
_ROOT: Final = Path(__file__).resolve().parents[2]

Check = Callable[[Path, list[str]], list[str]]
"""What is wrong in a folder, given what its process told before the power was lost."""


class Did(IntEnum):
    """What the process did; numbers are those of powerloss.c."""

    CREATE = 1
    WRITE = 2
    TRUNCATE = 3
    SYNC = 4
    RENAME = 5
    UNLINK = 6
    MKDIR = 7
    RMDIR = 8
    SYNC_FOLDER = 9
    NOTE = 10


@dataclass(frozen=True, slots=True)
class Step:
    """One record of the journal."""

    did: Did
    inode: int
    number: int
    path: str
    to: str
    data: bytes


def shim(folder: Path) -> Path:
    """The preload library, compiled into `folder`."""
    library = folder / "powerloss.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o", library, SOURCE, "-ldl", "-lpthread"],
        check=True,
    )
    return library


def watched(library: Path, folder: Path, journal: Path, *, swallow: str = "") -> dict[str, str]:
    """The environment of a process whose doings in `folder` are journaled. `swallow`: files, folders or all syncs."""
    return {
        **os.environ,
        "LD_PRELOAD": str(library),
        "POWERLOSS_FOLDER": str(folder.resolve()),
        "POWERLOSS_JOURNAL": str(journal),
        "POWERLOSS_SWALLOW": swallow,
    }


def journaled(library: Path, folder: Path, module: str, *arguments: str, swallow: str = "") -> list[Step]:
    """The journal of what a module, run as a program, does in `folder`, which is made for it."""
    folder.mkdir()
    journal = folder.with_name("journal")
    environment = {**watched(library, folder, journal, swallow=swallow), "PYTHONPATH": str(_ROOT)}
    subprocess.run([sys.executable, "-m", module, *arguments], check=True, cwd=_ROOT, env=environment, timeout=110)
    return steps(journal)


def steps(journal: Path) -> list[Step]:
    """The whole journal; a record that its process did not finish is left out."""
    return list(_steps(journal.read_bytes()))


def notes(done: Sequence[Step]) -> list[str]:
    """What the process told of itself in these steps."""
    return [step.path for step in done if step.did is Did.NOTE]


@dataclass(slots=True)
class _File:
    """A file's bytes: those that are durable, and what has been done to it since."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Step] = field(default_factory=list)

    def sync(self) -> None:
        for step in self.pending:
            _apply(self.durable, step)
        self.pending.clear()

    def after_loss(self, chance: random.Random | None) -> bytes:
        kept = bytearray(self.durable)
        if chance is not None:
            for step in self.pending:
                _apply_some(kept, step, chance)
        return bytes(kept)


@dataclass(frozen=True, slots=True)
class _Naming:
    """A change of names in one folder: the name that goes, and the name that comes with what it stands for."""

    gone: str | None
    came: str | None
    thing: _File | _Folder | None


@dataclass(slots=True)
class _Folder:
    """A folder's names: those that are durable, and the changes since."""

    durable: dict[str, _File | _Folder] = field(default_factory=dict)
    now: dict[str, _File | _Folder] = field(default_factory=dict)
    pending: list[_Naming] = field(default_factory=list)

    def change(self, naming: _Naming) -> None:
        _rename(self.now, naming)
        self.pending.append(naming)

    def sync(self) -> None:
        for naming in self.pending:
            _rename(self.durable, naming)
        self.pending.clear()

    def after_loss(self, chance: random.Random | None) -> dict[str, _File | _Folder]:
        kept = dict(self.durable)
        if chance is not None:
            for naming in self.pending[: chance.randint(0, len(self.pending))]:
                _rename(kept, naming)
        return kept


class Disk:
    """The watched folder on a disk, as the steps so far left it."""

    def __init__(self, folder: Path) -> None:
        self._path = str(folder.resolve())
        self._root = _Folder()
        self._inodes: dict[int, _File] = {}

    def do(self, step: Step) -> None:
        """One step further."""
        match step.did:
            case Did.CREATE:
                made = self._inodes[step.inode] = _File()
                self._name(step.path, made)
            case Did.WRITE | Did.TRUNCATE:
                self._inodes[step.inode].pending.append(step)
            case Did.SYNC:
                self._inodes[step.inode].sync()
            case Did.SYNC_FOLDER:
                self._folder(step.path).sync()
            case Did.MKDIR:
                self._name(step.path, _Folder())
            case Did.UNLINK | Did.RMDIR:
                parent, name = self._split(step.path)
                parent.change(_Naming(name, None, None))
            case Did.RENAME:
                self._move(step.path, step.to)
            case Did.NOTE:
                pass

    def lose_power(self, to: Path, chance: random.Random | None = None) -> None:
        """Writes into `to` what is there when the power comes back: only what was durable, or with `chance` that and
        any of the rest, of a single write any sectors."""
        _write(self._root, to, chance)

    def _name(self, path: str, thing: _File | _Folder) -> None:
        parent, name = self._split(path)
        parent.change(_Naming(None, name, thing))

    def _move(self, path: str, to: str) -> None:
        parent, name = self._split(path)
        target, new = self._split(to)
        assert parent is target, "renames between folders are not simulated"
        parent.change(_Naming(name, new, parent.now[name]))

    def _split(self, path: str) -> tuple[_Folder, str]:
        folder, _, name = path.rpartition("/")
        return self._folder(folder), name

    def _folder(self, path: str) -> _Folder:
        assert path == self._path or path.startswith(self._path + "/"), path
        found = self._root
        for name in filter(None, path.removeprefix(self._path).split("/")):
            below = found.now[name]
            assert isinstance(below, _Folder)
            found = below
        return found


def wrongs(
    journal: list[Step], folder: Path, scratch: Path, cuts: list[int], seed: int, check: Check, draws: int = 1
) -> dict[str, list[str]]:
    """(cut, what was kept) -> what `check` finds wrong in `folder`, whose process did the steps of `journal`, when the
    power comes back: at these cuts and at the journal's end, with nothing kept that was not durable, and as often as
    `draws` says with some of it."""
    disk, at, found = Disk(folder), 0, {}
    for cut in [*sorted(cuts), len(journal)]:
        for step in journal[at:cut]:
            disk.do(step)
        at = cut
        for draw in range(draws + 1):
            root = scratch / f"{cut}-{draw}"
            disk.lose_power(root, random.Random(f"{seed} {cut} {draw}") if draw else None)
            wrong = check(root, notes(journal[:cut]))
            if wrong:
                found[f"cut {cut} of {len(journal)}, {f'draw {draw}' if draw else 'nothing else'} kept"] = wrong
            shutil.rmtree(root)
    return found


def _steps(journal: bytes) -> Iterator[Step]:
    at = 0
    while at + _HEAD.size <= len(journal):
        did, inode, number, path, to, data = _HEAD.unpack_from(journal, at)
        at += _HEAD.size
        ends = [at + path, at + path + to, at + path + to + data]
        if ends[-1] > len(journal):
            return
        names = journal[at : ends[0]].decode(), journal[ends[0] : ends[1]].decode()
        yield Step(Did(did), inode, number, *names, journal[ends[1] : ends[2]])
        at = ends[-1]


def _apply(kept: bytearray, step: Step) -> None:
    if step.did is Did.TRUNCATE:
        if step.number < len(kept):
            del kept[step.number :]
        else:
            kept.extend(bytes(step.number - len(kept)))
        return
    end = step.number + len(step.data)
    if len(kept) < end:
        kept.extend(bytes(end - len(kept)))
    kept[step.number : end] = step.data


def _apply_some(kept: bytearray, step: Step, chance: random.Random) -> None:
    """All of a step, none of it, or of a write some sectors."""
    how = chance.random()
    if how < 0.4:
        _apply(kept, step)
    elif how < 0.6 and step.did is Did.WRITE:
        for start in range(0, len(step.data), _SECTOR):
            if chance.random() < 0.5:
                data = step.data[start : start + _SECTOR]
                _apply(kept, Step(Did.WRITE, step.inode, step.number + start, "", "", data))


def _rename(names: dict[str, _File | _Folder], naming: _Naming) -> None:
    if naming.gone is not None:
        names.pop(naming.gone, None)
    if naming.came is not None and naming.thing is not None:
        names[naming.came] = naming.thing


def _write(folder: _Folder, to: Path, chance: random.Random | None) -> None:
    to.mkdir()
    for name, thing in folder.after_loss(chance).items():
        if isinstance(thing, _Folder):
            _write(thing, to / name, chance)
        else:
            (to / name).write_bytes(thing.after_loss(chance))
