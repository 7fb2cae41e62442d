"""Values of data files that others wrote, each with where it stands: the one way in which suites read them.

What is not as a suite needs it is DamagedData, which names the file, the line or record, the field, what was expected
and what to do, never what Python says of it. A value that was read can be recorded: its texts are UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from mn_contract.errors import InvalidInput
from mn_contract.limits import CLAIM_BYTES_MAX, FOCUS_BYTES_MAX, LABEL_BYTES_MAX
from mn_contract.names import check_text, utf8

_Read = TypeVar("_Read")
_ADVICE: Final = "get the file again from where it came, or take it away: absent data is reported and fails nothing"
_TOLD_MAX: Final = 60
"""Characters of what was found that an error tells."""


class DamagedData(InvalidInput):
    """A data file is not of the format that the suite reads: cut short, of another format, or with fields missing."""

    def __init__(self, file: Path, *, place: str = "", path: str = "", expected: str, found: str) -> None:
        where = ", ".join(filter(None, (str(file), place, path)))
        super().__init__(f"{where}: expected {expected}, found {found}; {_ADVICE}", field="data")


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """What stands at a place of a data file. `place` is its line, record or row, from 1 up; `path` leads on from there,
    such as `qa[0].evidence`, list items from 0 up. Whatever reads it raises DamagedData."""

    found: Any
    file: Path
    place: str = ""
    path: str = ""

    def field(self, *names: str) -> Value:
        """The field of an object; of several names, of which formats have one each, the first that is there."""
        fields = self._object()
        for name in names:
            if name in fields:
                return self._field(name)
        told = _shortened(", ".join(map(repr, fields))) or "no fields"
        raise self._field(" or ".join(names)).damage("this field", f"an object with {told}")

    def fields(self) -> dict[str, Value]:
        """All fields of an object by name."""
        for name in (fields := self._object()):
            self._text_of(name, FOCUS_BYTES_MAX, "names of fields in UTF-8")
        return {name: self._field(name) for name in fields}

    def items(self) -> list[Value]:
        """The items of a list. Those of a file's outermost list are its records."""
        if not isinstance(self.found, list):
            raise self.damage("a list")
        if not self.place and not self.path:
            return [Value(found=one, file=self.file, place=f"record {n}") for n, one in enumerate(self.found, start=1)]
        return [self._inner(one, f"{self.path}[{n}]") for n, one in enumerate(self.found)]

    def text(self) -> str:
        """A text, which may be empty."""
        if not isinstance(self.found, str):
            raise self.damage("a text")
        try:
            utf8(self.found, self.path)
        except InvalidInput as error:
            raise self.damage("a text in UTF-8") from error
        return self.found

    def question(self) -> str:
        """A text that a decision can be about."""
        return self._text_of(self.found, FOCUS_BYTES_MAX, f"a question of at most {FOCUS_BYTES_MAX:,} bytes")

    def label(self) -> str:
        """A text that a card can carry as a topic or an entity."""
        return self._text_of(self.found, LABEL_BYTES_MAX, f"a name of 1 to {LABEL_BYTES_MAX} bytes", bytes_min=1)

    def name(self) -> str:
        """A text or whole number that can name what is recorded: a claim, a conversation."""
        found = str(self.found) if _is_whole(self.found) else self.found
        return self._text_of(found, CLAIM_BYTES_MAX, f"an id of 1 to {CLAIM_BYTES_MAX} bytes", bytes_min=1)

    def whole(self) -> int:
        """A whole number."""
        if not _is_whole(self.found):
            raise self.damage("a whole number")
        found: int = self.found
        return found

    def truth(self) -> bool:
        """True or false."""
        if not isinstance(self.found, bool):
            raise self.damage("true or false")
        return self.found

    def one_of(self, known: Mapping[str, _Read], expected: str = "") -> _Read:
        """What a text stands for that is one of those known; `expected` says which these are."""
        if not isinstance(self.found, str) or self.found not in known:
            raise self.damage(expected or f"one of {', '.join(known)}")
        return known[self.found]

    def parsed(self, parse: Callable[[str], _Read], expected: str) -> _Read:
        """What a text says, by a function that raises ValueError where it does not say `expected`."""
        text = self.text()
        try:
            return parse(text)
        except ValueError as error:
            raise self.damage(expected) from error

    def damage(self, expected: str, found: str = "") -> DamagedData:
        """The error for a value that is not as expected; what was found is told by its type where nothing is given."""
        told = found or _told(self.found)
        return DamagedData(self.file, place=self.place, path=self.path, expected=expected, found=told)

    def _object(self) -> dict[str, Any]:
        if not isinstance(self.found, dict):
            raise self.damage("an object")
        return self.found

    def _field(self, name: str) -> Value:
        shown = name if name.isprintable() else repr(name)
        return self._inner(self.found.get(name), f"{self.path}.{shown}" if self.path else shown)

    def _inner(self, found: Any, path: str) -> Value:
        return Value(found=found, file=self.file, place=self.place, path=path)

    def _text_of(self, found: Any, bytes_max: int, expected: str, *, bytes_min: int = 0) -> str:
        try:
            return check_text(found, self.path, bytes_max, bytes_min=bytes_min)
        except InvalidInput as error:
            raise self.damage(expected) from error


def _is_whole(found: Any) -> bool:
    return isinstance(found, int) and not isinstance(found, bool)


def _told(found: Any) -> str:
    if found is None:
        return "nothing"
    if isinstance(found, dict):
        return "an object"
    if isinstance(found, list):
        return f"a list of {len(found)}"
    if isinstance(found, str):
        return f"the text {_shortened(repr(found))}" if found else "an empty text"
    if isinstance(found, bool):
        return str(found).lower()
    return f"the number {_shortened(str(found))}"


def _shortened(text: str) -> str:
    return text if len(text) <= _TOLD_MAX else f"{text[:_TOLD_MAX]}..."
