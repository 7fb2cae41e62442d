"""Cards: bounded representations that point at source ranges, and what kinds and stances mean.

A card's text is the exact bytes of its body range. What it cites are source ranges; nothing else is citable
(invariant 6).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final

from mn_contract.canonical import encoded
from mn_contract.documents import item_document
from mn_contract.errors import InvalidInput
from mn_contract.limits import (
    ARTIFACT_BYTES_MAX,
    CARD_BYTES_MAX,
    CARD_LIST_MAX,
    CARD_SUMMARY_BYTES_MAX,
    CARD_TEXT_BYTES_MAX,
    CARD_TOKENS_MAX,
    KIB,
    ORDINAL_PLACE_BITS,
    SOURCE_URL_BYTES_MAX,
    TOKEN_BYTES,
)
from mn_contract.names import check_claim, check_id, check_label, check_sha256, check_text
from mn_engine.domain.access import OPEN, Acl
from mn_engine.domain.facts import Fact
from mn_engine.domain.hashes import hash64
from mn_engine.domain.times import check_micros, format_rfc3339


class Kind(IntEnum):
    """What a card is. Numbers are those of the wire."""

    OBSERVATION = 1
    EVIDENCE = 2
    DECISION = 3
    CONSTRAINT = 4
    OBLIGATION = 5
    HYPOTHESIS = 6
    TASK = 7
    FACT = 8
    PROCEDURE = 9
    PREFERENCE = 10
    IDENTITY = 11
    FAILURE = 12
    SUMMARY = 13


class Stance(IntEnum):
    """What a card says toward something. A mixed card counts for both sides. Numbers are those of the wire."""

    SUPPORTS = 1
    OPPOSES = 2
    MIXED = 3
    NEUTRAL = 4


class Validation(IntEnum):
    """Whether somebody checked a card. Numbers are those of the wire."""

    UNVERIFIED = 1
    VALIDATED = 2
    REJECTED = 3


LAYERS: Final[Mapping[Kind, tuple[str, str]]] = MappingProxyType(
    {
        Kind.OBSERVATION: ("recency", "episodic"),
        Kind.EVIDENCE: ("facts", "semantic"),
        Kind.DECISION: ("decisions", "decision"),
        Kind.CONSTRAINT: ("constraints", "negative"),
        Kind.OBLIGATION: ("open_loops", "episodic"),
        Kind.HYPOTHESIS: ("facts", "semantic"),
        Kind.TASK: ("open_loops", "episodic"),
        Kind.FACT: ("facts", "semantic"),
        Kind.PROCEDURE: ("procedures", "procedural"),
        Kind.PREFERENCE: ("identity", "preference"),
        Kind.IDENTITY: ("identity", "style"),
        Kind.FAILURE: ("decisions", "negative"),
        Kind.SUMMARY: ("recency", "semantic"),
    }
)
"""Kind -> (CMP layer, MQL layer)."""

SUPERSEDES: Final = "supersedes"
CONTRADICTS: Final = "contradicts"
RESOLVES: Final = "resolves"
DERIVED_FROM: Final = "derived_from"
"""Relation types that have effects; every other type is navigation."""


@dataclass(frozen=True, slots=True)
class CardKey:
    """A card's name in its run: ids are unique among the cards of their writer."""

    owner: str
    id: str

    @property
    def hash(self) -> int:
        """64 bits that stand for it in columns and indexes. Neither part can hold NUL."""
        return hash64(f"{self.owner}\0{self.id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRange:
    """Bytes [start, end) of an artifact and their SHA-256."""

    artifact: str
    start: int
    end: int
    sha256: str

    def __post_init__(self) -> None:
        check_sha256(self.artifact, "source.artifact_sha256")
        check_sha256(self.sha256, "source.sha256")
        if not 0 <= self.start < self.end <= ARTIFACT_BYTES_MAX:
            raise InvalidInput("a source range needs 0 <= start < end", field="source", start=self.start, end=self.end)

    @property
    def span(self) -> tuple[str, int, int]:
        """(artifact, start, end)."""
        return self.artifact, self.start, self.end

    def as_json(self) -> list[Any]:
        """[artifact, start, end, sha256]."""
        return [self.artifact, self.start, self.end, self.sha256]

    @classmethod
    def from_json(cls, value: list[Any]) -> SourceRange:
        """The inverse of as_json."""
        return cls(artifact=value[0], start=value[1], end=value[2], sha256=value[3])


@dataclass(frozen=True, slots=True)
class Relation:
    """A directed link to another card of the run."""

    type: str
    target: CardKey

    def __post_init__(self) -> None:
        check_id(self.type, "relation.type")


_CHAR_BYTES: Final = 6
"""What a character of a text takes in JSON at most."""
_LISTED_BYTES: Final = 2 * KIB
"""What a label, a claim, a range or a relation takes at most."""
_REST_BYTES: Final = 2 * KIB
"""What all else of an open card takes at most: two ids, a hash, numbers and the names of its fields."""


def _labels(values: tuple[str, ...], name: str) -> None:
    if len(values) > CARD_LIST_MAX:
        raise InvalidInput(f"{name}: at most {CARD_LIST_MAX} of them", field=name)
    if len(set(values)) != len(values):
        raise InvalidInput(f"{name}: one stands there twice", field=name)
    for value in values:
        check_label(value, name)


def check_share(value: float | None, name: str) -> None:
    """Raises InvalidInput where a value that was given is no share."""
    if value is not None and not (math.isfinite(value) and 0.0 <= value <= 1.0):
        raise InvalidInput(f"{name} must be 0 to 1", field=name)


def check_size(size: int) -> None:
    """Raises InvalidInput where a card would be of too many bytes in all."""
    if size > CARD_BYTES_MAX:
        raise InvalidInput(f"a card is at most {CARD_BYTES_MAX} bytes in all, not {size}", field="card", size=size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A card as it is written; immutable from then on. `sources` is never empty: what cites nothing cites its body."""

    owner: str
    id: str
    kind: Kind
    text: str
    body: SourceRange
    sources: tuple[SourceRange, ...]
    summary: str = ""
    topics: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    stance: Stance = Stance.NEUTRAL
    claims: tuple[tuple[str, Stance], ...] = ()
    validation: Validation = Validation.UNVERIFIED
    confidence: float | None = None
    trust: float | None = None
    occurred_at: int | None = None
    captured_at: int
    valid_from: int | None = None
    valid_until: int | None = None
    source_url: str = ""
    relations: tuple[Relation, ...] = ()
    acl: Acl = field(default=OPEN)
    occurrences: int = 1
    tokens: int = 0
    """What its document takes in a model's request, as its writer estimates; 0 where it does not say."""
    fact: Fact | None = None
    """What it says as a triple, where it does; then it says since when it holds."""

    def __post_init__(self) -> None:
        check_id(self.owner, "principal")
        check_id(self.id, "card.id")
        check_text(self.text, "card.text", CARD_TEXT_BYTES_MAX, bytes_min=1)
        check_text(self.summary, "card.summary", CARD_SUMMARY_BYTES_MAX)
        check_text(self.source_url, "card.source_url", SOURCE_URL_BYTES_MAX)
        _labels(self.topics, "card.topics")
        _labels(self.entities, "card.entities")
        self._check_lists()
        check_share(self.confidence, "card.confidence")
        check_share(self.trust, "card.trust")
        for name in ("occurred_at", "captured_at", "valid_from", "valid_until"):
            check_micros(getattr(self, name), f"card.{name}")
        if self.valid_from is not None and self.valid_until is not None and self.valid_until <= self.valid_from:
            raise InvalidInput("card.valid_until must be after card.valid_from", field="card.valid_until")
        if self.fact is not None and (self.kind is not Kind.FACT or self.valid_from is None):
            raise InvalidInput("a card that says a triple is of kind fact, and has a valid_from", field="card.fact")
        if not 1 <= self.occurrences < 1 << 31:
            raise InvalidInput("card.occurrences must be 1 or more", field="card.occurrences")
        if not 0 <= self.tokens <= CARD_TOKENS_MAX:
            raise InvalidInput(f"card.tokens must be 0-{CARD_TOKENS_MAX}", field="card.tokens")
        self._check_size()

    def _check_lists(self) -> None:
        for name, values in (("claims", self.claims), ("sources", self.sources), ("relations", self.relations)):
            if len(values) > CARD_LIST_MAX:
                raise InvalidInput(f"card.{name}: at most {CARD_LIST_MAX} of them", field=f"card.{name}")
        if not self.sources:
            raise InvalidInput("a card cites at least its body", field="card.sources")
        for claim, _ in self.claims:
            check_claim(claim, "card.claims")
        if len({claim for claim, _ in self.claims}) != len(self.claims):
            raise InvalidInput("card.claims: a claim stands there twice", field="card.claims")
        if len(set(self.relations)) != len(self.relations):
            raise InvalidInput("card.relations: one stands there twice", field="card.relations")
        if any(relation.target == self.key for relation in self.relations):
            raise InvalidInput("a card cannot point at itself", field="card.relations")

    def _check_size(self) -> None:
        chars = len(self.text) + len(self.summary) + len(self.source_url)
        if self.fact is not None:
            chars += sum(map(len, (self.fact.subject, self.fact.predicate, self.fact.object, self.fact.qualifier)))
        listed = len(self.topics) + len(self.entities) + len(self.claims) + len(self.sources) + len(self.relations)
        if self.acl is OPEN and _REST_BYTES + chars * _CHAR_BYTES + listed * _LISTED_BYTES <= CARD_BYTES_MAX:
            return  # plainly: most cards are, and encoding them costs more than all the other checks
        check_size(len(encoded(self.as_json())))

    @property
    def key(self) -> CardKey:
        """Its name in the run."""
        return CardKey(self.owner, self.id)

    @property
    def derived(self) -> bool:
        """Whether it is navigation only: never citable."""
        return self.kind is Kind.SUMMARY

    def targets(self, relation_type: str) -> tuple[CardKey, ...]:
        """The cards it points at with `relation_type`."""
        return tuple([relation.target for relation in self.relations if relation.type == relation_type])

    def as_json(self) -> dict[str, Any]:
        """Its canonical form, without what says nothing. The text is in it."""
        meta: dict[str, Any] = {
            "owner": self.owner,
            "id": self.id,
            "kind": int(self.kind),
            "text": self.text,
            "body": self.body.as_json(),
            "captured_at": self.captured_at,
        }
        if self.sources != (self.body,):
            meta["sources"] = [source.as_json() for source in self.sources]
        if self.topics:
            meta["topics"] = list(self.topics)
        if self.entities:
            meta["entities"] = list(self.entities)
        if self.claims:
            meta["claims"] = [[claim, int(stance)] for claim, stance in self.claims]
        if self.relations:
            meta["relations"] = [
                [relation.type, relation.target.owner, relation.target.id] for relation in self.relations
            ]
        if self.acl != OPEN:
            meta["acl"] = self.acl.as_json()
        if self.fact is not None:
            meta["fact"] = self.fact.as_json()
        for name, default in _PLAIN_DEFAULTS.items():
            value = getattr(self, name)
            if value != default:
                meta[name] = int(value) if isinstance(value, IntEnum) else value
        return meta

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Card:
        """The inverse of as_json."""
        body = SourceRange.from_json(value["body"])
        plain = {name: value.get(name, default) for name, default in _PLAIN_DEFAULTS.items()}
        plain["stance"] = Stance(plain["stance"])
        plain["validation"] = Validation(plain["validation"])
        return cls(
            owner=value["owner"],
            id=value["id"],
            kind=Kind(value["kind"]),
            text=value["text"],
            body=body,
            sources=tuple(SourceRange.from_json(source) for source in value["sources"])
            if "sources" in value
            else (body,),
            captured_at=value["captured_at"],
            topics=tuple(value.get("topics", ())),
            entities=tuple(value.get("entities", ())),
            claims=tuple((claim, Stance(stance)) for claim, stance in value.get("claims", ())),
            relations=tuple(Relation(type_, CardKey(owner, id_)) for type_, owner, id_ in value.get("relations", ())),
            acl=Acl.from_json(value["acl"]) if "acl" in value else OPEN,
            fact=Fact.from_json(value["fact"]) if "fact" in value else None,
            **plain,
        )

    def document(self, *, ref: str, conflicts: tuple[str, ...] = (), required: str = "") -> dict[str, Any]:
        """How the card reads in a packet; see mn_contract.documents."""
        return item_document(
            ref=ref,
            kind=self.kind.name.lower(),
            text=self.text,
            source=self.body.span,
            cites=[source.span for source in self.sources],
            stance=self.stance.name.lower(),
            claims={claim: stance.name.lower() for claim, stance in self.claims},
            validation=self.validation.name.lower(),
            confidence=self.confidence,
            trust=self.trust,
            occurred_at=_rfc3339(self.occurred_at),
            valid_from=_rfc3339(self.valid_from),
            valid_until=_rfc3339(self.valid_until),
            topics=self.topics,
            source_url=self.source_url,
            conflicts=conflicts,
            required=required,
        )

    def with_trust(self, trust: float | None) -> Card:
        """The card with another trust (a summary's is capped when it is recorded)."""
        return replace(self, trust=trust)


def _rfc3339(time: int | None) -> str | None:
    return None if time is None else format_rfc3339(time)


_PLAIN_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "summary": "",
        "stance": Stance.NEUTRAL,
        "validation": Validation.UNVERIFIED,
        "confidence": None,
        "trust": None,
        "occurred_at": None,
        "valid_from": None,
        "valid_until": None,
        "source_url": "",
        "occurrences": 1,
        "tokens": 0,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCard:
    """A card in the record, and what has become of it up to the revision at which it was read."""

    card: Card
    ordinal: int
    superseded_revision: int | None = None
    superseded_by: CardKey | None = None
    resolved_revision: int | None = None

    @property
    def revision(self) -> int:
        """The revision that added it."""
        return revision_of(self.ordinal)


def ordinal_of(revision: int, place: int) -> int:
    """The run-wide place of the `place`-th card of a revision."""
    return revision << ORDINAL_PLACE_BITS | place


def revision_of(ordinal: int) -> int:
    """The revision that an ordinal belongs to."""
    return ordinal >> ORDINAL_PLACE_BITS


def document_size(document: Mapping[str, Any]) -> int:
    """Bytes that an item takes of a packet's budget: its canonical JSON and one separator."""
    return len(encoded(document)) + 1


def document_tokens(size: int) -> int:
    """Tokens that an item takes of a packet's budget where its writer gives no estimate: one for every TOKEN_BYTES of
    its document for its owner, `size` bytes."""
    return -(-size // TOKEN_BYTES)
