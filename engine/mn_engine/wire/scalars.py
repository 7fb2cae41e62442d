"""Enums, times and ACLs between protobuf and the domain."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from mn.context.working.v1 import artifact_pb2
from mn_contract.errors import InvalidInput
from mn_engine.domain.access import OPEN, Acl
from mn_engine.domain.times import check_micros

E = TypeVar("E", bound=IntEnum)


def decode_enum(enum: type[E], number: int, field: str, *, default: E | None = None) -> E:
    """The member of `enum` with this number; 0 is `default`. Raises InvalidInput for others: protobuf lets them
    pass."""
    if number == 0 and default is not None:
        return default
    try:
        return enum(number)
    except ValueError as error:
        names = ", ".join(member.name for member in enum)
        raise InvalidInput(f"{field} must be one of {names}, not {number}", field=field) from error


def decode_time(message: Message, name: str, field: str) -> int | None:
    """Microseconds of the timestamp in field `name`; None where it is unset. Finer digits are refused, not rounded."""
    if not message.HasField(name):
        return None
    stamp: Timestamp = getattr(message, name)
    if not 0 <= stamp.nanos < 1_000_000_000 or stamp.nanos % 1000:
        raise InvalidInput(f"{field} has microseconds at the finest", field=field)
    return check_micros(stamp.seconds * 1_000_000 + stamp.nanos // 1000, field)


def encode_time(micros: int) -> Timestamp:
    """The timestamp of `micros`."""
    seconds, nanos = split_time(micros)
    return Timestamp(seconds=seconds, nanos=nanos)


def split_time(micros: int) -> tuple[int, int]:
    """(seconds, nanoseconds) of a timestamp."""
    return micros // 1_000_000, micros % 1_000_000 * 1000


def decode_acl(message: Message, name: str) -> Acl:
    """The ACL in field `name`; open where it is unset."""
    if not message.HasField(name):
        return OPEN
    acl: artifact_pb2.Acl = getattr(message, name)
    return Acl(
        allow_principals=frozenset(acl.allow_principals),
        allow_roles=frozenset(acl.allow_roles),
        deny_principals=frozenset(acl.deny_principals),
        deny_roles=frozenset(acl.deny_roles),
        require_roles=frozenset(acl.require_roles),
    )


def encode_acl(acl: Acl) -> artifact_pb2.Acl:
    """The ACL's message, its lists sorted."""
    return artifact_pb2.Acl(
        allow_principals=sorted(acl.allow_principals),
        allow_roles=sorted(acl.allow_roles),
        deny_principals=sorted(acl.deny_principals),
        deny_roles=sorted(acl.deny_roles),
        require_roles=sorted(acl.require_roles),
    )


def decode_optional(message: Message, name: str) -> float | None:
    """The value of an optional scalar field; None where it is unset."""
    return getattr(message, name) if message.HasField(name) else None


def decode_optional_int(message: Message, name: str) -> int | None:
    """The value of an optional integer field; None where it is unset."""
    return int(getattr(message, name)) if message.HasField(name) else None
