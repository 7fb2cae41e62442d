"""Times are whole microseconds since 1970 in UTC; on faces RFC 3339. No clock is read here."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from mn_contract.errors import InvalidInput

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROS_MIN: Final = -62_135_596_800_000_000
MICROS_MAX: Final = 253_402_300_799_999_999
"""Years 1 to 9999, as protobuf's Timestamp."""


def check_micros(value: int | None, field: str) -> int | None:
    """`value` where it lies in years 1 to 9999. Raises InvalidInput naming `field`."""
    if value is not None and not MICROS_MIN <= value <= MICROS_MAX:
        raise InvalidInput(f"{field} must lie in years 1 to 9999", field=field)
    return value


def format_rfc3339(micros: int) -> str:
    """`micros` as RFC 3339 in UTC, with as many fraction digits as it needs: 0, 3 or 6."""
    when = _EPOCH + timedelta(microseconds=micros)
    fraction = micros % 1_000_000
    precision = "seconds" if fraction == 0 else "milliseconds" if fraction % 1000 == 0 else "microseconds"
    return when.isoformat(timespec=precision).replace("+00:00", "Z")


def parse_rfc3339(text: str, field: str) -> int:
    """Microseconds of an RFC 3339 time. A time without a zone is refused: InvalidInput naming `field`."""
    try:
        when = datetime.fromisoformat(text)
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"{field} must be an RFC 3339 time such as 2026-01-02T03:04:05Z", field=field) from error
    if when.tzinfo is None:
        raise InvalidInput(f"{field} has no zone: write Z or an offset such as +02:00", field=field)
    return (when - _EPOCH) // timedelta(microseconds=1)
