"""A bounded memo: what was worked out of a value, kept by the value itself.

Keys are frozen values (`mn_tokens.reading.json_values.frozen`): they hold the very strings of the request, whose hashes
Python keeps, so that looking up a message again costs next to nothing and nobody's change to a message goes unnoticed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

_Value = TypeVar("_Value")

_ENTRIES_MAX: Final = 65_536
_CHARACTERS_MAX: Final = 64 * 1024 * 1024


class Memo(Generic[_Value]):
    """Least recently used first out, by entries and by characters held. Safe to use from several threads."""

    def __init__(self, *, entries_max: int = _ENTRIES_MAX, characters_max: int = _CHARACTERS_MAX) -> None:
        self._entries_max = entries_max
        self._characters_max = characters_max
        self._lock = threading.Lock()
        self._held: OrderedDict[Hashable, tuple[_Value, int]] = OrderedDict()
        self._characters = 0

    def get(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        """What is kept under `key`, else what `make` makes, which is then kept. What it raises is raised."""
        with self._lock:
            known = self._held.get(key)
            if known is not None:
                self._held.move_to_end(key)
                return known[0]
        value = make()
        size = characters(key)
        with self._lock:
            if key not in self._held and size <= self._characters_max:
                self._held[key] = value, size
                self._characters += size
                while len(self._held) > self._entries_max or self._characters > self._characters_max:
                    _, (_, freed) = self._held.popitem(last=False)
                    self._characters -= freed
        return value


def characters(key: Hashable) -> int:
    """How many characters a frozen value holds."""
    if isinstance(key, str):
        return len(key)
    return sum(map(characters, key)) if isinstance(key, tuple) else 1
