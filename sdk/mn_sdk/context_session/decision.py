"""What a turn decides, as the caller names it, and as the engine is asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from mn.context.working.v1 import packet_pb2
from mn_contract.limits import DECISION_LIST_MAX, FOCUS_BYTES_MAX, REQUIRED_NAMED_MAX
from mn_contract.names import check_claim, check_id, check_label, check_text, parse_ref, read_names
from mn_sdk.arguments import read_flag, read_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Turning:
    """One turn's decision. `required_fields` None protects every key of the caller's object."""

    name: str
    focus: str = ""
    topics: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    required_refs: tuple[str, ...] = ()
    required_fields: tuple[str, ...] | None = None
    final: bool = False
    retry: str = ""
    rotation: str = ""
    """The durable cursor that its rotation goes by; empty for none."""
    as_of: Timestamp | None = None
    """Where set, what held at this time is recalled."""
    recall: bool = True
    """Whether records are recalled for it; without, the request stays as the caller wrote it."""
    write_back: bool = True
    """Whether the response becomes a record."""

    def identity(self) -> dict[str, Any]:
        """What of it belongs to the call's fingerprint."""
        return {
            "focus": self.focus,
            "topics": sorted(self.topics),
            "claims": sorted(self.claims),
            "required_refs": list(self.required_refs),
            "required_fields": None if self.required_fields is None else sorted(self.required_fields),
            **({} if self.as_of is None else {"as_of": self.as_of.ToJsonString()}),
            **({} if self.recall else {"recall": False}),
        }

    def message(self, required: tuple[str, ...]) -> packet_pb2.Decision:
        """The wire's decision; `required` are the references that the named records stand for."""
        return packet_pb2.Decision(
            focus=self.focus, topics=self.topics, claims=self.claims, required=required, as_of=self.as_of
        )


def read_turning(
    name: str,
    *,
    focus: str,
    required_fields: Iterable[str] | None,
    final: bool,
    required_refs: Iterable[str],
    topics: Iterable[str],
    claims: Iterable[str],
    retry: str | None,
    rotation: str | None,
    as_of: Any = None,
) -> Turning:
    """A turn's decision from its caller's arguments. Raises InvalidInput."""
    return Turning(
        name=check_id(name, "name"),
        focus=check_text(focus, "focus", FOCUS_BYTES_MAX),
        topics=read_names(topics, "topics", check_label, DECISION_LIST_MAX),
        claims=read_names(claims, "claims", check_claim, DECISION_LIST_MAX),
        required_refs=read_names(required_refs, "required_refs", parse_ref, REQUIRED_NAMED_MAX),
        required_fields=None
        if required_fields is None
        else read_names(required_fields, "required_fields", _check_key, REQUIRED_NAMED_MAX),
        final=read_flag(final, "final"),
        retry="" if retry is None else check_id(retry, "retry"),
        rotation="" if rotation is None else check_id(rotation, "rotation"),
        as_of=read_time(as_of, "as_of"),
    )


def _check_key(value: str, field: str) -> str:
    """`value` where it can be a key of the caller's object."""
    return check_text(value, field, FOCUS_BYTES_MAX)
