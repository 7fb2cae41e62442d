"""The fact graph of a run: what was said, when it holds, and proof that nobody changed it.

The engine works everything out; nothing is put together on this side. Times are RFC 3339 with a zone. Answers are the
documents of the tools memory_record_episode, memory_upsert_fact and so on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final
from uuid import uuid4

from mn.context.working.v1 import card_pb2
from mn_contract.errors import InvalidInput
from mn_contract.limits import BATCH_CARDS_MAX
from mn_contract.names import check_id
from mn_sdk.arguments import read_time
from mn_sdk.memories import Ask, asked_document

_SAID: Final = ("subject", "predicate", "object")
_NEEDED: Final = frozenset(_SAID)
_TIMES: Final = ("valid_from", "valid_until")
_PARTS: Final = _NEEDED | {"qualifier", "singular", "confidence", *_TIMES}


class Facts:
    """Episodes and facts of one scope. Raises the contract's errors."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def record_episode(
        self,
        content: str,
        *,
        source: str,
        occurred_at: str | None = None,
        entities: Sequence[str] = (),
        key: str | None = None,
    ) -> dict[str, Any]:
        """Records what happened, word for word: {ref, refs, revision, root, replayed}."""
        return self._document(
            "RecordEpisode",
            content=content,
            source=source,
            occurred_at=occurred_at,
            entities=list(entities) or None,
            key=key,
        )

    def upsert(self, subject: str, predicate: str, object: str, **arguments: Any) -> dict[str, Any]:
        """Records a fact: {ref, refs, revision, root, replayed}. Further arguments are those of the tool
        memory_upsert_fact: `valid_from`, `valid_until`, `singular`, `qualifier`, `source_episode`, `source_range`,
        `confidence`, `key`."""
        return self._document("UpsertFact", subject=subject, predicate=predicate, object=object, **arguments)

    def upsert_many(self, facts: Iterable[Mapping[str, Any]], *, key: str | None = None) -> dict[str, Any]:
        """Records facts in one transaction, at most 4,096: {subject, predicate, object, qualifier, singular,
        valid_from, valid_until, confidence}. Answers {refs, revision, replayed}, their references in order. The same
        again under the same `key` changes nothing; without one they are said again."""
        some = islice(facts, BATCH_CARDS_MAX + 1)
        messages = [_new_fact(fact, place) for place, fact in enumerate(some)]
        if not 1 <= len(messages) <= BATCH_CARDS_MAX:
            raise InvalidInput(f"1-{BATCH_CARDS_MAX} facts can be recorded at once", field="facts")
        named = f"facts-{uuid4().hex}" if key is None else check_id(key, "key")
        answer = self._ask("RecordFacts", card_pb2.RecordFactsRequest(key=named, facts=messages))
        return {"refs": list(answer.cards), "revision": answer.revision, "replayed": answer.replayed}

    def compile(self, query: str, *, max_tokens: int, **arguments: Any) -> dict[str, Any]:
        """The best facts and episodes for a question, as `text` of at most `max_tokens`; further arguments are those
        of memory_compile_context: `as_of`, `include_superseded`, `model`."""
        return self._document("CompileContext", query=query, max_tokens=max_tokens, **arguments)

    def entity(self, entity: str, *, hops: int = 1, as_of: str | None = None) -> dict[str, Any]:
        """What is known of an entity, and of those that it has to do with: {facts, episodes, entities, cut, ...}."""
        return self._document("QueryEntity", entity=entity, hops=hops, as_of=as_of)

    def time_travel(
        self,
        as_of: str,
        *,
        recorded_as_of: str | int | None = None,
        subject: str | None = None,
        predicate: str | None = None,
    ) -> dict[str, Any]:
        """The facts that held at a time; with `recorded_as_of`, a time or a revision, as they were known then:
        {facts, total, as_of, revision}."""
        recorded = None if recorded_as_of is None else str(recorded_as_of)
        return self._document("TimeTravel", as_of=as_of, recorded_as_of=recorded, subject=subject, predicate=predicate)

    def contradictions(self) -> list[list[dict[str, Any]]]:
        """Pairs of facts from different sources that say otherwise of one time."""
        found: list[list[dict[str, Any]]] = self._document("ListContradictions")["contradictions"]
        return found

    def propose(self, content: str, *, about: str | None = None) -> list[dict[str, Any]]:
        """What might be facts in a text: {subject, predicate, object, source_range} each. Nothing is recorded."""
        found: list[dict[str, Any]] = self._document("ProposeFacts", content=content, about=about)["candidates"]
        return found

    def verify(self, expected_root: str | None = None) -> dict[str, Any]:
        """Whether everything stored is as it was written: {holds, root, revision, leaves, tampered}."""
        return self._document("VerifyIntegrity", expected_root=expected_root)

    def bundle(self, refs: Sequence[str]) -> dict[str, Any]:
        """Facts with what they cite and proof of it; `mn-context-engine verify-bundle` checks it."""
        return self._document("ExportBundle", refs=list(refs))

    def signed_root(self, *, revision: int | None = None) -> dict[str, Any]:
        """The run's root, or that of an earlier revision, under the engine's signature: {note, revision, size, root}.
        Keep `note`: `mn-context-engine verify-root` checks it."""
        return self._document("ExportRoot", revision=revision)

    def _document(self, operation: str, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(asked_document(self._ask, operation, arguments))
        return answer


def _new_fact(fact: Mapping[str, Any], place: int) -> card_pb2.NewFact:
    if not isinstance(fact, Mapping):
        raise InvalidInput(f"facts[{place}] is no object", field=f"facts[{place}]")
    unknown = fact.keys() - _PARTS
    if unknown or not fact.keys() >= _NEEDED:
        told = f"it has no {', '.join(sorted(map(str, unknown)))}" if unknown else f"it needs {', '.join(_SAID)}"
        raise InvalidInput(f"facts[{place}] cannot be read: {told}", field=f"facts[{place}]")
    said = {name: value for name, value in fact.items() if value is not None}
    for name in _TIMES:
        if name in said:
            said[name] = read_time(said[name], f"facts[{place}].{name}")
    try:
        return card_pb2.NewFact(**said)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"facts[{place}] cannot be read: {error}", field=f"facts[{place}]") from error
