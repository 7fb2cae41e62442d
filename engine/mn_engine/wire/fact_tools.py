"""The tools of the fact graph: rows of the tool table (wire.table)."""

from __future__ import annotations

from typing import Any, Final

from mn_contract.errors import InvalidInput
from mn_contract.limits import (
    ARTIFACT_INLINE_BYTES_MAX,
    CARD_LIST_MAX,
    FACT_OBJECT_BYTES_MAX,
    FACTS_PAGE_MAX,
    HOPS_MAX,
    ID_BYTES_MAX,
    LABEL_BYTES_MAX,
    PACKET_BUDGET_TOKENS_MAX,
    QUERY_TEXT_BYTES_MAX,
    SOURCE_URL_BYTES_MAX,
)
from mn_engine.domain.facts import Fact
from mn_engine.domain.packs import MODEL_BYTES_MAX
from mn_engine.domain.scope import Scope
from mn_engine.domain.times import format_rfc3339, parse_rfc3339
from mn_engine.wire.tools import REF_BYTES_MAX, Arguments, Tool, answers, micros, share, text, texts, time

_SHA256_DIGITS: Final = 64
_UINT32_MAX: Final = (1 << 32) - 1
"""What the message's field holds."""


def _decode_episode(arguments: Arguments) -> Arguments:
    return {
        "content": arguments["content"],
        "source": arguments["source"],
        "occurred_at": micros(arguments, "occurred_at"),
        "entities": tuple(arguments.get("entities", ())),
        "key": arguments.get("key", ""),
    }


def _encode_written(written: Any, _: Scope) -> Any:
    return {
        "ref": written.refs[0],
        "refs": list(written.refs),
        "revision": written.revision,
        "root": written.root,
        "replayed": written.replayed,
    }


def _decode_fact(arguments: Arguments) -> Arguments:
    part = arguments.get("source_range")
    return {
        "fact": Fact(
            subject=arguments["subject"],
            predicate=arguments["predicate"],
            object=arguments["object"],
            qualifier=arguments.get("qualifier", ""),
            singular=arguments.get("singular", True),
        ),
        "valid_from": micros(arguments, "valid_from"),
        "valid_until": micros(arguments, "valid_until"),
        "source_episode": arguments.get("source_episode", ""),
        "source_range": None if not part else (part[0], part[1]),
        "confidence": arguments.get("confidence"),
        "key": arguments.get("key", ""),
    }


def _decode_compile(arguments: Arguments) -> Arguments:
    return {
        "query": arguments["query"],
        "max_tokens": arguments["max_tokens"],
        "as_of": micros(arguments, "as_of"),
        "include_superseded": arguments.get("include_superseded", False),
        "model": arguments.get("model", ""),
    }


def _encode_compile(context: Any, scope: Scope) -> Any:
    return {
        "text": context.text,
        "refs": list(context.refs),
        "facts": [known.document(scope.principal) for known in context.facts],
        "episodes": [item.document(scope.principal) for item in context.episodes],
        "tokens": {"used": context.used, "max": context.budget, "counter": context.counter},
        "left": context.left,
        "as_of": None if context.as_of is None else format_rfc3339(context.as_of),
        "revision": context.revision,
        "root": context.root,
    }


def _decode_entity(arguments: Arguments) -> Arguments:
    return {"entity": arguments["entity"], "hops": arguments.get("hops", 1), "as_of": micros(arguments, "as_of")}


def _encode_entity(around: Any, scope: Scope) -> Any:
    return {
        "entity": around.entity,
        "facts": [known.document(scope.principal) for known in around.facts],
        "episodes": [item.document(scope.principal) for item in around.episodes],
        "entities": [{"entity": name, "hops": hops} for name, hops in around.entities],
        "cut": around.cut,
        "as_of": format_rfc3339(around.as_of),
        "revision": around.revision,
    }


def _decode_travel(arguments: Arguments) -> Arguments:
    recorded = arguments.get("recorded_as_of")
    revision = recorded_at = None
    if recorded is not None and recorded.isascii() and recorded.isdecimal():
        revision = int(recorded)
    elif recorded is not None:
        recorded_at = parse_rfc3339(recorded, "recorded_as_of")
    return {
        "as_of": micros(arguments, "as_of"),
        "recorded_as_of": revision,
        "recorded_at": recorded_at,
        "subject": arguments.get("subject", ""),
        "predicate": arguments.get("predicate", ""),
    }


def _encode_travel(known: Any, scope: Scope) -> Any:
    return {
        "facts": [one.document(scope.principal) for one in known.facts],
        "total": known.total,
        "as_of": format_rfc3339(known.as_of),
        "revision": known.revision,
    }


def _encode_integrity(found: Any, _: Scope) -> Any:
    tampered = found.tampered
    return {
        "holds": found.holds,
        "root": found.root,
        "revision": found.revision,
        "leaves": found.size,
        "tampered": tampered
        and {"leaf": tampered.number, "kind": tampered.kind, "name": tampered.name, "why": tampered.why},
    }


