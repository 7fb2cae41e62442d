"""Reading data sets that others wrote: what is absent is reported, what is of another format is an error."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from mn_contract.errors import ContextError, InvalidInput, NotFound

_Read = TypeVar("_Read")


class Data:
    """The data folder. Remembers which files were read, for the report."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.read: set[Path] = set()

    def files(self, folder: str, pattern: str) -> list[Path]:
        """The files of a kind in a subfolder, by name. Raises NotFound where there is none."""
        found = sorted((self.root / folder).glob(pattern))
        if not found:
            raise NotFound(f"there is no {folder}/{pattern} under {self.root}")
        return found

    def text(self, file: Path) -> str:
        """The text of a file. Raises InvalidInput."""
        self.read.add(file)
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise _of_another_format(file, error) from error

    def json(self, file: Path) -> Any:
        """The JSON of a file. Raises InvalidInput."""
        try:
            return json.loads(self.text(file))
        except ValueError as error:
            raise _of_another_format(file, error) from error

    def json_lines(self, file: Path) -> list[Any]:
        """One JSON value a line. Raises InvalidInput."""
        found = []
        for number, line in enumerate(self.text(file).split("\n"), start=1):
            if line.strip():
                with Reading(file, f"line {number}"):
                    found.append(json.loads(line))
        return found

    def csv(self, file: Path) -> list[dict[str, str]]:
        """The rows of a CSV file with a header. Raises InvalidInput."""
        csv.field_size_limit(1 << 27)
        try:
            return list(csv.DictReader(io.StringIO(self.text(file), newline=""), strict=True))
        except csv.Error as error:
            raise _of_another_format(file, error) from error


class Reading:
    """Turns whatever a data file of another format makes a reader raise into one InvalidInput that names the file, and
    the place in it where that is known."""

    def __init__(self, file: Path, place: str = "") -> None:
        self._file = file
        self._place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KeyError | TypeError | ValueError | IndexError | AttributeError | SyntaxError):
            if isinstance(error, ContextError):
                return
            raise _of_another_format(self._file, error, self._place) from error


def lines_of(text: str) -> Iterator[str]:
    """Lines that say something, without outer spaces."""
    return filter(None, map(str.strip, text.splitlines()))


def text_of(given: Any) -> str:
    """A text. Raises TypeError for anything else."""
    if not isinstance(given, str):
        raise TypeError(f"{given!r:.80} is no text")
    return given


def _of_another_format(file: Path, error: BaseException, place: str = "") -> InvalidInput:
    where = f"{file}, {place}," if place else str(file)
    return InvalidInput(f"{where} is not of the format this suite reads: {type(error).__name__}: {error}", field="data")
