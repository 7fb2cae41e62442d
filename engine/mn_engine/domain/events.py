"""Events: idempotent writes, and what a commit decides about each (invariant 9).

An event's identity is (run, principal, key); its fingerprint covers everything the caller said and nothing that the
engine added, so that a retry is recognised whenever it comes.
"""

from __future__ import annotations

from dataclasses import dataclass

from mn_contract.errors import IdempotencyConflict, StaleRevision
from mn_engine.domain.artifacts import Artifact
from mn_engine.domain.cards import Card, CardKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What the derived index needs of a card, stored with it so that the index never reads text again.

    Little-endian arrays as bytes: `terms` uint32 hashes ascending, `counts` uint8 (capped at 255) beside them;
    `topics`, `entities` and `claims` uint32 hashes ascending, `claim_stances` uint8 beside the claims. `length` is
    the number of terms with repetition. `id_hash` and `key_hash` name (id) and (owner, id) in 64 bits; `text_hash`
    names the text. `document_bytes` is document_size of the card's document for its owner, without conflicts and not
    required; `document_tokens` is what it takes of a token budget; `body_hash` names the artifact that its text stands
    in. `fact_place` and `fact_triple` are a fact's hashes, 0 where the card says none. `vector` is what the text means:
    DIMENSIONS int8 of an embedder, empty where there was none.
    """

    version: int
    terms: bytes
    counts: bytes
    length: int
    topics: bytes
    entities: bytes
    claims: bytes
    claim_stances: bytes
    id_hash: int
    key_hash: int
    text_hash: int
    document_bytes: int
    document_tokens: int
    body_hash: int
    fact_place: int = 0
    fact_triple: int = 0
    fact_singular: bool = False
    vector: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCard:
    """A valid card and its analysis, ready to be committed."""

    card: Card
    analysis: Analysis


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedArtifact:
    """An artifact to be stored with the event that cites it: its handle and its bytes."""

    handle: Artifact
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedEvent:
    """A valid event, ready to be committed; `recorded_at` is when that was so, in microseconds. A `bulk` one is charged
    for the texts of its cards alone, and its receipt names none of them."""

    owner: str
    key: str
    fingerprint: str
    artifacts: tuple[PreparedArtifact, ...] = ()
    cards: tuple[PreparedCard, ...] = ()
    resolves: tuple[CardKey, ...] = ()
    recorded_at: int = 0
    bulk: bool = False

    @property
    def card_bytes(self) -> int:
        """Bytes charged for its cards: texts and summaries; nothing for indexes and keys."""
        charged = ("text",) if self.bulk else ("text", "summary")
        return sum(len(getattr(prepared.card, name).encode()) for prepared in self.cards for name in charged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Events to commit together, all or none, at `expected_revision` where it is given."""

    run_key: str
    events: tuple[PreparedEvent, ...]
    expected_revision: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReceipt:
    """What became of one event."""

    key: str
    revision: int
    replayed: bool
    fingerprint: str
    cards: tuple[CardKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReceipt:
    """What became of a batch: the run's revision after it, and a receipt an event."""

    revision: int
    events: tuple[EventReceipt, ...]


def check_replay(recorded: EventReceipt, fingerprint: str) -> EventReceipt:
    """The stored receipt, marked as replayed. Raises IdempotencyConflict where the key was used for other content."""
    if recorded.fingerprint != fingerprint:
        raise IdempotencyConflict(
            f"event key {recorded.key!r} was used for other content; give this event a key of its own", key=recorded.key
        )
    return EventReceipt(
        key=recorded.key, revision=recorded.revision, replayed=True, fingerprint=fingerprint, cards=recorded.cards
    )


def check_expected(expected: int | None, newest: int) -> None:
    """Raises StaleRevision where a write or a read asked for another revision than the newest."""
    if expected is not None and expected != newest:
        raise StaleRevision(
            f"the run is at revision {newest}, not {expected}; read again and retry", expected=expected, newest=newest
        )
