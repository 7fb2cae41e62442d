"""Packs: what CMP hands to a model - memories in the form in which they fit, and what is said of the rest.

A pack is chosen at one revision for one question, as a packet is; it differs in what is required (the top constraint
and what the caller names), in that memories may stand in it compressed or folded, and in that its budget is counted in
the tokens of one model. Its document is what is pinned: neither legend nor session is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from mn_contract.canonical import digest
from mn_contract.errors import InvalidInput
from mn_contract.names import check_id, format_ref
from mn_contract.smp import SMP_VERSION, item_text, memory_object
from mn_engine.domain.cards import LAYERS, Card
from mn_engine.domain.packets import BASIS, CoverageStatus, Decision, Why
from mn_engine.domain.seen import Seen
from mn_engine.domain.times import format_rfc3339

COUNTER_SHARE: Final = 0.0
MODEL_BYTES_MAX: Final = 256
_RELEVANCE_DIGITS: Final = 4


class Form(Enum):
    """How much of a memory stands in a pack: the rungs of the ladder."""

    FULL = "full"
    SUMMARY = "summary"
    HEAD = "head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """What an item speaks for besides itself."""

    refs: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    occurrences: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PackItem:
    """One memory as it stands in a pack. `end` is where a head ends, in bytes of the card's text."""

    seen: Seen
    why: Why
    form: Form = Form.FULL
    end: int = 0
    folded: Folded = field(default_factory=Folded)

    @property
    def card(self) -> Card:
        """The memory."""
        return self.seen.stored.card

    @property
    def content(self) -> str:
        """What is shown of it."""
        if self.form is Form.SUMMARY:
            return self.card.summary
        if self.form is Form.HEAD:
            return self.card.text.encode("utf-8")[: self.end].decode("utf-8")
        return self.card.text

    @property
    def relevance(self) -> float | None:
        """0 to 1 in four digits, as it is shown and compared; None where nothing says how relevant the memory is."""
        return None if self.why.relevance is None else round(self.why.relevance, _RELEVANCE_DIGITS)

    @property
    def occurred_at(self) -> str:
        """When it was true or seen; where nobody said, when it was noted, to the second."""
        card = self.card
        return format_rfc3339(_seconds(card.captured_at) if card.occurred_at is None else card.occurred_at)

    def text(self, asker: str) -> str:
        """The item as text, which is what it costs."""
        return item_text(self._shown(asker))

    def _shown(self, asker: str) -> dict[str, Any]:
        """What text and document have in common."""
        card = self.card
        shown = {
            "ref": format_ref(card.owner, card.id, asker),
            "content": self.content,
            "layer": LAYERS[card.kind][0],
            "occurred_at": self.occurred_at,
        }
        return shown if self.form is Form.FULL else {**shown, "form": self.form.value}

    def document(self, asker: str) -> dict[str, Any]:
        """The item as `asker` reads it."""
        card = self.card
        return memory_object(
            relevance=self.relevance,
            relevance_basis=None if self.relevance is None else BASIS,
            retrievers=self.why.retrievers,
            matched_terms=self.why.matched_terms,
            fused_rank=self.why.rank or None,
            source_url=card.source_url or None,
            confidence=card.trust if card.confidence is None else card.confidence,
            entities=card.entities,
            **self._shown(asker),
            **self._further(asker),
        )

    def memory(self, asker: str) -> dict[str, Any]:
        """What the record has of the memory beyond the item: what it is, what it says of which claims, where it stands,
        what it is joined to and when it holds."""
        card, stored = self.card, self.seen.stored
        return {
            "kind": card.kind.name.lower(),
            "stance": card.stance.name.lower(),
            "claims": {claim: stance.name.lower() for claim, stance in card.claims},
            "validation": card.validation.name.lower(),
            "topics": list(card.topics),
            "summary": card.summary or None,
            "trust": card.trust,
            "captured_at": format_rfc3339(card.captured_at),
            "valid_from": None if card.valid_from is None else format_rfc3339(card.valid_from),
            "valid_until": None if card.valid_until is None else format_rfc3339(card.valid_until),
            "sources": [_range(*source.span) for source in card.sources],
            "relations": [
                {"type": link.type, "ref": format_ref(link.target.owner, link.target.id, asker)}
                for link in card.relations
            ],
            "recorded_revision": stored.revision,
            "resolved_revision": stored.resolved_revision,
        }

    def _further(self, asker: str) -> dict[str, Any]:
        card, stored = self.card, self.seen.stored
        said: dict[str, Any] = {}
        if self.form is Form.SUMMARY or card.derived:
            said["derived"] = True
            said["cites"] = [_range(*source.span) for source in card.sources]
        elif self.form is Form.HEAD:
            said["cites"] = [_range(card.body.artifact, card.body.start, card.body.start + self.end)]
        if self.folded.refs:
            said["folded_refs"] = list(self.folded.refs)
            if self.folded.urls:
                said["source_urls"] = list(self.folded.urls)
        if self.folded.refs or card.occurrences > 1:
            said["occurrences"] = card.occurrences + self.folded.occurrences
        if self.seen.conflicts:
            said["conflicts"] = [format_ref(key.owner, key.id, asker) for key in self.seen.conflicts]
        if stored.superseded_revision is not None:
            by = stored.superseded_by
            said["superseded"] = {
                "revision": stored.superseded_revision,
                "by": by and format_ref(by.owner, by.id, asker),
            }
        return said


