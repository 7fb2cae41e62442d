"""Canonical JSON and its digest: one byte string a value, on every machine.

Keys are sorted by code point, no white space, UTF-8 without escapes that JSON does not demand, integers exact, floats
in Python's shortest round-trip form. What has no single form is refused: NaN, infinities, lone surrogates, keys that
are no strings, and values that JSON does not know.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from mn_contract.errors import InvalidInput

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_DEPTH_MAX = 200
_SCALARS = frozenset((str, int, float, bool, type(None)))


def encoded(value: Any, field: str = "value") -> bytes:
    """`value` as canonical JSON bytes. Raises InvalidInput naming `field` where it has no canonical form."""
    _check_keys(value, field)
    try:
        return _ENCODER.encode(value).encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{field} holds a lone surrogate, which UTF-8 cannot carry", field=field) from error
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"{field} has no canonical JSON form: {error}", field=field) from error


def digest(value: Any) -> str:
    """SHA-256 as 64 lower-case hex digits: of `value` itself where it is bytes, else of its canonical JSON."""
    data = value if isinstance(value, bytes | bytearray | memoryview) else encoded(value)
    return hashlib.sha256(data).hexdigest()


def _check_keys(value: Any, field: str) -> None:
    # json would turn 1 and "1" into the same key, and recurse without end.
    level = [value]
    for _ in range(_DEPTH_MAX + 2):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                for key in one:
                    if not isinstance(key, str):
                        told = f"{field}: object keys must be strings, not {type(key).__name__}"
                        raise InvalidInput(told, field=field)
                inner += [each for each in one.values() if type(each) not in _SCALARS]
            elif isinstance(one, list | tuple):
                inner += [each for each in one if type(each) not in _SCALARS]
        if not inner:
            return
        level = inner
    raise InvalidInput(f"{field} is nested deeper than {_DEPTH_MAX} levels", field=field)
