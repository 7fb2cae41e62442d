"""Ledger lines and what they add up to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mn_tokens.rules import Line
from mn_tokens.values import Kind, Part


@dataclass(frozen=True, slots=True)
class Sum:
    """Parts, their tokens by kind, what may be billed beyond them, and which of them no rule knows all of."""

    parts: tuple[Part, ...]
    spent: tuple[tuple[Kind, int], ...]
    beyond: int
    doubted: tuple[str, ...]


def summed(parts: Iterable[Part]) -> Sum:
    """The sum of some parts."""
    held = tuple(parts)
    spent: dict[Kind, int] = {}
    for part in held:
        spent[part.kind] = spent.get(part.kind, 0) + part.tokens
    return Sum(
        held,
        tuple(spent.items()),
        sum(part.beyond for part in held),
        tuple(part.part for part in held if not part.certain),
    )


class Group:
    """What was counted of a group of items. Its ledger is kept for where it stands: in a history that grows, a group
    stays in its place."""

    __slots__ = ("_items", "_lines", "_placed")

    def __init__(self, lines: Iterable[Line], items: str) -> None:
        self._lines = tuple(lines)
        self._items = items
        self._placed: tuple[int, Sum] = (-1, summed(()))

    def at(self, start: int) -> Sum:
        """The sum of the group where its first item is item `start` of a request."""
        place, placed = self._placed
        if place != start:
            placed = summed(_part(line, self._items, start) for line in self._lines)
            self._placed = (start, placed)
        return placed


def _part(line: Line, items: str, start: int) -> Part:
    first, last = start + line.start, start + line.end
    place = f"{items}[{first}]" if last == first + 1 else f"{items}[{first}:{last}]"
    path = f"{place}.{line.path}" if line.path else place
    return Part(path, line.tokens, line.kind, line.fields, line.beyond, line.certain)
