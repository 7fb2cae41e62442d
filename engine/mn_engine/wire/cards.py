"""Cards, events and artifacts between protobuf and the domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mn.context.working.v1 import artifact_pb2, card_pb2
from mn_contract.errors import InvalidInput
from mn_contract.names import format_ref
from mn_engine.domain.access import OPEN
from mn_engine.domain.artifacts import Artifact
from mn_engine.domain.cards import LAYERS, Card, CardKey, Kind, SourceRange, Stance, StoredCard, Validation
from mn_engine.domain.events import BatchReceipt, EventReceipt
from mn_engine.domain.facts import Fact
from mn_engine.domain.requests import BYTES_MEDIA_TYPE, NewArtifact, NewCard, NewEvent, NewFact, NewRange, of_fact
from mn_engine.domain.scope import Scope
from mn_engine.wire.scalars import (
    decode_acl,
    decode_enum,
    decode_optional,
    decode_time,
    encode_acl,
    split_time,
)

_KINDS: Final[dict[Kind, Any]] = {kind: card_pb2.CardKind.Value(f"CARD_KIND_{kind.name}") for kind in Kind}
_STANCES: Final[dict[Stance, Any]] = {stance: card_pb2.Stance.Value(f"STANCE_{stance.name}") for stance in Stance}
_VALIDATIONS: Final[dict[Validation, Any]] = {
    value: card_pb2.Validation.Value(f"VALIDATION_{value.name}") for value in Validation
}


def decode_range(message: artifact_pb2.SourceRange) -> NewRange:
    """A range as a caller cites it."""
    return NewRange(artifact=message.artifact_sha256, start=message.start, end=message.end, sha256=message.sha256)


def encode_artifact(artifact: Artifact) -> artifact_pb2.Artifact:
    """What an artifact is; not for whom."""
    return artifact_pb2.Artifact(sha256=artifact.sha256, size_bytes=artifact.size, media_type=artifact.media_type)


def decode_event(message: card_pb2.Event) -> NewEvent:
    """An event as a caller asks for it."""
    return NewEvent(
        key=message.key,
        artifacts=tuple(
            NewArtifact(
                data=artifact.data, media_type=artifact.media_type or BYTES_MEDIA_TYPE, acl=decode_acl(artifact, "acl")
            )
            for artifact in message.artifacts
        ),
        cards=tuple(decode_card(card) for card in message.cards),
        resolves=tuple(message.resolves),
    )


def decode_card(message: card_pb2.Card) -> NewCard:
    """A card as a caller writes it; fields that the engine sets are ignored."""
    return NewCard(
        id=message.id,
        kind=decode_enum(Kind, message.kind, "card.kind"),
        text=message.text,
        body=decode_range(message.body) if message.HasField("body") else None,
        sources=tuple(decode_range(source) for source in message.sources),
        summary=message.summary,
        topics=tuple(message.topics),
        entities=tuple(message.entities),
        stance=decode_enum(Stance, message.stance, "card.stance", default=Stance.NEUTRAL),
        claims=tuple(
            (claim.claim, decode_enum(Stance, claim.stance, "card.claims.stance")) for claim in message.claims
        ),
        validation=decode_enum(Validation, message.validation, "card.validation", default=Validation.UNVERIFIED),
        confidence=decode_optional(message, "confidence"),
        trust=decode_optional(message, "trust"),
        occurred_at=decode_time(message, "occurred_at", "card.occurred_at"),
        captured_at=decode_time(message, "captured_at", "card.captured_at"),
        valid_from=decode_time(message, "valid_from", "card.valid_from"),
        valid_until=decode_time(message, "valid_until", "card.valid_until"),
        source_url=message.source_url,
        relations=tuple((relation.type, relation.target) for relation in message.relations),
        acl=decode_acl(message, "acl"),
        occurrences=message.occurrences or 1,
        tokens=message.tokens,
        fact=_decode_fact(message.fact) if message.HasField("fact") else None,
    )


def decode_facts(messages: Sequence[card_pb2.NewFact]) -> tuple[NewFact, ...]:
    """Facts as a caller writes them. Raises InvalidInput, which names the fact by its number."""
    facts: list[NewFact] = []
    for message in messages:
        try:
            facts.append(_decode_new_fact(message))
        except InvalidInput as error:
            raise of_fact(len(facts), error) from error
    return tuple(facts)


def _decode_new_fact(message: card_pb2.NewFact) -> NewFact:
    return NewFact(
        fact=Fact(
            subject=message.subject,
            predicate=message.predicate,
            object=message.object,
            qualifier=message.qualifier,
            singular=message.singular if message.HasField("singular") else True,
        ),
        valid_from=decode_time(message, "valid_from", "valid_from"),
        valid_until=decode_time(message, "valid_until", "valid_until"),
        confidence=decode_optional(message, "confidence"),
    )


def encode_card(stored: StoredCard, conflicts: tuple[CardKey, ...], asker: Scope) -> card_pb2.Card:
    """A card as `asker` sees it: references are the asker's, the ACL is shown to its owner only."""
    message = card_pb2.Card()
    fill_card(message, stored, conflicts, asker)
    return message


