"""JSON values as readers take them: frozen for the memo, as text for counting; what is no JSON is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

from mn_contract.errors import InvalidInput

_DEPTH_MAX: Final = 200
"""As deep as the contract's canonical JSON goes."""


def frozen(value: Any, field: str, depth: int = 0) -> Hashable:
    """A JSON value as nested tuples: equal where the values are, keys in the same order and types the same.

    Raises InvalidInput naming `field` for what is no JSON: other types, keys that are no text, NaN, infinities, more
    than 200 levels.
    """
    if type(value) is str:
        return value
    if isinstance(value, dict):
        _check_depth(depth, field)
        flat: list[Hashable] = [_OBJECT]
        for key, inner in value.items():
            if type(key) is not str:
                raise _refused(f"has a key that is no text but a {type(key).__name__}", field)
            flat.append(key)
            flat.append(inner if type(inner) is str else frozen(inner, field, depth + 1))
        return tuple(flat)
    if value is None:
        return None
    if isinstance(value, list | tuple):
        _check_depth(depth, field)
        return (_LIST, *[frozen(inner, field, depth + 1) for inner in value])
    if isinstance(value, bool | int):
        return (type(value), value)
    if isinstance(value, float) and math.isfinite(value):
        return (float, repr(value))  # as it is written: 0.0 and -0.0 are equal, and not the same text
    raise _refused(f"holds a {type(value).__name__} that JSON does not know", field)


def plain_json(value: Any, field: str, depth: int = 0) -> Any:
    """A copy of its own, which nobody else changes: objects and lists anew, texts and whole numbers in Python's own
    types (an Enum as its value). What is no JSON stays as it is, for `frozen` to refuse. Raises InvalidInput, naming
    `field`, for more than 200 levels."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, dict):
        _check_depth(depth, field)
        return {
            str.__str__(key) if isinstance(key, str) else key: plain_json(inner, field, depth + 1)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        _check_depth(depth, field)
        return [plain_json(inner, field, depth + 1) for inner in value]
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def frozen_group(items: Sequence[Mapping[str, Any]], field: str) -> Hashable:
    """`frozen`, for some items of a request. Most are texts by name, and as good as frozen: keys that are no text are
    found when the item is read."""
    if len(items) == 1:
        item = items[0]
        if _TEXT.issuperset(map(type, item.values())):
            return (*item, *item.values())
    return frozen(items, field)


_TEXT: Final = frozenset({str})
_OBJECT: Final = frozenset({"{}"})
_LIST: Final = frozenset({"[]"})
"""Marks that no JSON value is equal to."""


def _check_depth(depth: int, field: str) -> None:
    if depth > _DEPTH_MAX:
        raise _refused(f"is nested deeper than {_DEPTH_MAX} levels", field)


def _refused(what: str, field: str) -> InvalidInput:
    return InvalidInput(f"{field} {what}".strip(), field=field)


def as_text(value: Any) -> str:
    """A value as the text that it is counted as: a text itself, else its compact JSON in its own order."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def is_list(value: Any) -> bool:
    """Whether it is a JSON list."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def mapping(value: Any, field: str, what: str = "an object") -> Mapping[str, Any]:
    """An object. Raises InvalidInput for anything else."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{field} must be {what}", field=field)
    return value


def word(holder: Mapping[str, Any], key: str, field: str) -> str | None:
    """What a key such as `type` says. Raises InvalidInput for what is neither text nor left out."""
    value = holder.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"{field}.{key} must be text", field=f"{field}.{key}")
    return value


def listed(value: Any, field: str) -> Sequence[Any]:
    """A list; nothing is an empty one. Raises InvalidInput for anything else."""
    if value is None:
        return ()
    if not is_list(value):
        raise InvalidInput(f"{field} must be a list", field=field)
    return value  # type: ignore[no-any-return]  # a Sequence, as was asked


def text(value: Any, field: str) -> str:
    """A text. Raises InvalidInput for anything else."""
    if not isinstance(value, str):
        raise InvalidInput(f"{field} must be text", field=field)
    return value
