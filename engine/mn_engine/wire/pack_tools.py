"""The tools of packs, queries and notes: rows of the tool table (wire.table)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mn_contract.errors import InvalidInput
from mn_contract.limits import (
    CARD_LIST_MAX,
    CARD_TEXT_BYTES_MAX,
    CLAIM_BYTES_MAX,
    CURSOR_BYTES_MAX,
    DECISION_LIST_MAX,
    FOCUS_BYTES_MAX,
    ID_BYTES_MAX,
    LABEL_BYTES_MAX,
    PACK_BUDGET_TOKENS_DEFAULT,
    PACK_BUDGET_TOKENS_MIN,
    PACKET_BUDGET_TOKENS_MAX,
    QUERY_ENTITIES_MAX,
    QUERY_PAGE_DEFAULT,
    QUERY_PAGE_MAX,
    QUERY_TEXT_BYTES_MAX,
    REQUIRED_NAMED_MAX,
    SOURCE_URL_BYTES_MAX,
)
from mn_contract.smp import ENVELOPE_SCHEMA, MEMORY_OBJECT_SCHEMA, MQL_LAYERS, PIN_PREFIX
from mn_engine.domain.cards import CONTRADICTS, SUPERSEDES, Kind
from mn_engine.domain.packets import Decision
from mn_engine.domain.packs import MODEL_BYTES_MAX, Format, Packaged, PackItem, PackRequest, Telling
from mn_engine.domain.queries import Direction, MemoryQuery, QueryAnswer
from mn_engine.domain.requests import NewCard
from mn_engine.domain.scope import Scope
from mn_engine.wire.smp import envelope, markdown, plain
from mn_engine.wire.tools import REF_BYTES_MAX, Arguments, Tool, answers, micros, share, text, texts, time

_TITLE_CHARACTERS: Final = 80
_KINDS: Final = tuple(
    kind.name.lower() for kind in Kind if kind not in (Kind.CONSTRAINT, Kind.OBLIGATION, Kind.SUMMARY)
)


def _decode_context(arguments: Arguments) -> Arguments:
    telling = Telling(format=Format(arguments.get("format", "smp")), only_new=arguments.get("items") == "new")
    if telling.only_new and not arguments.get("session_id"):
        raise InvalidInput("items=new says what a session does not have: give its session_id", field="items")
    pinned = arguments.get("pinned", "")
    if pinned:
        further = sorted(arguments.keys() - {"pinned", "format"})
        if further:
            raise InvalidInput(f"a pinned pack is read as it is: leave out {', '.join(further)}", field=further[0])
        return {"pinned": pinned, "telling": telling}
    request = PackRequest(
        decision=Decision(
            focus=arguments.get("task", ""),
            topics=tuple(arguments.get("topics", ())),
            claims=tuple(arguments.get("claims", ())),
            entities=tuple(arguments.get("entities", ())),
            required=tuple(arguments.get("required", ())),
            as_of=micros(arguments, "as_of"),
        ),
        model=arguments.get("model", ""),
        budget_tokens=arguments.get("token_budget"),
        counter_share=float(arguments.get("counter_share", 0.0)),
        cursor=arguments.get("cursor", ""),
    )
    return {
        "request": request,
        "session_id": arguments.get("session_id", ""),
        "pin": arguments.get("pin", False),
        "telling": telling,
    }


def _encode_context(packaged: Packaged, _: Scope) -> Any:
    written = {Format.SMP: envelope, Format.JSON: plain, Format.MARKDOWN: markdown}
    return written[packaged.telling.format](packaged)


def _decode_query(arguments: Arguments) -> Arguments:
    cursor = arguments.get("cursor", "")
    if cursor and not arguments.keys() - {"cursor"}:
        return {"query": None, "cursor": cursor}
    expand = arguments.get("expand")
    query = MemoryQuery(
        ask=arguments.get("ask", ""),
        find=arguments.get("find", ""),
        layers=tuple(arguments.get("layers", ())),
        entities=tuple(arguments.get("entities", ())),
        as_of=micros(arguments, "as_of"),
        valid_only=arguments.get("valid_only", True),
        min_relevance=arguments.get("min_relevance"),
        min_trust=arguments.get("min_trust"),
        budget_tokens=arguments.get("budget_tokens"),
        model=arguments.get("model", ""),
        expand=None if expand is None else Direction(expand),
        k=arguments.get("k", QUERY_PAGE_DEFAULT),
    )
    return {"query": query, "cursor": cursor}


def _decode_expand(arguments: Arguments) -> Arguments:
    return {
        "ref": arguments.get("ref", ""),
        "direction": Direction(arguments.get("direction", Direction.DOCUMENT.value)),
        "cursor": arguments.get("cursor", ""),
    }


def _decode_note(arguments: Arguments) -> Arguments:
    relations = [
        *((SUPERSEDES, ref) for ref in arguments.get("supersedes", ())),
        *((CONTRADICTS, ref) for ref in arguments.get("contradicts", ())),
    ]
    memory = NewCard(
        kind=Kind[arguments.get("kind", "fact").upper()],
        text=arguments["text"],
        topics=tuple(arguments.get("topics", ())),
        entities=tuple(arguments.get("entities", ())),
        source_url=arguments.get("source_url", ""),
        confidence=arguments.get("confidence"),
        occurred_at=micros(arguments, "occurred_at"),
        valid_from=micros(arguments, "valid_from"),
        valid_until=micros(arguments, "valid_until"),
        relations=tuple(relations),
    )
    return {"memory": memory, "key": arguments.get("key", "")}


def _encode_note(noted: Any, _: Scope) -> Any:
    return {
        "ref": noted.ref,
        "revision": noted.revision,
        "replayed": noted.replayed,
        "status": "proposed" if noted.proposed else "recorded",
    }


def _decode_search(arguments: Arguments) -> Arguments:
    if not arguments["query"].strip():
        raise InvalidInput("query holds no words", field="query")
    return {"query": arguments["query"]}


def _encode_search(answer: QueryAnswer, scope: Scope) -> Any:
    return {"results": [_result(item, scope) for item in answer.items]}


def _encode_fetch(item: PackItem, scope: Scope) -> Any:
    document = item.document(scope.principal)
    metadata = {name: document[name] for name in ("layer", "confidence", "occurred_at", "entities")}
    return {**_result(item, scope), "text": item.content, "metadata": {**metadata, **item.memory(scope.principal)}}


def _result(item: PackItem, scope: Scope) -> dict[str, Any]:
    document = item.document(scope.principal)
    title = " ".join(item.content.split())
    if len(title) > _TITLE_CHARACTERS:
        title = f"{title[: _TITLE_CHARACTERS - 1]}\u2026"
    ref = document["ref"]
    return {"id": ref, "title": title, "url": document["source_url"] or f"urn:membrane:memory:{ref}"}


_NOTE: Final[Mapping[str, Any]] = {
    "text": text("What is to be remembered.", CARD_TEXT_BYTES_MAX, least=1),
    "topics": texts("What it is about.", CARD_LIST_MAX, LABEL_BYTES_MAX),
    "entities": texts("Whom and what it names.", CARD_LIST_MAX, LABEL_BYTES_MAX),
    "source_url": text("Where it comes from.", SOURCE_URL_BYTES_MAX),
    "confidence": share("How far it can be trusted."),
    "occurred_at": time("When it was true or seen (RFC 3339, with a zone)."),
    "valid_from": time("Since when it holds; of what takes another's place, by default since it is recorded."),
    "valid_until": time("Until when it holds; open by default."),
    "contradicts": texts("Memories that it says otherwise than.", CARD_LIST_MAX, REF_BYTES_MAX),
    "key": text(
        "Name of this write: the same again changes nothing. Without one, nothing while it is live.", ID_BYTES_MAX
    ),
}

_RESULT: Final = {"id": {"type": "string"}, "title": {"type": "string"}, "url": {"type": "string"}}


_NOTED: Final = answers(
    {
        "ref": {"type": "string"},
        "revision": {"type": "integer"},
        "replayed": {"type": "boolean"},
        "status": {"enum": ["proposed", "recorded"]},
    }
)

_ITEMS: Final = {"type": "array", "items": MEMORY_OBJECT_SCHEMA}
_WHOLE: Final = {
    **MEMORY_OBJECT_SCHEMA,
    "properties": {**MEMORY_OBJECT_SCHEMA["properties"], "memory": {"type": "object"}},
}
"""A memory, and beside it, where it is told whole, what the record has of it."""
_QUERIED: Final = {
    "items": _ITEMS,
    "narrowed_from": {"type": "integer", "minimum": 0},
    "narrowed_to": {"type": "integer", "minimum": 0},
    "cursor": {"type": ["string", "null"]},
    "follow_ups": {"type": "array", "items": {"type": "object"}},
    "revision": {"type": "integer", "minimum": 0},
}
_ENVELOPE: Final = {**ENVELOPE_SCHEMA["properties"], "legend": {"type": "object"}}
"""What an envelope has; the legend's text, which is long and constant, is not told twice."""
_PLAIN: Final = {
    **{name: part for name, part in _ENVELOPE.items() if name not in ("legend", "working_memory", "receipt")},
    "revision": {"type": "integer", "minimum": 0},
    "digest": {"type": "string"},
    "warnings": {"type": "array", "items": {"type": "string"}},
}