def fill_card(message: card_pb2.Card, stored: StoredCard, conflicts: tuple[CardKey, ...], asker: Scope) -> None:
    """The same, into an empty message that stands in its answer already: building it apart would copy it."""
    card = stored.card
    message.ref = _ref(card.key, asker)
    message.id = card.id
    message.kind = _KINDS[card.kind]
    message.layer = LAYERS[card.kind][0]
    message.text = card.text
    message.stance = _STANCES[card.stance]
    message.validation = _VALIDATIONS[card.validation]
    message.occurrences = card.occurrences
    message.tokens = card.tokens
    message.owner = card.owner
    message.revision = stored.revision
    _fill_range(message.body, card.body)
    if card.sources != (card.body,):
        for source in card.sources:
            _fill_range(message.sources.add(), source)
    _fill_optional(message, card, asker)
    if stored.superseded_revision is not None:
        message.superseded_revision = stored.superseded_revision
    if stored.superseded_by is not None:
        message.superseded_by = _ref(stored.superseded_by, asker)
    if stored.resolved_revision is not None:
        message.resolved_revision = stored.resolved_revision
    if conflicts:
        message.conflicts.extend(_ref(key, asker) for key in conflicts)


def encode_receipts(receipt: BatchReceipt, asker: Scope) -> card_pb2.RecordEventsResponse:
    """What became of a batch."""
    return card_pb2.RecordEventsResponse(
        revision=receipt.revision, receipts=[_encode_receipt(event, asker) for event in receipt.events]
    )


def _encode_receipt(event: EventReceipt, asker: Scope) -> card_pb2.EventReceipt:
    return card_pb2.EventReceipt(
        key=event.key,
        revision=event.revision,
        replayed=event.replayed,
        fingerprint=event.fingerprint,
        cards=[_ref(key, asker) for key in event.cards],
    )


def _fill_optional(message: card_pb2.Card, card: Card, asker: Scope) -> None:
    """What most cards leave out."""
    for name in ("summary", "source_url", "confidence", "trust"):
        value = getattr(card, name)
        if value not in ("", None):
            setattr(message, name, value)
    for name in ("topics", "entities"):
        values = getattr(card, name)
        if values:
            getattr(message, name).extend(values)
    for claim, stance in card.claims:
        message.claims.add(claim=claim, stance=_STANCES[stance])
    for relation in card.relations:
        message.relations.add(type=relation.type, target=_ref(relation.target, asker))
    for name in ("occurred_at", "captured_at", "valid_from", "valid_until"):
        micros = getattr(card, name)
        if micros is not None:
            stamp = getattr(message, name)
            stamp.seconds, stamp.nanos = split_time(micros)
    if card.fact is not None:
        fact = card.fact
        message.fact.subject, message.fact.predicate, message.fact.object = fact.subject, fact.predicate, fact.object
        message.fact.qualifier, message.fact.singular = fact.qualifier, fact.singular
    if card.owner == asker.principal and card.acl != OPEN:
        message.acl.CopyFrom(encode_acl(card.acl))


def _decode_fact(message: card_pb2.Fact) -> Fact:
    return Fact(
        subject=message.subject,
        predicate=message.predicate,
        object=message.object,
        qualifier=message.qualifier,
        singular=message.singular,
    )


def _fill_range(message: artifact_pb2.SourceRange, source: SourceRange) -> None:
    message.artifact_sha256 = source.artifact
    message.start = source.start
    message.end = source.end
    message.sha256 = source.sha256


def _ref(key: CardKey, asker: Scope) -> str:
    return format_ref(key.owner, key.id, asker.principal)
