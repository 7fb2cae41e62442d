"""Through the items of a request, in groups that are read by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mn_contract.errors import InvalidInput
from mn_tokens.reading.json_values import frozen, listed
from mn_tokens.reading.shape import Item, Shape
from mn_tokens.request import Message


def items_of(request: Mapping[str, Any], shape: Shape) -> Sequence[Item]:
    """The items of a request, at least one. Raises InvalidInput."""
    given = request.get(shape.items) if isinstance(request, Mapping) else None
    if shape.said is not None and isinstance(given, str | dict):
        given = [shape.said(given) if isinstance(given, str) else given]
    items = listed(given, shape.items)
    if not items:
        raise InvalidInput(f"a request has a list of {shape.items}", field=shape.items)
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise InvalidInput(f"{shape.items}[{index}] must be an object", field=f"{shape.items}[{index}]")
    return items


def groups_of(items: Sequence[Item], shape: Shape) -> Iterator[tuple[int, Sequence[Item]]]:
    """(where it begins, its items) of each group."""
    start, opens, before = 0, shape.opens, items[0]
    for index, item in enumerate(items):
        if index and opens(item, before):
            yield start, items[start:index]
            start = index
        before = item
    yield start, items[start:]


def read_group(group: Sequence[Item], start: int, shape: Shape) -> list[Message]:
    """The messages of a group that begins at item `start`. Raises InvalidInput, whose `field` is a path."""
    messages = []
    names: Mapping[str, str] | None = None
    for index, item in enumerate(group):
        place = f"{shape.items}[{start + index}]"
        try:
            frozen(item, "")
            names = shape.names(group) if names is None else names
            messages.append(shape.read(item, names))
        except InvalidInput as error:
            field = f"{place}.{error.field}" if error.field else place
            raise InvalidInput(f"{place}: {error.message}", field=field) from error
    return messages