def _seconds(micros: int) -> int:
    """The time to the second: when something was noted says no more."""
    return micros - micros % 1_000_000


def _range(artifact: str, start: int, end: int) -> dict[str, Any]:
    return {"artifact": artifact, "start": start, "end": end}


@dataclass(frozen=True, slots=True, kw_only=True)
class PackCoverage:
    """What became of the relevant memories: `excluded` by no page's fault, `deduped` into others, `pending` for later
    pages."""

    status: CoverageStatus
    excluded: int = 0
    deduped: int = 0
    pending: int = 0

    def document(self) -> dict[str, Any]:
        """As it reads in an envelope."""
        return {
            "status": self.status.name.lower(),
            "excluded": self.excluded,
            "deduped": self.deduped,
            "pending": self.pending,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PackRequest:
    """What a pack is made for. `model` is free text; `budget_tokens` None is all that its profile allows.
    `counter_share` of the budget is offered to opposing memories first. `revision` None is the newest."""

    decision: Decision
    model: str = ""
    budget_tokens: int | None = None
    counter_share: float = COUNTER_SHARE
    cursor: str = ""
    revision: int | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.counter_share <= 1.0:
            raise InvalidInput("counter_share must be 0 to 1", field="counter_share")
        if self.budget_tokens is not None and self.budget_tokens < 1:
            raise InvalidInput("token_budget must be 1 or more", field="token_budget")
        if len(self.model.encode("utf-8", "surrogatepass")) > MODEL_BYTES_MAX:
            raise InvalidInput(f"model is at most {MODEL_BYTES_MAX} bytes", field="model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """A pack for one asker. `used` is never above `budget`; both are tokens by `counter`."""

    revision: int
    model: str
    budget: int
    used: int
    counter: str
    coverage: PackCoverage
    items: tuple[PackItem, ...]
    cursor: str
    follow_ups: tuple[Mapping[str, Any], ...]
    graph: Mapping[str, Any] | None

    def document(self, asker: str) -> dict[str, Any]:
        """What is pinned and digested: the envelope's keys that tell of the pack alone, and its revision."""
        return {
            "smp": SMP_VERSION,
            "model": self.model,
            "budget": {
                "tokens": self.budget,
                "used": self.used,
                "counter": self.counter,
                "distinct_facts_per_1k_tokens": _per_thousand(len(self.items), self.used),
            },
            "coverage": self.coverage.document(),
            "items": [item.document(asker) for item in self.items],
            "cursor": self.cursor or None,
            "follow_ups": [dict(query) for query in self.follow_ups],
            "graph": self.graph and dict(self.graph),
            "revision": self.revision,
        }


def _per_thousand(items: int, tokens: int) -> float:
    """Items for each thousand tokens, to two digits, rounded down: the same on every machine."""
    return items * 100_000 // tokens / 100 if tokens else 0.0


def pack_digest(document: Mapping[str, Any]) -> str:
    """The digest that names a pack, of its document."""
    return digest(document)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What changed for a session with a pack: references only, and only of memories that its reader may read.

    `new` are (reference, relevance), `superseded` (reference, what took its place and the session has); `fresh` are
    those of the pack whose content the session does not have as it stands now."""

    new: tuple[tuple[str, float | None], ...]
    evicted: tuple[str, ...]
    superseded: tuple[tuple[str, str | None], ...]
    cursor: str
    fresh: frozenset[str]

    def document(self) -> dict[str, Any]:
        """As it reads in an envelope."""
        return {
            "new": [{"ref": ref, "delta_relevance": relevance} for ref, relevance in self.new],
            "evicted": list(self.evicted),
            "superseded": [{"ref": ref, "replacement": head} for ref, head in self.superseded],
            "cursor": self.cursor,
        }


class Format(Enum):
    """How a pack is written."""

    SMP = "smp"
    JSON = "json"
    MARKDOWN = "markdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """How a pack is told: its format, and whether with content only of what the session does not have."""

    format: Format = Format.SMP
    only_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Packaged:
    """A pack's document as its asker is given it, with its digest, what changed for the session, and its pin (each
    empty where none was asked for); and how it is to be told."""

    document: Mapping[str, Any]
    digest: str
    session_id: str = ""
    change: Change | None = None
    pin: str = ""
    telling: Telling = field(default_factory=Telling)


def check_session_id(session_id: str) -> str:
    """A session's name. Raises InvalidInput."""
    return check_id(session_id, "session_id")
