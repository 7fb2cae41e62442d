"""What a caller observes, read into the wire's cards: checked here, so that an error names the caller's argument."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mn.context.working.v1 import artifact_pb2, card_pb2
from mn_contract.canonical import encoded
from mn_contract.errors import InvalidInput
from mn_contract.limits import CARD_LIST_MAX, EVENT_RESOLVES_MAX, ROLES_MAX
from mn_contract.names import check_claim, check_id, check_sha256, parse_ref, read_names, utf8
from mn_sdk.arguments import read_flag, read_whole

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
_ALLOW: Final = ("allow_principals", "allow_roles")
_ACL_LISTS: Final = (*_ALLOW, "deny_principals", "deny_roles", "require_roles")


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
        data, media_type = utf8(record, "record"), TEXT
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
        data, media_type = encoded(record, "record"), JSON
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
    return _number(KINDS, "obligation" if read_flag(obligation, "obligation") else kind, "kind")


def read_stance(stance: str | None, field: str) -> Any:
    """The wire's number of a stance; none is neutral. Raises InvalidInput."""
    return _number(STANCES, "neutral" if stance is None else stance, field)


def read_claims(claims: Mapping[str, str] | None, claim: str | None, stance: str | None) -> list[card_pb2.Claim]:
    """Claims and where the record stands on them. `claim` with `stance` is short for one. Raises InvalidInput."""
    if claims is not None and not isinstance(claims, Mapping):
        raise InvalidInput("claims is an object from a claim to where the record stands on it", field="claims")
    given = dict(claims or {})
    if claim is not None:
        if stance is None:
            raise InvalidInput("claim needs a stance: supports, opposes, mixed or neutral", field="stance")
        if given.get(check_claim(claim, "claim"), stance) != stance:
            raise InvalidInput("claim and claims disagree", field="claims")
        given[claim] = stance
    return [
        card_pb2.Claim(claim=check_claim(name, "claims"), stance=_number(STANCES, said, "claims"))
        for name, said in given.items()
    ]


def read_sources(sources: Iterable[Any]) -> list[artifact_pb2.SourceRange]:
    """(artifact or its sha256, start, end) as ranges. Raises InvalidInput."""
    found = []
    for artifact, start, end in _tuples(sources, 3, "sources", "(artifact, start, end)"):
        sha256 = check_sha256(getattr(artifact, "sha256", artifact), "sources")
        first = read_whole(start, "sources")
        found.append(
            artifact_pb2.SourceRange(artifact_sha256=sha256, start=first, end=read_whole(end, "sources", first + 1))
        )
    return found


def read_refs(refs: Any, field: str) -> tuple[str, ...]:
    """References of cards or records. Raises InvalidInput."""
    return read_names(refs, field, parse_ref, EVENT_RESOLVES_MAX)


def read_relations(relations: Iterable[Any]) -> tuple[tuple[str, str], ...]:
    """The caller's own relations, as (type, reference). Raises InvalidInput."""
    found = []
    for type_, ref in _tuples(relations, 2, "relations", "(type, reference)"):
        parse_ref(ref, "relations")
        found.append((check_id(type_, "relations"), ref))
    return tuple(found)


def read_acl(acl: Any) -> artifact_pb2.Acl | None:
    """An ACL from its lists by name. Raises InvalidInput, also for lists that allow nobody: on the wire an empty
    list is none, and none lets everybody read."""
    if acl is None or isinstance(acl, artifact_pb2.Acl):
        return acl
    if not isinstance(acl, Mapping) or not set(acl) <= set(_ACL_LISTS):
        raise InvalidInput(f"acl is an object with lists {', '.join(_ACL_LISTS)}", field="acl")
    lists = {name: read_names(entries, f"acl.{name}", check_id, ROLES_MAX) for name, entries in acl.items()}
    allowing = [name for name in _ALLOW if name in lists]
    if allowing and not any(lists[name] for name in allowing):
        raise InvalidInput(
            f"acl.{allowing[0]} is empty: name yourself where only you may read, or leave it out where everybody may",
            field=f"acl.{allowing[0]}",
        )
    return artifact_pb2.Acl(**lists)


def _number(numbers: Mapping[str, Any], word: object, field: str) -> Any:
    if not isinstance(word, str) or word not in numbers:
        raise InvalidInput(f"{field} must be one of {', '.join(numbers)}", field=field)
    return numbers[word]


def _tuples(values: Iterable[Any], length: int, field: str, form: str) -> Iterator[Sequence[Any]]:
    """Each of `values`, where it is a list or tuple of this length: a text would fall into its letters."""
    if not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping):
        raise InvalidInput(f"{field} must be a list of {form}", field=field)
    for number, value in enumerate(values):
        if number == CARD_LIST_MAX:
            raise InvalidInput(f"{field}: at most {CARD_LIST_MAX}", field=field)
        if not isinstance(value, list | tuple) or len(value) != length:
            raise InvalidInput(f"{field} must be a list of {form}", field=field)
        yield value
