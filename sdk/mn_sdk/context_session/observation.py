"""What a caller observes, read into the wire's cards: checked here, so that an error names the caller's argument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from mn.context.working.v1 import artifact_pb2, card_pb2
from mn_contract.canonical import encoded
from mn_contract.errors import InvalidInput
from mn_contract.names import check_claim, check_id, check_sha256, parse_ref

KINDS: Final[dict[str, Any]] = {
    name.removeprefix("CARD_KIND_").lower(): number for name, number in card_pb2.CardKind.items() if number
}
STANCES: Final[dict[str, Any]] = {
    name.removeprefix("STANCE_").lower(): number for name, number in card_pb2.Stance.items() if number
}
TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
RESPONSE_NAMES: Final = "@response/"
"""How the names of written-back responses begin. An observation under such a name would keep a paid response out of the
record."""
_ACL_LISTS: Final = ("allow_principals", "allow_roles", "deny_principals", "deny_roles")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A record on its way in: its bytes, and a card with all that its pieces share.

    `ending` are (type, reference) of relations that take effect once (`supersedes`, `resolves`): each is carried by one
    piece. `linking` are those that hold for every piece (`contradicts` and the caller's own types).
    """

    data: bytes
    media_type: str
    card: card_pb2.Card
    summary: str = ""
    ending: tuple[tuple[str, str], ...] = ()
    linking: tuple[tuple[str, str], ...] = ()
    acl: artifact_pb2.Acl | None = field(default=None)


def read_record(record: Any) -> tuple[bytes, str]:
    """(UTF-8 bytes, media type) of a text, bytes or a JSON value. Raises InvalidInput."""
    if isinstance(record, str):
        data, media_type = _utf8(record), TEXT
    elif isinstance(record, bytes | bytearray):
        data, media_type = bytes(record), TEXT
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidInput(
                "a record of bytes must be UTF-8 text; put other bytes with put_artifact and observe what they say",
                field="record",
            ) from error
    else:
        data, media_type = encoded(record), JSON
    if not data:
        raise InvalidInput("a record says something: it is empty", field="record")
    return data, media_type


def read_event_id(event_id: str) -> str:
    """A caller's name for a record. Raises InvalidInput."""
    if check_id(event_id, "event_id").startswith(RESPONSE_NAMES):
        raise InvalidInput(
            f"event_id must not begin with {RESPONSE_NAMES}: responses are written back under such names",
            field="event_id",
        )
    return event_id


def read_kind(kind: str, *, obligation: bool) -> Any:
    """The wire's number of a kind. Raises InvalidInput."""
    named = "obligation" if obligation else kind
    if named not in KINDS:
        raise InvalidInput(f"kind must be one of {', '.join(KINDS)}", field="kind")
    return KINDS[named]


def read_stance(stance: str | None, field: str) -> Any:
    """The wire's number of a stance; none is neutral. Raises InvalidInput."""
    if stance is None:
        return STANCES["neutral"]
    if stance not in STANCES:
        raise InvalidInput(f"{field} must be one of {', '.join(STANCES)}", field=field)
    return STANCES[stance]


def read_claims(claims: Mapping[str, str] | None, claim: str | None, stance: str | None) -> list[card_pb2.Claim]:
    """Claims and where the record stands on them. `claim` with `stance` is short for one. Raises InvalidInput."""
    given = dict(claims or {})
    if claim is not None:
        if stance is None:
            raise InvalidInput("claim needs a stance: supports, opposes, mixed or neutral", field="stance")
        if given.get(claim, stance) != stance:
            raise InvalidInput("claim and claims disagree", field="claims")
        given[claim] = stance
    return [
        card_pb2.Claim(claim=check_claim(name, "claims"), stance=read_stance(said, "claims"))
        for name, said in given.items()
    ]


def read_sources(sources: Iterable[Any]) -> list[artifact_pb2.SourceRange]:
    """(artifact or its sha256, start, end) as ranges. Raises InvalidInput."""
    found = []
    for source in sources:
        try:
            artifact, start, end = source
            sha256 = getattr(artifact, "sha256", artifact)
            found.append(
                artifact_pb2.SourceRange(artifact_sha256=check_sha256(sha256, "sources"), start=start, end=end)
            )
        except (TypeError, ValueError) as error:
            raise InvalidInput("a source is (artifact, start, end)", field="sources") from error
    return found


def read_refs(refs: Any, field: str) -> tuple[str, ...]:
    """References of cards or records. Raises InvalidInput."""
    if isinstance(refs, str):
        refs = (refs,)
    found = tuple(refs)
    for ref in found:
        parse_ref(ref, field)
    return found


def read_acl(acl: Any) -> artifact_pb2.Acl | None:
    """An ACL from its four lists by name. Raises InvalidInput."""
    if acl is None or isinstance(acl, artifact_pb2.Acl):
        return acl
    if not isinstance(acl, Mapping) or not set(acl) <= set(_ACL_LISTS):
        raise InvalidInput(f"acl is an object with lists {', '.join(_ACL_LISTS)}", field="acl")
    try:
        return artifact_pb2.Acl(**{name: list(entries) for name, entries in acl.items()})
    except (TypeError, ValueError) as error:
        raise InvalidInput("acl's lists hold ids", field="acl") from error


def read_time(when: Any, field: str) -> Timestamp | None:
    """A time with its zone: RFC 3339, or a datetime that knows its zone. Raises InvalidInput."""
    if when is None:
        return None
    try:
        moment = datetime.fromisoformat(when) if isinstance(when, str) else when
        if moment.tzinfo is None:
            raise InvalidInput(f"{field} has no zone: write Z or an offset such as +02:00", field=field)
        stamp = Timestamp()
        stamp.FromDatetime(moment)
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidInput(f"{field} must be an RFC 3339 time such as 2026-01-02T03:04:05Z", field=field) from error
    return stamp


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInput("record holds a lone surrogate, which UTF-8 cannot carry", field="record") from error
