"""Decisions, candidates, coverage and packets: what recall and selection take and give.

A packet's digest covers what a model can see and what coverage says of it, in canonical JSON: the same revision and the
same request give the same digest on every store, process and machine (invariant 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Final

from mn_contract.canonical import digest
from mn_contract.errors import InvalidInput
from mn_contract.limits import (
    DECISION_LIST_MAX,
    FOCUS_BYTES_MAX,
    PACKET_BUDGET_BYTES_MAX,
    PACKET_BUDGET_BYTES_MIN,
    REQUIRED_NAMED_MAX,
)
from mn_contract.names import check_claim, check_label, check_text, format_ref, parse_ref
from mn_engine.domain.cards import CardKey, Kind, Stance, StoredCard

COUNTER_EVIDENCE_SHARE: Final = 0.20
SUPPORTING_EVIDENCE_SHARE: Final = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is being decided. `required` are references as the asker writes them."""

    focus: str = ""
    topics: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    kinds: frozenset[Kind] = frozenset()
    required: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_text(self.focus, "decision.focus", FOCUS_BYTES_MAX)
        for name, check in (("topics", check_label), ("claims", check_claim), ("entities", check_label)):
            values: tuple[str, ...] = getattr(self, name)
            if len(values) > DECISION_LIST_MAX:
                raise InvalidInput(f"decision.{name}: at most {DECISION_LIST_MAX} of them", field=f"decision.{name}")
            for value in values:
                check(value, f"decision.{name}")
        if len(self.required) > REQUIRED_NAMED_MAX:
            raise InvalidInput(f"decision.required: at most {REQUIRED_NAMED_MAX}", field="decision.required")
        for ref in self.required:
            parse_ref(ref, "decision.required")

    def as_json(self) -> dict[str, Any]:
        """Its canonical form; order and repetition of its lists do not matter, except among required references."""
        return {
            "focus": self.focus,
            "topics": sorted(set(self.topics)),
            "claims": sorted(set(self.claims)),
            "entities": sorted(set(self.entities)),
            "kinds": sorted(int(kind) for kind in self.kinds),
            "required": list(self.required),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares of the optional budget that opposing and supporting cards are offered first."""

    opposing: float = COUNTER_EVIDENCE_SHARE
    supporting: float = SUPPORTING_EVIDENCE_SHARE

    def __post_init__(self) -> None:
        for name, share in (("counter_evidence_share", self.opposing), ("supporting_evidence_share", self.supporting)):
            if not (math.isfinite(share) and 0.0 <= share <= 1.0):
                raise InvalidInput(f"{name} must be 0 to 1", field=name)
        if self.opposing + self.supporting > 1.0:
            raise InvalidInput("the two shares together must be at most 1", field="counter_evidence_share")


def check_budget(budget_bytes: int) -> int:
    """`budget_bytes` where it is a packet's. Raises InvalidInput."""
    if not PACKET_BUDGET_BYTES_MIN <= budget_bytes <= PACKET_BUDGET_BYTES_MAX:
        raise InvalidInput(
            f"budget_bytes must be {PACKET_BUDGET_BYTES_MIN}-{PACKET_BUDGET_BYTES_MAX}, not {budget_bytes}",
            field="budget_bytes",
        )
    return budget_bytes


class Role(IntEnum):
    """Why an item stands in a packet. Numbers are those of the wire."""

    NAMED = 1
    OBLIGATION = 2
    CONSTRAINT = 3
    OPPOSING_SHARE = 4
    SUPPORTING_SHARE = 5
    RANKED = 6


REQUIRED_LABEL: Final = {Role.NAMED: "named", Role.OBLIGATION: "obligation", Role.CONSTRAINT: "constraint"}
"""What an item's document says under `required`; roles that are not here are optional."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Why a card came up. `rank` counts from 1; 0 means that it was not ranked. Scores compare within one answer
    only."""

    retrievers: tuple[str, ...] = ()
    matched_terms: tuple[str, ...] = ()
    rank: int = 0
    score: int = 0


class CoverageStatus(IntEnum):
    """Whether an answer is all there is (invariant 13). Numbers are those of the wire."""

    COMPLETE = 1
    DEGRADED = 2
    MISSING = 3


class Left(Enum):
    """Why a relevant card is not in the answer."""

    BUDGET = "budget"
    OVERSIZE = "oversize"
    SERVED = "served"
    CAP = "cap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What was considered, selected and left, among relevant cards that the asker can read (invariants 3, 7, 13).

    `stances` and `kinds` hold (name, considered, selected) of optional cards, in the enums' order, without empty rows;
    `left` holds (reason, count) in Left's order, without zeros. Required cards are counted apart.
    """

    status: CoverageStatus
    relevant: int = 0
    stances: tuple[tuple[Stance, int, int], ...] = ()
    kinds: tuple[tuple[Kind, int, int], ...] = ()
    left: tuple[tuple[Left, int], ...] = ()
    required: int = 0
    required_opposing: int = 0

    def as_json(self) -> dict[str, Any]:
        """Its canonical form."""
        return {
            "status": int(self.status),
            "relevant": self.relevant,
            "stances": [[int(stance), considered, selected] for stance, considered, selected in self.stances],
            "kinds": [[int(kind), considered, selected] for kind, considered, selected in self.kinds],
            "left": [[reason.value, count] for reason, count in self.left],
            "required": self.required,
            "required_opposing": self.required_opposing,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketItem:
    """One selected card, whole. `conflicts` are live readable cards that contradict it, or that it contradicts."""

    stored: StoredCard
    role: Role
    why: Why
    conflicts: tuple[CardKey, ...] = ()

    def document(self, asker: str) -> dict[str, Any]:
        """How the item reads in the packet for `asker`."""
        card = self.stored.card
        return card.document(
            ref=format_ref(card.owner, card.id, asker),
            conflicts=tuple(format_ref(key.owner, key.id, asker) for key in self.conflicts),
            required=REQUIRED_LABEL.get(self.role, ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """A packet for one asker. `size` is len(canonical JSON of the items' documents); never above the budget."""

    revision: int
    items: tuple[PacketItem, ...]
    sizes: tuple[int, ...]
    coverage: Coverage
    cursor: str
    size: int
    digest: str
    newest_revision: int


def packet_size(item_sizes: tuple[int, ...] | list[int]) -> int:
    """Size of the canonical JSON array of documents whose document_size values these are: `[a,b]` or `[]`."""
    return 2 if not item_sizes else 1 + sum(item_sizes)


def packet_digest(revision: int, documents: list[dict[str, Any]], coverage: Coverage) -> str:
    """The digest that names a packet."""
    return digest([revision, documents, coverage.as_json()])
