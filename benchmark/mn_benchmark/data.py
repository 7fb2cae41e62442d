"""Reading data sets that others wrote: what is absent is reported, what is of another format is damaged (values)."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from mn_benchmark.values import DamagedData, Value
from mn_contract.errors import NotFound

_EXCERPT: Final = 20
"""Characters of what is no JSON that an error tells."""


class Data:
    """The data folder. Remembers which files were read, for the report."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.hashes: dict[str, str] = {}
        """The SHA-256 of each file that was read, by its path under the root."""

    def files(self, folder: str, pattern: str, *, but: str = "") -> list[Path]:
        """The files of a kind in a subfolder, by name, without those of the kind `but`. Raises NotFound where there is
        none."""
        found = [file for file in sorted((self.root / folder).glob(pattern)) if not fnmatch(file.name, but)]
        if not found:
            raise NotFound(f"there is no {folder}/{pattern} under {self.root}")
        return found

    def text(self, file: Path) -> str:
        """The text of a file, which says something, its lines ended by a line feed alone. Raises DamagedData, for a
        file that is not there as well: whoever names it has a part of the data that cannot do without."""
        try:
            content = file.read_bytes()
        except OSError as error:
            raise DamagedData(file, expected="a file that can be read", found=f"{error.strerror}".lower()) from error
        self.hashes[str(file.relative_to(self.root))] = hashlib.sha256(content).hexdigest()
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            wrong = f"byte {content[error.start]:#04x}"
            raise DamagedData(file, place=f"line {line}", expected="UTF-8", found=wrong) from error
        if not text.strip():
            raise DamagedData(file, expected="data", found="an empty file")
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def json(self, file: Path) -> Value:
        """The JSON of a file. Raises DamagedData."""
        return Value(found=_json(file, self.text(file), 1), file=file)

    def json_lines(self, file: Path) -> list[Value]:
        """One JSON value a line. Raises DamagedData."""
        return [
            Value(found=_json(file, line, number), file=file, place=f"record {record}, line {number}")
            for record, (number, line) in enumerate(self._lines(file), start=1)
        ]

    def lines(self, file: Path) -> list[Value]:
        """The lines that say something. Raises DamagedData."""
        return [Value(found=line, file=file, place=f"line {number}") for number, line in self._lines(file)]

    def csv(self, file: Path, *fields: str) -> list[Value]:
        """The rows of a CSV file with a header, which names all their fields, these among them. Raises DamagedData."""
        csv.field_size_limit(1 << 27)
        rows = csv.reader(io.StringIO(self.text(file), newline=""), strict=True)
        found: list[Value] = []
        try:
            header = next(rows)
            if not {*fields} <= {*header}:
                expected, named = f"a header with {', '.join(fields)}", f"{', '.join(header)!r:.60}"
                raise DamagedData(file, place="line 1", expected=expected, found=named)
            for number, row in enumerate(filter(None, rows), start=1):
                place = f"row {number}"
                if len(row) != len(header):
                    expected = f"{len(header)} fields, as the header names them"
                    raise DamagedData(file, place=place, expected=expected, found=f"{len(row)}")
                found.append(Value(found=dict(zip(header, row, strict=True)), file=file, place=place))
        except csv.Error as error:
            raise DamagedData(
                file,
                place=f"line {rows.line_num}",
                expected="CSV",
                found="a quoted field that does not end where it should",
            ) from error
        return found

    def _lines(self, file: Path) -> list[tuple[int, str]]:
        lines = enumerate(self.text(file).split("\n"), start=1)
        return [(number, line.strip()) for number, line in lines if line.strip()]


def _json(file: Path, text: str, line: int) -> Any:
    """The JSON of a text that begins on this line of the file."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line, wrong = line + error.lineno - 1, text[error.pos : error.pos + _EXCERPT]
        found = f"{wrong!r} at character {error.colno}" if wrong.strip() else "the end"
    except (ValueError, RecursionError):  # Python's own bounds on the digits of a number and on nesting
        found = "a number or a nesting longer than can be read"
    raise DamagedData(file, place=f"line {line}", expected="JSON", found=found)
