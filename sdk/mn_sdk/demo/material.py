"""What the demo investigates: the files of a folder, or the lines of a JSON-lines file, in a fixed order."""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mn_contract.errors import InvalidInput
from mn_contract.names import utf8

UNIT_BYTES_MAX: Final = 1 << 20
UNITS_MAX: Final = 4000
_SKIPPED: Final = frozenset({"site-packages", "__pycache__", "test", "tests", "idlelib", "lib2to3", "turtledemo"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One thing to read: a file or a line. `id` can stand in an event's name."""

    id: str
    topic: str
    text: str


def standard_library() -> Path:
    """The Python standard library of this machine: hundreds of real files."""
    return Path(sysconfig.get_paths()["stdlib"])


def read(source: Path) -> list[Unit]:
    """The units of a folder or a `.jsonl` file, sorted by name. Raises InvalidInput where there are none."""
    if not source.is_dir() and not source.is_file():
        raise InvalidInput(f"there is no file or folder {source}", field="--input")
    try:
        units = list(_files(source) if source.is_dir() else _lines(source))
    except OSError as error:
        raise InvalidInput(f"{error.filename or source} cannot be read: {error.strerror}", field="--input") from error
    except UnicodeDecodeError as error:
        raise _no_lines(source, "it is not UTF-8") from error
    if not units:
        raise InvalidInput(f"{source} holds no readable text", field="--input")
    return units[:UNITS_MAX]


def _files(folder: Path) -> Iterator[Unit]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if _SKIPPED.intersection(inside.parts) or path.is_symlink() or not path.is_file():
            continue
        if not 0 < path.stat().st_size <= UNIT_BYTES_MAX:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # not a text; a folder may hold anything
        if text.strip() and "\0" not in text:
            yield Unit(id=_name(str(inside)), topic=_name(inside.parts[0].removesuffix(".py"))[:60], text=text)


def _lines(path: Path) -> Iterator[Unit]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise _no_lines(path, f"line {number} is no JSON") from error
            if isinstance(record, dict) and not isinstance(record.get("text", ""), str):
                raise InvalidInput(f'line {number} of {path}: its "text" must be a string', field="--input")
            text = record if isinstance(record, str) else json.dumps(record, ensure_ascii=False, sort_keys=True)
            if len(utf8(text, f"line {number} of {path}")) > UNIT_BYTES_MAX:
                raise InvalidInput(f"line {number} of {path} is over {UNIT_BYTES_MAX} bytes", field="--input")
            yield Unit(id=f"line-{number:06d}", topic=f"part-{number // 100:04d}", text=text)


def _no_lines(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path} is no JSON-lines file: {why}. A single text file is not taken: give the folder that it lies in, or a "
        ".jsonl file with a text a line",
        field="--input",
    )


def _name(text: str) -> str:
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_-./") else "-" for letter in text)[
        :120
    ]