def _encode_contradictions(pairs: Any, scope: Scope) -> Any:
    return {"contradictions": [[one.document(scope.principal) for one in pair] for pair in pairs]}


def _decode_propose(arguments: Arguments) -> Arguments:
    return {"content": arguments["content"], "about": arguments.get("about", "")}


def _encode_proposed(found: Any, _: Scope) -> Any:
    return {
        "candidates": [
            {
                "subject": one.subject,
                "predicate": one.predicate,
                "object": one.object,
                "source_range": [one.start, one.end],
            }
            for one in found
        ]
    }


def _encode_root(signed: Any, _: Scope) -> Any:
    checkpoint = signed.checkpoint
    return {
        "note": signed.note,
        "revision": checkpoint.revision,
        "size": checkpoint.size,
        "root": checkpoint.root,
    }


def _decode_refs(arguments: Arguments) -> Arguments:
    refs = tuple(arguments["refs"])
    if not refs:
        raise InvalidInput("refs names nothing", field="refs")
    return {"refs": refs}


_KEY: Final = text("Name of this write: the same again changes nothing.", ID_BYTES_MAX)
_LIST: Final = {"type": "array", "items": {"type": "object"}}
_WHOLE: Final = {"type": "integer", "minimum": 0}
_STRING: Final = {"type": "string"}
_WRITTEN: Final = answers(
    {
        "ref": _STRING,
        "refs": {"type": "array", "items": _STRING},
        "revision": _WHOLE,
        "root": _STRING,
        "replayed": {"type": "boolean"},
    }
)

