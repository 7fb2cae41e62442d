"""What a caller asks to be recorded, before the engine has looked anything up: unresolved, but well-formed.

An event's fingerprint is taken here, over exactly what the caller said (invariant 9).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Final

from mn_contract.canonical import digest
from mn_contract.errors import InvalidInput
from mn_contract.limits import (
    ARTIFACT_INLINE_BYTES_MAX,
    BATCH_CARDS_MAX,
    BATCH_EVENTS_MAX,
    EVENT_ARTIFACTS_MAX,
    EVENT_CARDS_MAX,
    EVENT_RESOLVES_MAX,
)
from mn_contract.names import check_id, check_media_type, check_sha256, parse_ref
from mn_engine.domain.access import OPEN, Acl
from mn_engine.domain.artifacts import check_open
from mn_engine.domain.cards import Kind, Stance, Validation, check_share
from mn_engine.domain.facts import Fact
from mn_engine.domain.times import check_micros

TEXT_MEDIA_TYPE: Final = "text/plain; charset=utf-8"
"""Media type of the artifact that the engine makes of a card's own text."""
BYTES_MEDIA_TYPE: Final = "application/octet-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRange:
    """A range that a caller cites; an empty sha256 is filled in from the artifact."""

    artifact: str
    start: int
    end: int
    sha256: str = ""

    def __post_init__(self) -> None:
        check_sha256(self.artifact, "source.artifact_sha256")
        if self.sha256:
            check_sha256(self.sha256, "source.sha256")
        if not 0 <= self.start < self.end:
            raise InvalidInput("a source range needs start < end", field="source", start=self.start, end=self.end)

    @property
    def span(self) -> tuple[str, int, int]:
        """(artifact, start, end)."""
        return self.artifact, self.start, self.end

    def as_json(self) -> list[Any]:
        """Its canonical form."""
        return [self.artifact, self.start, self.end, self.sha256]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewArtifact:
    """An artifact that travels with its event."""

    data: bytes
    media_type: str = BYTES_MEDIA_TYPE
    acl: Acl = field(default=OPEN)

    def __post_init__(self) -> None:
        check_open(check_media_type(self.media_type, "artifact.media_type"), "artifact.media_type")
        if len(self.data) > ARTIFACT_INLINE_BYTES_MAX:
            raise InvalidInput(
                f"an artifact inside an event is at most {ARTIFACT_INLINE_BYTES_MAX} bytes; put larger ones first",
                field="event.artifacts",
                size=len(self.data),
            )

    @property
    def sha256(self) -> str:
        """Its name."""
        return hashlib.sha256(self.data).hexdigest()

    def as_json(self) -> list[Any]:
        """Its canonical form; the hash stands for the bytes."""
        return [self.sha256, self.media_type, self.acl.as_json()]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCard:
    """A card as a caller writes it: references unresolved, body or text perhaps left out (one of them must be
    there)."""

    id: str = ""
    kind: Kind
    text: str = ""
    body: NewRange | None = None
    sources: tuple[NewRange, ...] = ()
    summary: str = ""
    topics: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    stance: Stance = Stance.NEUTRAL
    claims: tuple[tuple[str, Stance], ...] = ()
    validation: Validation = Validation.UNVERIFIED
    confidence: float | None = None
    trust: float | None = None
    occurred_at: int | None = None
    captured_at: int | None = None
    valid_from: int | None = None
    valid_until: int | None = None
    source_url: str = ""
    relations: tuple[tuple[str, str], ...] = ()
    acl: Acl = field(default=OPEN)
    occurrences: int = 1
    tokens: int = 0
    fact: Fact | None = None
    begins: bool = False
    """Whether it holds from when it is recorded, where it says no valid_from; a fact does."""

    def __post_init__(self) -> None:
        if self.id:
            check_id(self.id, "card.id")
        if not self.text and self.body is None:
            raise InvalidInput("a card needs a text or a body", field="card.text")
        for _, target in self.relations:
            parse_ref(target, "card.relations")

    def as_json(self) -> dict[str, Any]:
        """Its canonical form."""
        return {
            "id": self.id,
            "kind": int(self.kind),
            "text": self.text,
            "body": None if self.body is None else self.body.as_json(),
            "sources": [source.as_json() for source in self.sources],
            "stance": int(self.stance),
            "claims": [[claim, int(stance)] for claim, stance in self.claims],
            "validation": int(self.validation),
            "relations": [list(relation) for relation in self.relations],
            "acl": self.acl.as_json(),
            **{name: getattr(self, name) for name in _PLAIN},
            **({} if self.fact is None else {"fact": self.fact.as_json()}),
            **({"begins": True} if self.begins else {}),
        }


