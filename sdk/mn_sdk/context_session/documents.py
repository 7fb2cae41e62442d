"""From the wire's cards to what a model reads: the same documents, byte for byte, that the engine counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from mn.context.working.v1 import artifact_pb2, card_pb2, packet_pb2
from mn_contract.documents import item_document

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_REQUIRED: Final = {
    packet_pb2.ITEM_ROLE_NAMED: "named",
    packet_pb2.ITEM_ROLE_OBLIGATION: "obligation",
    packet_pb2.ITEM_ROLE_CONSTRAINT: "constraint",
}


_STANDING: Final = frozenset({packet_pb2.ITEM_ROLE_OBLIGATION, packet_pb2.ITEM_ROLE_CONSTRAINT})
_MANY: Final = 10**9
COVERAGE_WIDEST: Final = {
    "status": "degraded",
    "relevant": _MANY,
    "required": _MANY,
    "stances": {name: {"considered": _MANY, "selected": _MANY} for name in ("supports", "opposes", "mixed", "neutral")},
    "left": dict.fromkeys(("budget", "oversize", "served", "cap"), _MANY),
}
"""A coverage document that none is larger than."""


def packet_documents(packet: packet_pb2.Packet) -> list[dict[str, Any]]:
    """A packet's documents: what stands in many packets first, then the others, either as they were recorded, so that
    packets which share records begin alike."""
    items = sorted(packet.items, key=lambda item: (item.role not in _STANDING, item.card.revision, item.card.ref))
    return [card_document(item.card, required=_REQUIRED.get(item.role, "")) for item in items]


def card_document(card: card_pb2.Card, *, required: str = "") -> dict[str, Any]:
    """One card's document."""
    return item_document(
        ref=card.ref,
        kind=_lower(card_pb2.CardKind.Name(card.kind), "CARD_KIND_"),
        text=card.text,
        source=_span(card.body),
        cites=[_span(source) for source in card.sources],
        stance=stance_name(card.stance),
        claims={claim.claim: stance_name(claim.stance) for claim in card.claims},
        validation=_lower(card_pb2.Validation.Name(card.validation), "VALIDATION_"),
        confidence=card.confidence if card.HasField("confidence") else None,
        trust=card.trust if card.HasField("trust") else None,
        occurred_at=_rfc3339(card.occurred_at) if card.HasField("occurred_at") else None,
        valid_from=_rfc3339(card.valid_from) if card.HasField("valid_from") else None,
        valid_until=_rfc3339(card.valid_until) if card.HasField("valid_until") else None,
        topics=card.topics,
        source_url=card.source_url,
        conflicts=card.conflicts,
        required=required,
    )


def coverage_document(coverage: packet_pb2.Coverage) -> dict[str, Any]:
    """What was considered and left, as a model and a report read it."""
    return {
        "status": _lower(packet_pb2.CoverageStatus.Name(coverage.status), "COVERAGE_STATUS_"),
        "relevant": coverage.relevant,
        "required": coverage.required,
        "stances": {
            stance_name(line.stance): {"considered": line.considered, "selected": line.selected}
            for line in coverage.stances
        },
        "left": {line.reason: line.count for line in coverage.left},
    }


def stance_name(stance: Any) -> str:
    """A stance's word: supports, opposes, mixed, neutral."""
    return _lower(card_pb2.Stance.Name(stance), "STANCE_")


def _span(source: artifact_pb2.SourceRange) -> tuple[str, int, int]:
    return source.artifact_sha256, source.start, source.end


def _lower(name: str, prefix: str) -> str:
    return name.removeprefix(prefix).lower()


def _rfc3339(stamp: Timestamp) -> str:
    # As many fraction digits as it needs: 0, 3 or 6. Documents of the engine read the same.
    micros = stamp.seconds * 1_000_000 + stamp.nanos // 1000
    fraction = micros % 1_000_000
    precision = "seconds" if fraction == 0 else "milliseconds" if fraction % 1000 == 0 else "microseconds"
    when = _EPOCH + timedelta(microseconds=micros)
    return when.isoformat(timespec=precision).replace("+00:00", "Z")
