"""What callers hand in, read into plain values: each reader raises one InvalidInput that names the argument.

Lists of names are read by `mn_contract.names.read_names`.
"""

from __future__ import annotations

import math
import os
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from mn_contract.errors import InvalidInput
from mn_contract.names import check_text

WHOLE_MAX: Final = (1 << 63) - 1
"""Whole numbers are kept as signed 64-bit integers, in the record and in the journal."""


def read_whole(value: object, field: str, least: int = 0, most: int = WHOLE_MAX) -> int:
    """A whole number, `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput(f"{field} must be a whole number, {least} to {most}", field=field)
    return value


def read_number(value: object, field: str, least: float = -math.inf, most: float = math.inf) -> float:
    """A finite number, `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{field} must be a number, not {type(value).__name__}", field=field)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or not least <= number <= most:
        within = "" if math.isinf(least) else f", {least:g} to {most:g}"
        raise InvalidInput(f"{field} must be a finite number{within}", field=field)
    return number


def read_flag(value: object, field: str) -> bool:
    """True or False. A text such as "no" is neither."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{field} must be True or False, not {type(value).__name__}", field=field)
    return value


def read_text(value: str | None, field: str, bytes_max: int) -> str:
    """A text of at most so many UTF-8 bytes; None is the empty text."""
    return "" if value is None else check_text(value, field, bytes_max)


def read_folder(value: object, field: str) -> Path:
    """A folder's path; see read_path."""
    return read_path(value, field, "a folder")


def read_path(value: object, field: str, what: str) -> Path:
    """The path of `what`; it need not be there. The empty path is refused: it would be the working folder."""
    if not isinstance(value, str | Path) or not str(value):
        raise InvalidInput(f"{field} must be the path of {what}", field=field)
    try:
        usable = b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        usable = False
    if not usable:
        raise InvalidInput(f"{field} holds a character that no path can have", field=field)
    return Path(value)


def read_time(when: Any, field: str) -> Timestamp | None:
    """A time with its zone: RFC 3339, or a datetime that knows its zone. Raises InvalidInput."""
    if when is None:
        return None
    try:
        moment = datetime.fromisoformat(when) if isinstance(when, str) else when
        if moment.utcoffset() is None:
            raise InvalidInput(f"{field} has no zone: write Z or an offset such as +02:00", field=field)
        stamp = Timestamp()
        stamp.FromDatetime(moment)
    except (ValueError, AttributeError, TypeError, OverflowError) as error:
        raise InvalidInput(f"{field} must be an RFC 3339 time such as 2026-01-02T03:04:05Z", field=field) from error
    return stamp
