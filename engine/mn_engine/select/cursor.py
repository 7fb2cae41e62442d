"""Continuation cursors: opaque, the same on every machine, good only for the request, the run and the principal they
were given to.

A cursor carries no secret and grants nothing: whatever it says, the answer is computed for its bearer's own scope. Its
check binds it, so that one that was altered or belongs to somebody else is refused instead of misread.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from mn_contract.canonical import digest, encoded
from mn_contract.errors import InvalidInput
from mn_contract.limits import CANDIDATES_MAX, CURSOR_BYTES_MAX, PACKET_ITEMS_MAX
from mn_engine.domain.scope import Scope
from mn_engine.recall.segments import CARDS_MAX
from mn_engine.select.room import Room

SKIPPED_MAX: Final = 2500
"""Cards that a position can remember as passed over: at most 9 KiB as runs of varints, below 16 M cards."""
AHEAD_MAX: Final = PACKET_ITEMS_MAX
assert SKIPPED_MAX > CANDIDATES_MAX, "a page passes over no more than it considers"
_CHECK_BYTES: Final = 16
_VARINT_BYTES_MAX: Final = 9
_PREFIX: Final = "mnc2."
_HEAD: Final = 5
"""Numbers before the runs."""
_WRONG: Final = "the cursor is not one that this request and principal were given; begin without one"


_NO_ROOM: Final = Room(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far the pages so far have come, in a ranking whose first card is 0.

    Cards below `end` were served, but for `skipped` (ascending) and those that did not fit `room`, the most bytes and
    the most tokens that any page had for optional cards. From `end` on only `ahead` (ascending) was served.
    """

    end: int
    skipped: tuple[int, ...] = ()
    ahead: tuple[int, ...] = ()
    room: Room = _NO_ROOM


START: Final = Position(end=0)


def encode_cursor(position: Position, *, revision: int, request_digest: str, scope: Scope) -> str:
    """The cursor for `position`, bound to the request and the scope."""
    ahead = list(_runs(position.ahead))
    numbers = [
        revision,
        position.end,
        position.room.bytes,
        position.room.tokens,
        len(ahead),
        *ahead,
        *_runs(position.skipped),
    ]
    payload = b"".join(_varint(number) for number in numbers)
    text = _PREFIX + _base64(_check(payload, request_digest, scope) + payload)
    assert len(text) <= CURSOR_BYTES_MAX, "SKIPPED_MAX keeps cursors below this"
    return text


def decode_cursor(text: str, *, request_digest: str, scope: Scope) -> tuple[Position, int]:
    """(position, revision) of a cursor. Raises InvalidInput where it is not one, was altered, or is for something
    else."""
    numbers = list(_varints(_raw(text, _PREFIX)[_CHECK_BYTES:]))
    if len(numbers) < _HEAD:
        raise InvalidInput(_WRONG, field="cursor")
    revision, end, room_bytes, room_tokens, split = numbers[:_HEAD]
    ahead, skipped = numbers[_HEAD : _HEAD + split], numbers[_HEAD + split :]
    position = Position(
        end=end,
        skipped=_places(skipped, SKIPPED_MAX, end),
        ahead=_places(ahead, AHEAD_MAX, CARDS_MAX),
        room=Room(room_bytes, room_tokens),
    )
    if encode_cursor(position, revision=revision, request_digest=request_digest, scope=scope) != text:
        raise InvalidInput(_WRONG, field="cursor")  # its check is wrong, or it is another spelling of a position
    return position, revision


def _raw(text: str, prefix: str) -> bytes:
    body = text.removeprefix(prefix)
    if len(text) > CURSOR_BYTES_MAX or body == text or not text.isascii():
        raise InvalidInput(_WRONG, field="cursor")
    try:
        return base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise InvalidInput(_WRONG, field="cursor") from error


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def seal(document: Any, *, prefix: str, scope: Scope) -> str:
    """A cursor that carries a JSON document of its own, bound to the scope."""
    payload = encoded(document)
    text = prefix + _base64(_check(payload, prefix, scope) + payload)
    assert len(text) <= CURSOR_BYTES_MAX, "what a query may say fits a cursor"
    return text


def unseal(text: str, *, prefix: str, scope: Scope) -> Any:
    """The document that a cursor carries. Raises InvalidInput where it is not one, was altered, or is somebody
    else's."""
    raw = _raw(text, prefix)
    payload = raw[_CHECK_BYTES:]
    if raw[:_CHECK_BYTES] != _check(payload, prefix, scope) or prefix + _base64(raw) != text:
        raise InvalidInput(_WRONG, field="cursor")
    return json.loads(payload)


def _check(payload: bytes, request_digest: str, scope: Scope) -> bytes:
    bound = [request_digest, scope.job_id, scope.run_id, scope.principal, sorted(scope.roles), payload.hex()]
    return bytes.fromhex(digest(bound))[:_CHECK_BYTES]


def _runs(places: tuple[int, ...]) -> Iterator[int]:
    """Ascending places as (gap before the run, its length), by turns."""
    at = 0
    while at < len(places):
        length = 1
        while at + length < len(places) and places[at + length] == places[at] + length:
            length += 1
        yield places[at] - (places[at - 1] + 1 if at else 0)
        yield length
        at += length


def _places(runs: list[int], most: int, end: int) -> tuple[int, ...]:
    """The inverse of _runs. Raises InvalidInput where they are more than `most` or go past `end`."""
    if len(runs) % 2:
        raise InvalidInput(_WRONG, field="cursor")
    places: list[int] = []
    at = 0
    for gap, length in zip(runs[::2], runs[1::2], strict=True):
        at += gap
        if len(places) + length > most or at + length > end:
            raise InvalidInput(_WRONG, field="cursor")
        places.extend(range(at, at + length))
        at += length
    return tuple(places)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _varints(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        if shift >= 7 * _VARINT_BYTES_MAX:
            raise InvalidInput(_WRONG, field="cursor")
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            yield number
            number = shift = 0
    if shift:
        raise InvalidInput(_WRONG, field="cursor")
