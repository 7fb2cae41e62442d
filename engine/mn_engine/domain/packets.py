"""Decisions, candidates, coverage and packets: what recall and selection take and give.

A packet's digest covers what a model can see and what coverage says of it, in canonical JSON: the same revision and the
same request give the same digest on every store, process and machine (invariant 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, Final

from mn_contract.canonical import digest
from mn_contract.errors import InvalidInput
from mn_contract.limits import (
    DECISION_LIST_MAX,
    FOCUS_BYTES_MAX,
    PACKET_BUDGET_BYTES_MAX,
    PACKET_BUDGET_BYTES_MIN,
    PACKET_BUDGET_TOKENS_MAX,
    REQUIRED_NAMED_MAX,
)
from mn_contract.names import check_claim, check_label, check_text, format_ref, parse_ref
from mn_engine.domain.cards import CardKey, Kind, Stance, StoredCard
from mn_engine.domain.times import check_micros

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
    as_of: int | None = None
    """Microseconds: only what held at this time; None for whatever is live."""

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
        check_micros(self.as_of, "decision.as_of")

    def as_json(self) -> dict[str, Any]:
        """Its canonical form; order and repetition of its lists do not matter, except among required references."""
        return {
            "focus": self.focus,
            "topics": sorted(set(self.topics)),
            "claims": sorted(set(self.claims)),
            "entities": sorted(set(self.entities)),
            "kinds": sorted(int(kind) for kind in self.kinds),
            "required": list(self.required),
            "as_of": self.as_of,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most that a packet may take: bytes of its canonical JSON and, where given, tokens by its cards' estimates."""

    bytes: int
    tokens: int | None = None

    def __post_init__(self) -> None:
        if not PACKET_BUDGET_BYTES_MIN <= self.bytes <= PACKET_BUDGET_BYTES_MAX:
            raise InvalidInput(
                f"budget_bytes must be {PACKET_BUDGET_BYTES_MIN}-{PACKET_BUDGET_BYTES_MAX}, not {self.bytes}",
                field="budget_bytes",
            )
        if self.tokens is not None and not 1 <= self.tokens <= PACKET_BUDGET_TOKENS_MAX:
            raise InvalidInput(
                f"budget_tokens must be 1-{PACKET_BUDGET_TOKENS_MAX}, not {self.tokens}", field="budget_tokens"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketRequest:
    """What a packet is built from. `revision` None is the newest, which must be `expected` where that is given;
    `rotation` is the number of the card from which on they have their turn, None where none has."""

    decision: Decision
    budget: Budget
    shares: Shares = field(default_factory=Shares)
    revision: int | None = None
    expected: int | None = None
    cursor: str = ""
    rotation: int | None = None

    @property
    def digest(self) -> str:
        """What its cursors are bound to: all but its budgets and its revision."""
        return digest(["compile", self.decision.as_json(), self.shares.opposing, self.shares.supporting, self.rotation])


class Role(IntEnum):
    """Why an item stands in a packet. Numbers are those of the wire."""

    NAMED = 1
    OBLIGATION = 2
    CONSTRAINT = 3
    OPPOSING_SHARE = 4
    SUPPORTING_SHARE = 5
    RANKED = 6
    STANDING = 7
    ROTATED = 8


REQUIRED_LABEL: Final = {Role.NAMED: "named", Role.OBLIGATION: "obligation", Role.CONSTRAINT: "constraint"}
"""What an item's document says under `required`; roles that are not here are optional."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Why a card came up. `rank` counts from 1; 0 means that it was not ranked. Scores compare within one answer
    only. `relevance` is 1 / rank where a score ranked it, and None where nothing says how relevant it is."""

    retrievers: tuple[str, ...] = ()
    matched_terms: tuple[str, ...] = ()
    rank: int = 0
    score: int = 0

    @property
    def relevance(self) -> float | None:
        """0 to 1, by BASIS."""
        return 1 / self.rank if self.rank and self.score else None


BASIS: Final = "rank"
"""What a relevance is made of."""


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
    """A packet for one asker. `size` is len(canonical JSON of the items' documents), `tokens` what their estimates add
    up to; neither is ever above the budget."""

    revision: int
    items: tuple[PacketItem, ...]
    sizes: tuple[int, ...]
    coverage: Coverage
    cursor: str
    size: int
    tokens: int
    item_tokens: tuple[int, ...]
    digest: str
    newest_revision: int
    next_rotation: int = 0
    selector: str = ""
    """What came of asking a model selector; empty where there is none."""


def packet_size(item_sizes: tuple[int, ...] | list[int]) -> int:
    """Size of the canonical JSON array of documents whose document_size values these are: `[a,b]` or `[]`."""
    return 2 if not item_sizes else 1 + sum(item_sizes)


def packet_digest(revision: int, documents: list[dict[str, Any]], coverage: Coverage) -> str:
    """The digest that names a packet."""
    return digest([revision, documents, coverage.as_json()])


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Room that was first offered to the cards of a role, and what they took: bytes, and tokens where those are
    counted."""

    role: Role
    bytes: int
    used_bytes: int
    tokens: int = 0
    used_tokens: int = 0


class Out(Enum):
    """Why a card was not among those that a packet chooses from."""

    LATER = "later"
    SUPERSEDED = "superseded"
    INVALID = "invalid"
    KIND = "kind"
    IRRELEVANT = "irrelevant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a card is in a packet, or why it is not.

    `role` is None where it is out, and `reason` says why; `parts` are (stage, what it added to the score). `redundancy`
    with what ranks above it is in 1024ths, `utility` the score less what is redundant, `offered` its place in the
    order from 1 (0: required, or not among the candidates).
    """

    packet_digest: str
    revision: int
    role: Role | None
    reason: Left | Out | None
    why: Why
    parts: tuple[tuple[str, int], ...] = ()
    size: int = 0
    tokens: int = 0
    stance: Stance
    redundancy: int = 0
    utility: int = 0
    offered: int = 0
    quotas: tuple[Quota, ...] = ()
