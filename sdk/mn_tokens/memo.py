"""A bounded memo: what was worked out of a value, kept by the value itself.

Keys are frozen values (`mn_tokens.reading.json_values.frozen`): they hold the very strings of the request, whose hashes
Python keeps, so that looking up a message again costs next to nothing and nobody's change to a message goes unnoticed.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

_Value = TypeVar("_Value")

_ENTRIES_MAX: Final = 65_536
_CHARACTERS_MAX: Final = 16 * 1024 * 1024


class Memo(Generic[_Value]):
    """First in, first out, by entries and by characters held. Safe to use from several threads."""

    def __init__(self, *, entries_max: int = _ENTRIES_MAX, characters_max: int = _CHARACTERS_MAX) -> None:
        self._entries_max = entries_max
        self._characters_max = characters_max
        self._lock = threading.Lock()
        self._held: dict[Hashable, _Value] = {}
        self._characters = 0

    def find(self, key: Hashable) -> _Value | None:
        """What is kept under `key`."""
        return self._held.get(key)

    def keep(self, key: Hashable, value: _Value) -> _Value:
        """Keeps a value, if it is not too large, and answers it."""
        size = characters(key)
        with self._lock:
            if key not in self._held and size <= self._characters_max:
                self._held[key] = value
                self._characters += size
                while len(self._held) > self._entries_max or self._characters > self._characters_max:
                    first = next(iter(self._held))
                    del self._held[first]
                    self._characters -= characters(first)
        return value

    def __len__(self) -> int:
        return len(self._held)


def characters(key: Hashable) -> int:
    """How many characters a frozen value holds; anything but text is one."""
    if isinstance(key, str):
        return len(key)
    return sum(map(characters, key)) if isinstance(key, tuple) else 1