FACT_TOOLS: Final = (
    Tool(
        name="memory_record_episode",
        operation="RecordEpisode",
        title="Record an episode",
        description="Record what happened or was said, word for word. Facts can cite it as their source_episode.",
        properties={
            "content": text("What happened, in words.", ARTIFACT_INLINE_BYTES_MAX, least=1),
            "source": text("Where it comes from: a URL, a file, a person.", SOURCE_URL_BYTES_MAX, least=1),
            "occurred_at": time("When it happened (RFC 3339, with a zone)."),
            "entities": texts("Whom and what it names.", CARD_LIST_MAX, LABEL_BYTES_MAX),
            "key": _KEY,
        },
        required=("content", "source"),
        decode=_decode_episode,
        encode=_encode_written,
        answers=_WRITTEN,
        writes=True,
    ),
    Tool(
        name="memory_upsert_fact",
        operation="UpsertFact",
        title="Record a fact",
        description="Record a fact as subject, predicate and object, and since when it holds. A singular predicate has "
        "one object at a time: the new fact takes the place of the one before it from its valid_from on, and what held "
        "earlier stays known.",
        properties={
            "subject": text("Of whom or what it is said.", LABEL_BYTES_MAX, least=1),
            "predicate": text("What is said of it, such as works_at.", LABEL_BYTES_MAX, least=1),
            "object": text("Who or what it is.", FACT_OBJECT_BYTES_MAX, least=1),
            "valid_from": time("Since when it holds (RFC 3339, with a zone); now by default."),
            "valid_until": time("Until when it holds; open by default."),
            "singular": {"type": "boolean", "description": "One object at a time; true by default."},
            "qualifier": text("Which of several places of the predicate, such as home.", LABEL_BYTES_MAX),
            "source_episode": text("The episode that says so, as a ref.", REF_BYTES_MAX),
            "source_range": {
                "type": "array",
                "items": _WHOLE,
                "minItems": 2,
                "maxItems": 2,
                "description": "Start and end of what says so, in bytes of the episode's text.",
            },
            "confidence": share("How far it can be trusted."),
            "key": _KEY,
        },
        required=("subject", "predicate", "object"),
        decode=_decode_fact,
        encode=_encode_written,
        answers=_WRITTEN,
        writes=True,
    ),
    Tool(
        name="memory_compile_context",
        operation="CompileContext",
        title="Compile context",
        description="The facts and episodes that matter most for a question, by its words and by what they have to do "
        "with each other, as text of at most max_tokens. What no longer holds is left out.",
        properties={
            "query": text("The question.", QUERY_TEXT_BYTES_MAX, least=1),
            "max_tokens": {
                "type": "integer",
                "minimum": 1,
                "maximum": PACKET_BUDGET_TOKENS_MAX,
                "description": "Tokens that the text may take.",
            },
            "as_of": time("What held at this time (RFC 3339, with a zone); now by default."),
            "include_superseded": {"type": "boolean", "description": "Also what holds no more; false by default."},
            "model": text("Whose tokenizer counts; o200k_base by default.", MODEL_BYTES_MAX),
        },
        required=("query", "max_tokens"),
        decode=_decode_compile,
        encode=_encode_compile,
        answers=answers(
            {
                "text": _STRING,
                "refs": {"type": "array", "items": _STRING},
                "facts": _LIST,
                "episodes": _LIST,
                "tokens": {"type": "object"},
                "left": _WHOLE,
                "as_of": {"type": ["string", "null"]},
                "revision": _WHOLE,
                "root": _STRING,
            }
        ),
    ),
    Tool(
        name="memory_query_entity",
        operation="QueryEntity",
        title="Ask about an entity",
        description="What is known of somebody or something, and of those that it has to do with.",
        properties={
            "entity": text("Its name.", LABEL_BYTES_MAX, least=1),
            "hops": {
                "type": "integer",
                "minimum": 1,
                "maximum": HOPS_MAX,
                "description": "How far from it; 1 by default.",
            },
            "as_of": time("What held at this time (RFC 3339, with a zone); now by default."),
        },
        required=("entity",),
        decode=_decode_entity,
        encode=_encode_entity,
        answers=answers(
            {
                "entity": _STRING,
                "facts": _LIST,
                "episodes": _LIST,
                "entities": _LIST,
                "cut": {"type": "boolean"},
                "as_of": _STRING,
                "revision": _WHOLE,
            }
        ),
    ),
    Tool(
        name="memory_time_travel",
        operation="TimeTravel",
        title="Ask what held when",
        description="The facts that held at a time, as they are known now or were known then.",
        properties={
            "as_of": time("When they held (RFC 3339, with a zone)."),
            "recorded_as_of": text("As it was known by then: a time (RFC 3339, with a zone), or a revision.", 64),
            "subject": text("Only of this subject.", LABEL_BYTES_MAX),
            "predicate": text("Only with this predicate.", LABEL_BYTES_MAX),
        },
        required=("as_of",),
        decode=_decode_travel,
        encode=_encode_travel,
        answers=answers({"facts": _LIST, "total": _WHOLE, "as_of": _STRING, "revision": _WHOLE}),
    ),
    Tool(
        name="memory_verify_integrity",
        operation="VerifyIntegrity",
        title="Verify the record",
        description="Whether everything that is stored is as it was written, and which record is the first that is not."
        " With a root that you have kept, also whether the record goes back to it.",
        properties={"expected_root": text("A root that was answered earlier.", _SHA256_DIGITS)},
        decode=lambda arguments: {"expected_root": arguments.get("expected_root", "")},
        encode=_encode_integrity,
        answers=answers(
            {
                "holds": {"type": "boolean"},
                "root": _STRING,
                "revision": _WHOLE,
                "leaves": _WHOLE,
                "tampered": {"type": ["object", "null"]},
            }
        ),
    ),
    Tool(
        name="memory_list_contradictions",
        operation="ListContradictions",
        title="List contradictions",
        description="Pairs of facts from different sources that say otherwise of one time. Both are kept.",
        properties={},
        decode=lambda arguments: {},
        encode=_encode_contradictions,
        answers=answers({"contradictions": {"type": "array", "items": _LIST}}),
    ),
    Tool(
        name="memory_propose_facts",
        operation="ProposeFacts",
        title="Propose facts",
        description="What simple sentences and key: value lines of a text would be as facts. Nothing is recorded.",
        properties={
            "content": text("The text.", ARTIFACT_INLINE_BYTES_MAX, least=1),
            "about": text("The subject of key: value lines that name none.", LABEL_BYTES_MAX),
        },
        required=("content",),
        decode=_decode_propose,
        encode=_encode_proposed,
        answers=answers({"candidates": _LIST}),
    ),
    Tool(
        name="memory_export_bundle",
        operation="ExportBundle",
        title="Export a citation bundle",
        description="Facts with the episodes and the bytes that they cite, and proof that this run's record has them. "
        "`mn-context-engine verify-bundle` checks it without the record.",
        properties={"refs": texts("The facts, as refs.", FACTS_PAGE_MAX, REF_BYTES_MAX)},
        required=("refs",),
        decode=_decode_refs,
        encode=lambda bundle, _: bundle,
        answers=answers(
            {
                **dict.fromkeys(("format", "job_id", "run_id", "root", "previous_root", "tree"), _STRING),
                **dict.fromkeys(("revision", "size"), _WHOLE),
                **dict.fromkeys(("records", "sources"), _LIST),
            }
        ),
    ),
    Tool(
        name="memory_export_root",
        operation="ExportRoot",
        title="Export the signed root",
        description="The run's root as a note under this engine's signature (C2SP signed-note and tlog-checkpoint), to "
        "keep elsewhere and hold the record to. `mn-context-engine verify-root` checks it, alone or with a bundle.",
        properties={
            "revision": {
                **_WHOLE,
                "maximum": _UINT32_MAX,
                "description": "Of an earlier revision; the newest by default.",
            }
        },
        decode=lambda arguments: {"revision": arguments.get("revision")},
        encode=_encode_root,
        answers=answers({"note": _STRING, "revision": _WHOLE, "size": _WHOLE, "root": _STRING}),
    ),
)
