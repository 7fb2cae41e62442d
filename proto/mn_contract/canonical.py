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


def encoded(value: Any, field: str = "value") -> bytes:
    """`value` as canonical JSON bytes. Raises InvalidInput naming `field` where it has no canonical form."""
    _check_keys(value, field, 0)
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


def _check_keys(value: Any, field: str, depth: int) -> None:
    # json would turn 1 and "1" into the same key, and recurse without end.
    if depth > _DEPTH_MAX:
        raise InvalidInput(f"{field} is nested deeper than {_DEPTH_MAX} levels", field=field)
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise InvalidInput(f"{field}: object keys must be strings, not {type(key).__name__}", field=field)
            if isinstance(inner, dict | list | tuple):
                _check_keys(inner, field, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            if isinstance(inner, dict | list | tuple):
                _check_keys(inner, field, depth + 1)
