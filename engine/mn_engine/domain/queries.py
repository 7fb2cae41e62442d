"""The Memory Query Language: a question, and what its answer is narrowed to. A query that is malformed or asks for more
than it may is refused, never read as something else; every field but the question only takes away.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from mn_contract.errors import InvalidInput
from mn_contract.limits import (
    PACK_BUDGET_TOKENS_DEFAULT,
    PACK_BUDGET_TOKENS_MIN,
    QUERY_ENTITIES_MAX,
    QUERY_PAGE_DEFAULT,
    QUERY_PAGE_MAX,
    QUERY_TEXT_BYTES_MAX,
)
from mn_contract.names import check_label, check_text
from mn_contract.smp import MQL_LAYERS
from mn_engine.domain.cards import LAYERS
from mn_engine.domain.packs import PackItem
from mn_engine.domain.times import check_micros

CURSOR_WRONG: Final = "the cursor is not one that you were given; begin without one"


class Direction(Enum):
    """Where an expansion goes."""

    DOCUMENT = "document"
    NEIGHBORS = "neighbors"
    MORE = "more"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryQuery:
    """One query: exactly one of `ask` (a pack, as rows) and `find` (a ranking). Times in microseconds; `expand` wants
    the follow-up that goes there from the first row."""

    ask: str = ""
    find: str = ""
    layers: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    as_of: int | None = None
    valid_only: bool = True
    min_relevance: float | None = None
    min_trust: float | None = None
    budget_tokens: int | None = None
    model: str = ""
    expand: Direction | None = None
    k: int = QUERY_PAGE_DEFAULT

    def __post_init__(self) -> None:
        if bool(self.ask.strip()) == bool(self.find.strip()):
            raise InvalidInput("exactly one of ask and find must be given", field="ask")
        check_text(self.ask, "ask", QUERY_TEXT_BYTES_MAX)
        check_text(self.find, "find", QUERY_TEXT_BYTES_MAX)
        for layer in self.layers:
            if layer not in MQL_LAYERS:
                raise InvalidInput(f"layers: there is no {layer!r}; there are {', '.join(MQL_LAYERS)}", field="layers")
        if len(self.entities) > QUERY_ENTITIES_MAX:
            raise InvalidInput(f"entities: at most {QUERY_ENTITIES_MAX} of them", field="entities")
        for entity in self.entities:
            check_label(entity, "entities")
            if not entity.strip():
                raise InvalidInput("entities: one of them is blank", field="entities")
        for name in ("min_relevance", "min_trust"):
            least = getattr(self, name)
            if least is not None and not 0.0 <= least <= 1.0:
                raise InvalidInput(f"{name} must be 0 to 1, not {least}", field=name)
        if not 1 <= self.k <= QUERY_PAGE_MAX:
            raise InvalidInput(f"k must be 1-{QUERY_PAGE_MAX}, not {self.k}", field="k")
        if self.find and self.budget_tokens is not None:
            raise InvalidInput("budget_tokens goes with ask; a find is bounded by k", field="budget_tokens")
        least, most = PACK_BUDGET_TOKENS_MIN, PACK_BUDGET_TOKENS_DEFAULT
        if self.budget_tokens is not None and not least <= self.budget_tokens <= most:
            raise InvalidInput(f"budget_tokens must be {least}-{most}, not {self.budget_tokens}", field="budget_tokens")
        check_micros(self.as_of, "as_of")

    def as_json(self) -> dict[str, Any]:
        """Its canonical form, without what says nothing."""
        document: dict[str, Any] = {"ask": self.ask} if self.ask else {"find": self.find}
        if self.layers:
            document["layers"] = sorted(set(self.layers))
        if self.entities:
            document["entities"] = sorted(set(self.entities))
        if not self.valid_only:
            document["valid_only"] = False
        for name in ("as_of", "min_relevance", "min_trust", "budget_tokens"):
            if getattr(self, name) is not None:
                document[name] = getattr(self, name)
        if self.model:
            document["model"] = self.model
        if self.expand is not None:
            document["expand"] = self.expand.value
        document["k"] = self.k
        return document

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> MemoryQuery:
        """The inverse of as_json. Raises InvalidInput where the document is of no query."""
        try:
            fields = dict(document)
            for name in ("layers", "entities"):
                fields[name] = tuple(fields.get(name, ()))
            if "expand" in fields:
                fields["expand"] = Direction(fields["expand"])
            return cls(**fields)
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidInput("this is no query", field="query") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlace:
    """Where a page of a query begins, as its cursor carries it: row `at` of the ranking at `revision`, or of the pack
    that `pack`, its own cursor, leads to (empty: the first)."""

    query: MemoryQuery
    revision: int | None = None
    pack: str = ""
    at: int = 0

    def as_json(self) -> dict[str, Any]:
        """What a cursor carries."""
        return {"query": self.query.as_json(), "revision": self.revision, "pack": self.pack, "at": self.at}

    @classmethod
    def from_json(cls, document: Any) -> QueryPlace:
        """The inverse of as_json. Raises InvalidInput: whoever reckons a cursor's check can write what he likes."""
        if not isinstance(document, dict) or document.keys() != {"query", "revision", "pack", "at"}:
            raise InvalidInput(CURSOR_WRONG, field="cursor")
        revision, pack, at = document["revision"], document["pack"], document["at"]
        whole = type(at) is int and at >= 0 and (revision is None or (type(revision) is int and revision >= 0))
        if not whole or not isinstance(pack, str) or not isinstance(document["query"], dict):
            raise InvalidInput(CURSOR_WRONG, field="cursor")
        query = MemoryQuery.from_json(document["query"])
        if query.as_json() != document["query"]:  # as it is written: no text for a number, no list for a text
            raise InvalidInput(CURSOR_WRONG, field="cursor")
        return cls(query=query, revision=revision, pack=pack, at=at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One memory that was retrieved, and what is known of its validity: whether it is live, and whether it held at the
    time that is asked of."""

    item: PackItem
    live: bool
    held: bool


def narrow(rows: tuple[Row, ...], query: MemoryQuery) -> tuple[PackItem, ...]:
    """The rows that the query's filters leave, in their order; filters only take away."""
    return tuple(row.item for row in rows if _passes(row, query))


def _passes(row: Row, query: MemoryQuery) -> bool:
    card, relevance = row.item.card, row.item.relevance
    trust = card.trust if card.confidence is None else card.confidence
    return (
        (row.held if query.as_of is not None else row.live or not query.valid_only)
        and (not query.layers or LAYERS[card.kind][1] in query.layers)
        and (not query.entities or any(_mentions(row.item, entity) for entity in query.entities))
        and (query.min_relevance is None or (relevance is not None and relevance >= query.min_relevance))
        and (query.min_trust is None or (trust is not None and trust >= query.min_trust))
    )


def _mentions(item: PackItem, entity: str) -> bool:
    """Whether a memory is about an entity, by its labels or in its words."""
    name = entity.strip().casefold()
    if any(label.strip().casefold() == name for label in item.card.entities):
        return True
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", item.card.text.casefold()) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAnswer:
    """What a query found: `narrowed_from` rows before its filters, `narrowed_to` after; `cursor` is where the next page
    begins, empty where there is none."""

    revision: int
    items: tuple[PackItem, ...]
    narrowed_from: int
    cursor: str
    follow_ups: tuple[dict[str, Any], ...] = ()

    def document(self, asker: str) -> dict[str, Any]:
        """As every face answers it."""
        return {
            "items": [item.document(asker) for item in self.items],
            "narrowed_from": self.narrowed_from,
            "narrowed_to": len(self.items),
            "cursor": self.cursor or None,
            "follow_ups": list(self.follow_ups),
            "revision": self.revision,
        }
