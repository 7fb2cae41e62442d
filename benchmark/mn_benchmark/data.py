"""Reading data sets that others wrote: what is absent is reported, what is of another format is an error."""

from __future__ import annotations

import csv
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
        try:
            return [json.loads(line) for line in self.text(file).splitlines() if line.strip()]
        except ValueError as error:
            raise _of_another_format(file, error) from error

    def csv(self, file: Path) -> list[dict[str, str]]:
        """The rows of a CSV file with a header."""
        csv.field_size_limit(1 << 27)
        return list(csv.DictReader(self.text(file).splitlines(keepends=True)))


class Reading:
    """Turns whatever a data file of another format makes a reader raise into one InvalidInput that names the file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KeyError | TypeError | ValueError | IndexError | AttributeError):
            if isinstance(error, ContextError):
                return
            raise _of_another_format(self._file, error) from error


def lines_of(text: str) -> Iterator[str]:
    """Lines that say something, without outer spaces."""
    return filter(None, map(str.strip, text.splitlines()))


def _of_another_format(file: Path, error: BaseException) -> InvalidInput:
    return InvalidInput(f"{file} is not of the format this suite reads: {type(error).__name__}: {error}", field="data")
