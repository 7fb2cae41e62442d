"""Recording many facts at once: as one event, whose cards are made column by column.

A fact's card has few fields, and all of a batch are alike. So neither a card nor a document is made of each: what Card,
analyse and store.columns.bulk_row would make of it is written down at once, to the byte; a test holds it to them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final

import pyarrow as pa

from mn_contract.documents import ARTIFACT_PREFIX
from mn_contract.errors import InvalidInput
from mn_contract.limits import CARD_TEXT_BYTES_MAX
from mn_engine.domain.artifacts import Artifact
from mn_engine.domain.cards import CardKey, Kind, Stance, check_size, document_tokens
from mn_engine.domain.events import PreparedArtifact, check_replay
from mn_engine.domain.hashes import hash64
from mn_engine.domain.requests import TEXT_MEDIA_TYPE, NewFact, NewFacts, of_fact
from mn_engine.domain.scope import Scope
from mn_engine.domain.times import format_rfc3339
from mn_engine.recall.analysis import ANALYSIS_VERSION, analyse_labels, analyse_words
from mn_engine.service.engine import Call, Engine
from mn_engine.service.runs import written_run
from mn_engine.store.columns import arrow
from mn_engine.store.port import BULK_CARDS

_FACT: Final = int(Kind.FACT)
_NEUTRAL: Final = int(Stance.NEUTRAL)
_TIMES_KEPT: Final = 4096
_TOGETHER_BYTES: Final = CARD_TEXT_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Facts that were recorded, or had been: their references, in order."""

    refs: tuple[str, ...]
    revision: int
    replayed: bool


def record_facts(engine: Engine, scope: Scope, call: Call, *, asked: NewFacts) -> Recorded:
    """Records facts in one transaction. The same again under the same key is answered from the record. What they take
    the place of follows from the record. Raises InvalidInput, IdempotencyConflict, ContextBudgetExceeded."""
    call.check()
    written_run(engine, scope)
    refs, fingerprint = tuple(asked.ids), asked.fingerprint
    recorded = engine.store.event(scope.run_key, scope.principal, asked.key)
    if recorded is not None:  # a fact that began when it was recorded may have ended by now
        return Recorded(refs=refs, revision=check_replay(recorded, fingerprint).revision, replayed=True)
    now = engine.clock()
    artifacts, bodies = stored(scope.principal, asked.facts)
    vectors = [vector.tobytes() for vector in engine.embedder().embed([one.fact.statement for one in asked.facts])]
    receipt = engine.store.commit_table(
        scope.run_key,
        owner=scope.principal,
        key=asked.key,
        fingerprint=fingerprint,
        cards=table_of(asked, bodies, owner=scope.principal, now=now, vectors=vectors),
        artifacts=artifacts,
        recorded_at=now,
        expired=call.expired,
    )
    (told,) = receipt.events
    return Recorded(refs=refs, revision=told.revision, replayed=told.replayed)


@dataclass(frozen=True, slots=True)
class Body:
    """Where a fact's text stands: bytes [start, end) of an artifact, and their SHA-256."""

    artifact: str
    start: int
    end: int
    sha256: str


def stored(owner: str, facts: Sequence[NewFact]) -> tuple[list[PreparedArtifact], list[Body]]:
    """Artifacts that hold the facts' texts, a line each, and where in them each text stands."""
    artifacts: list[PreparedArtifact] = []
    bodies: list[Body] = []
    for lines in _together(facts):
        data = b"\n".join(lines)
        sha256 = hashlib.sha256(data).hexdigest()
        handle = Artifact(sha256=sha256, size=len(data), media_type=TEXT_MEDIA_TYPE, owner=owner)
        artifacts.append(PreparedArtifact(handle=handle, data=data))
        start = 0
        for line in lines:
            bodies.append(Body(sha256, start, start + len(line), hashlib.sha256(line).hexdigest()))
            start += len(line) + 1
    return artifacts, bodies


def _together(facts: Sequence[NewFact]) -> Iterator[list[bytes]]:
    """The facts' texts, as many together as fill an artifact: not more, because who reads one text reads all of it."""
    lines: list[bytes] = []
    size = 0
    for one in facts:
        line = one.fact.statement.encode("utf-8")
        if lines and size + len(line) > _TOGETHER_BYTES:
            yield lines
            lines, size = [], 0
        lines.append(line)
        size += len(line) + 1
    yield lines


def table_of(asked: NewFacts, bodies: Sequence[Body], *, owner: str, now: int, vectors: Sequence[bytes]) -> pa.Table:
    """The facts' cards as a BULK_CARDS table. Raises InvalidInput where one is too large, or holds at no time."""
    rows: list[tuple[object, ...]] = []
    for card_id, one, body, vector in zip(asked.ids, asked.facts, bodies, vectors, strict=True):
        try:
            rows.append(_row(card_id, one, body, vector, owner, now))
        except InvalidInput as error:
            raise of_fact(len(rows), error) from error
    return arrow(BULK_CARDS, rows)


def _row(card_id: str, said: NewFact, body: Body, vector: bytes, owner: str, now: int) -> tuple[object, ...]:
    """A fact's BULK_CARDS row."""
    fact, quoted = said.fact, encode_basestring
    text, entities = fact.statement, fact.entities
    since = now if said.valid_from is None else said.valid_from
    said.check_end(since)
    sure = "" if said.confidence is None else f'"confidence":{said.confidence!r},'
    ends = "" if said.valid_until is None else f',"valid_until":{said.valid_until}'
    told_ends = "" if said.valid_until is None else f',"valid_until":"{_rfc3339(said.valid_until)}"'
    told = quoted(text)
    meta = (
        f'{{"body":["{body.artifact}",{body.start},{body.end},"{body.sha256}"],"captured_at":{now},{sure}'
        f'"entities":[{",".join(map(quoted, entities))}],"fact":[{quoted(fact.subject)},{quoted(fact.predicate)},'
        f'{quoted(fact.object)},{quoted(fact.qualifier)},{"true" if fact.singular else "false"}],"id":"{card_id}",'
        f'"kind":{_FACT},"owner":"{owner}","valid_from":{since}{ends}}}'
    )
    document = (
        f'{{{sure}"id":"{card_id}","kind":"fact","source":"{body.artifact[:ARTIFACT_PREFIX]}:{body.start}-{body.end}",'
        f'"text":{told},"valid_from":"{_rfc3339(since)}"{told_ends}}}'
    )
    check_size(_size(meta) + _size(f',"text":{told}'))
    size = _size(document) + 1
    terms, counts, length = analyse_words(text, *entities)
    return (
        card_id,
        _FACT,
        _NEUTRAL,
        "",  # acl: everybody
        None,  # occurred_at
        since,
        said.valid_until,
        ANALYSIS_VERSION,
        terms,
        counts,
        length,
        b"",  # topics
        analyse_labels(entities),
        b"",  # claims
        b"",
        hash64(card_id),
        CardKey(owner, card_id).hash,
        hash64(text),
        size,
        document_tokens(size),
        _artifact_hash(body.artifact),
        vector,
        fact.place_hash,
        fact.triple_hash,
        fact.singular,
        text,
        meta,
    )


def _size(text: str) -> int:
    """In UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8"))


@lru_cache(maxsize=_TIMES_KEPT)
def _rfc3339(micros: int) -> str:
    return format_rfc3339(micros)


@lru_cache(maxsize=64)
def _artifact_hash(sha256: str) -> int:
    return hash64(sha256)
