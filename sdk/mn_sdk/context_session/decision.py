"""What a turn decides, as the caller names it, and as the engine is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mn.context.working.v1 import packet_pb2
from mn_contract.errors import InvalidInput
from mn_contract.limits import DECISION_LIST_MAX, FOCUS_BYTES_MAX, REQUIRED_NAMED_MAX
from mn_contract.names import check_claim, check_id, check_label, check_text, parse_ref


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

    def __post_init__(self) -> None:
        check_id(self.name, "name")
        check_text(self.focus, "focus", FOCUS_BYTES_MAX)
        for field, check in (("topics", check_label), ("claims", check_claim), ("required_refs", parse_ref)):
            values: tuple[str, ...] = getattr(self, field)
            most = REQUIRED_NAMED_MAX if field == "required_refs" else DECISION_LIST_MAX
            if len(values) > most:
                raise InvalidInput(f"{field}: at most {most}", field=field)
            for value in values:
                check(value, field)
        if self.retry:
            check_id(self.retry, "retry")

    def identity(self) -> dict[str, Any]:
        """What of it belongs to the call's fingerprint."""
        return {
            "focus": self.focus,
            "topics": sorted(self.topics),
            "claims": sorted(self.claims),
            "required_refs": list(self.required_refs),
            "required_fields": None if self.required_fields is None else sorted(self.required_fields),
        }

    def message(self, required: tuple[str, ...]) -> packet_pb2.Decision:
        """The wire's decision; `required` are the references that the named records stand for."""
        return packet_pb2.Decision(focus=self.focus, topics=self.topics, claims=self.claims, required=required)