PACK_TOOLS: Final = (
    Tool(
        name="get_context",
        operation="GetContext",
        title="Get context",
        description="The memories that matter for a task, as many as fit a model's budget, in an envelope that says how"
        " to read it. With a session_id it says what changed since the last call of that session.",
        properties={
            "task": text("What is to be done or answered.", FOCUS_BYTES_MAX),
            "format": {
                "enum": [one.value for one in Format],
                "description": "How the pack is written; smp by default. markdown is the items' lines, which the budget"
                " counts, under three lines and, in a session, above one.",
            },
            "model": text("The model or surface that reads it, such as claude, gpt-4o or cursor.", MODEL_BYTES_MAX),
            "token_budget": {
                "type": "integer",
                "minimum": 1,
                "maximum": PACKET_BUDGET_TOKENS_MAX,
                "description": f"Tokens it may take, within {PACK_BUDGET_TOKENS_MIN} and the model profile's budget.",
            },
            "session_id": text("The conversation whose working set goes on.", ID_BYTES_MAX),
            "items": {"enum": ["all", "new"], "description": "new: content only of what the session does not have."},
            "pin": {"type": "boolean", "description": "Keep the pack under a handle."},
            "pinned": text(f"Read the pack that was kept under this handle ({PIN_PREFIX}...).", ID_BYTES_MAX),
            "topics": texts("Topics of the task.", DECISION_LIST_MAX, LABEL_BYTES_MAX),
            "claims": texts("Claims that the task weighs.", DECISION_LIST_MAX, CLAIM_BYTES_MAX),
            "entities": texts("Whom and what the task is about.", DECISION_LIST_MAX, LABEL_BYTES_MAX),
            "required": texts("Memories that must be there, whole.", REQUIRED_NAMED_MAX, REF_BYTES_MAX),
            "as_of": time("What held at this time (RFC 3339, with a zone)."),
            "counter_share": share("The part of the budget that opposing memories are offered first."),
            "cursor": text("The next page of an earlier pack.", CURSOR_BYTES_MAX),
        },
        decode=_decode_context,
        encode=_encode_context,
        answers={
            "type": "object",
            "anyOf": [answers(_ENVELOPE), answers(_PLAIN), answers({"markdown": {"type": "string"}})],
        },
        named={"decision.focus": "task"},
        writes=True,
        repeatable=False,
    ),
    Tool(
        name="query_memory",
        operation="QueryMemory",
        title="Query memory",
        description="Ask (a pack, as rows) or find (a ranking), narrowed by layer, entity, time, relevance and trust."
        " Filters only take away. With a cursor alone: the next page.",
        properties={
            "ask": text("A task.", QUERY_TEXT_BYTES_MAX),
            "find": text("Words to look for.", QUERY_TEXT_BYTES_MAX),
            "layers": {
                "type": "array",
                "items": {"enum": list(MQL_LAYERS)},
                "maxItems": len(MQL_LAYERS),
                "description": "Keep only these layers.",
            },
            "entities": texts("Keep only what mentions one of these.", QUERY_ENTITIES_MAX, LABEL_BYTES_MAX),
            "as_of": time("Keep only what held at this time (RFC 3339, with a zone)."),
            "valid_only": {"type": "boolean", "description": "Drop what no longer holds; true by default."},
            "min_relevance": share("Keep only what is at least so relevant; drops what nothing rates."),
            "min_trust": share("Keep only what is trusted at least so far; drops what nobody rated."),
            "budget_tokens": {
                "type": "integer",
                "minimum": PACK_BUDGET_TOKENS_MIN,
                "maximum": PACK_BUDGET_TOKENS_DEFAULT,
                "description": "For ask: tokens that the pack may take.",
            },
            "model": text("For ask: who reads it.", MODEL_BYTES_MAX),
            "expand": {
                "enum": [one.value for one in Direction],
                "description": "Suggest this step on from the first row.",
            },
            "k": {"type": "integer", "minimum": 1, "maximum": QUERY_PAGE_MAX, "description": "Rows of a page."},
            "cursor": text("The next page of an earlier answer.", CURSOR_BYTES_MAX),
        },
        decode=_decode_query,
        encode=lambda answer, scope: answer.document(scope.principal),
        answers=answers(_QUERIED),
        named={"at.revision": "cursor"},
    ),
    Tool(
        name="expand",
        operation="Expand",
        title="Expand a reference",
        description="One step on from a ref: the whole memory (document), what it is joined to (neighbors), or the next"
        " page of a query (more, with its cursor). Empty where there is nothing.",
        properties={
            "ref": text("A ref from an item, or a query's cursor.", CURSOR_BYTES_MAX),
            "direction": {"enum": [one.value for one in Direction], "description": "document by default."},
            "cursor": text("For more: a query's cursor.", CURSOR_BYTES_MAX),
        },
        decode=_decode_expand,
        encode=lambda answer, _: answer,
        answers=answers(
            {
                "ref": {"type": ["string", "null"]},
                "direction": {"enum": [one.value for one in Direction]},
                **_QUERIED,
                "items": {"type": "array", "items": _WHOLE},
                "entities": {
                    "type": "array",
                    "items": answers({"entity": {"type": "string"}, "items": _ITEMS}),
                },
            },
            optional=("entities", *(name for name in _QUERIED if name != "items")),
        ),
        named={"at.revision": "cursor"},
    ),
    Tool(
        name="search",
        operation="Search",
        title="Search memories",
        description="Memories that match some words, as results with id, title and url.",
        properties={"query": text("The words.", QUERY_TEXT_BYTES_MAX, least=1)},
        required=("query",),
        decode=_decode_search,
        encode=_encode_search,
        answers=answers({"results": {"type": "array", "items": answers(_RESULT)}}),
        named={"find": "query"},
    ),
    Tool(
        name="fetch",
        operation="Fetch",
        title="Fetch a memory",
        description="One memory, whole, by the id that search gave.",
        properties={"id": text("The id.", REF_BYTES_MAX, least=1)},
        required=("id",),
        decode=lambda arguments: {"ref": arguments["id"]},
        encode=_encode_fetch,
        named={"ref": "id"},
        answers=answers({**_RESULT, "text": {"type": "string"}, "metadata": {"type": "object"}}),
    ),
    Tool(
        name="remember_this",
        operation="RememberThis",
        title="Remember this",
        description="Record a memory. It may take the place of memories of your own; it makes no rules.",
        properties={
            **_NOTE,
            "kind": {"enum": list(_KINDS), "description": "What it is; fact by default."},
            "supersedes": texts("Memories of your own that it takes the place of.", CARD_LIST_MAX, REF_BYTES_MAX),
        },
        required=("text",),
        decode=_decode_note,
        encode=_encode_note,
        answers=_NOTED,
        writes=True,
    ),
    Tool(
        name="propose_memory",
        operation="ProposeMemory",
        title="Propose a memory",
        description="Record a memory that nobody has confirmed, as a hypothesis.",
        properties=_NOTE,
        required=("text",),
        decode=_decode_note,
        encode=_encode_note,
        answers=_NOTED,
        writes=True,
    ),
)
