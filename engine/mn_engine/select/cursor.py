"""Continuation cursors: opaque, the same on every machine, good only for the request, the run and the principal they
were given to.

A cursor carries no secret and grants nothing: whatever it says, the answer is computed for its bearer's own scope. Its
check binds it, so that one that was altered or belongs to somebody else is refused instead of misread.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mn_contract.canonical import digest
from mn_contract.errors import InvalidInput
from mn_contract.limits import CURSOR_BYTES_MAX
from mn_engine.domain.scope import Scope

_CHECK_BYTES: Final = 16
_PREFIX: Final = "mnc1."


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a page begins in an order, and which later places were served already (ascending)."""

    start: int
    served: tuple[int, ...] = ()


START: Final = Position(start=0)


def encode_cursor(position: Position, *, revision: int, request_digest: str, scope: Scope) -> str:
    """The cursor for `position`, bound to the request and the scope."""
    bits = _bits(place - position.start for place in position.served)
    payload = b"".join(_varint(number) for number in (revision, position.start)) + bits
    check = _check(payload, request_digest, scope)
    return _PREFIX + base64.urlsafe_b64encode(check + payload).rstrip(b"=").decode("ascii")


def decode_cursor(text: str, *, request_digest: str, scope: Scope) -> tuple[Position, int]:
    """(position, revision) of a cursor. Raises InvalidInput where it is not one, was altered, or is for something
    else."""
    wrong = InvalidInput(
        "the cursor is not one that this request and principal were given; begin without one", field="cursor"
    )
    if len(text) > CURSOR_BYTES_MAX or not text.startswith(_PREFIX) or not text.isascii():
        raise wrong
    body = text.removeprefix(_PREFIX)
    try:
        raw = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise wrong from error
    check, payload = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
    if check != _check(payload, request_digest, scope):
        raise wrong
    revision, rest = _read_varint(payload)
    start, bits = _read_varint(rest)
    served = tuple(start + place for place in _places(bits))
    return Position(start=start, served=served), revision


def _check(payload: bytes, request_digest: str, scope: Scope) -> bytes:
    bound = [request_digest, scope.job_id, scope.run_id, scope.principal, sorted(scope.roles), payload.hex()]
    return bytes.fromhex(digest(bound))[:_CHECK_BYTES]


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(data: bytes) -> tuple[int, bytes]:
    number = 0
    for at, byte in enumerate(data):
        number |= (byte & 0x7F) << 7 * at
        if not byte & 0x80:
            return number, data[at + 1 :]
    return number, b""


def _bits(places: Iterable[int]) -> bytes:
    mask = 0
    for place in places:
        mask |= 1 << place
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def _places(bits: bytes) -> list[int]:
    mask = int.from_bytes(bits, "little")
    return [place for place in range(mask.bit_length()) if mask >> place & 1]