_PLAIN: Final = (
    "summary",
    "topics",
    "entities",
    "confidence",
    "trust",
    "occurred_at",
    "captured_at",
    "valid_from",
    "valid_until",
    "source_url",
    "occurrences",
    "tokens",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """One idempotent write as a caller asks for it."""

    key: str
    artifacts: tuple[NewArtifact, ...] = ()
    cards: tuple[NewCard, ...] = ()
    resolves: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_id(self.key, "event.key")
        for name, most in (
            ("artifacts", EVENT_ARTIFACTS_MAX),
            ("cards", EVENT_CARDS_MAX),
            ("resolves", EVENT_RESOLVES_MAX),
        ):
            if len(getattr(self, name)) > most:
                raise InvalidInput(f"event.{name}: at most {most} in one event", field=f"event.{name}")
        if not self.artifacts and not self.cards and not self.resolves:
            raise InvalidInput("an event adds or resolves something", field="event.cards")
        for ref in self.resolves:
            parse_ref(ref, "event.resolves")

    @property
    def fingerprint(self) -> str:
        """SHA-256 over everything the caller said."""
        return digest(
            {
                "artifacts": [artifact.as_json() for artifact in self.artifacts],
                "cards": [card.as_json() for card in self.cards],
                "resolves": list(self.resolves),
            }
        )

    def card_id(self, place: int) -> str:
        """The id of its `place`-th card: what the caller gave, else the event's key (numbered where it has several)."""
        return self.cards[place].id or numbered_id(self.key, place, len(self.cards))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFact:
    """One of many facts that a caller records at once; without `valid_from` it holds from when it is recorded."""

    fact: Fact
    valid_from: int | None = None
    valid_until: int | None = None
    confidence: float | None = None

    def __post_init__(self) -> None:
        check_share(self.confidence, "confidence")
        check_micros(self.valid_from, "valid_from")
        check_micros(self.valid_until, "valid_until")
        if self.valid_from is not None:
            self.check_end(self.valid_from)

    def check_end(self, since: int) -> None:
        """Raises InvalidInput where it ends before it begins."""
        if self.valid_until is not None and self.valid_until <= since:
            raise InvalidInput("valid_until must be after valid_from (left out: now)", field="valid_until")

    def as_json(self) -> list[Any]:
        """Its canonical form."""
        return [*self.fact.as_json(), self.valid_from, self.valid_until, self.confidence]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFacts:
    """One idempotent write of many facts."""

    key: str
    facts: tuple[NewFact, ...]

    def __post_init__(self) -> None:
        check_id(self.key, "key")
        if not 1 <= len(self.facts) <= BATCH_CARDS_MAX:
            raise InvalidInput(f"1-{BATCH_CARDS_MAX} facts are recorded at once", field="facts")
        check_id(numbered_id(self.key, len(self.facts) - 1, len(self.facts)), "key")

    @property
    def fingerprint(self) -> str:
        """SHA-256 over everything the caller said."""
        return digest({"facts": [fact.as_json() for fact in self.facts]})

    @property
    def ids(self) -> list[str]:
        """Of their cards."""
        return [numbered_id(self.key, place, len(self.facts)) for place in range(len(self.facts))]


def of_fact(place: int, error: InvalidInput) -> InvalidInput:
    """The error, naming the fact that it is of."""
    return InvalidInput(f"facts[{place}]: {error.message}", field=f"facts[{place}].{error.detail.get('field', '')}")


def numbered_id(key: str, place: int, count: int) -> str:
    """The id of an event's `place`-th of `count` cards, where its writer gives none."""
    return key if count == 1 else f"{key}/{place + 1:04d}"


def check_batch(events: tuple[NewEvent, ...]) -> tuple[NewEvent, ...]:
    """`events` where they are a batch. Raises InvalidInput."""
    if not 1 <= len(events) <= BATCH_EVENTS_MAX:
        raise InvalidInput(f"a batch has 1-{BATCH_EVENTS_MAX} events", field="events")
    if sum(len(event.cards) for event in events) > BATCH_CARDS_MAX:
        raise InvalidInput(f"a batch has at most {BATCH_CARDS_MAX} cards", field="events")
    if len({event.key for event in events}) != len(events):
        raise InvalidInput("an event key stands in the batch twice", field="event.key")
    return events
