"""Decisions, coverage and packets between protobuf and the domain."""

from __future__ import annotations

from typing import Any, Final

from mn.context.working.v1 import packet_pb2
from mn_engine.domain.cards import Kind
from mn_engine.domain.packets import Coverage, Decision, Packet, Role, Shares, Why
from mn_engine.domain.scope import Scope
from mn_engine.wire.cards import fill_card
from mn_engine.wire.scalars import decode_enum

_ROLES: Final[dict[Role, Any]] = {role: packet_pb2.ItemRole.Value(f"ITEM_ROLE_{role.name}") for role in Role}


def decode_decision(message: packet_pb2.Decision) -> Decision:
    """What is being decided."""
    return Decision(
        focus=message.focus,
        topics=tuple(message.topics),
        claims=tuple(message.claims),
        entities=tuple(message.entities),
        kinds=frozenset(decode_enum(Kind, kind, "decision.kinds") for kind in message.kinds),
        required=tuple(message.required),
    )


def decode_shares(message: packet_pb2.CompileRequest) -> Shares:
    """The two shares; what is unset has the policy's default."""
    given = {
        name: getattr(message, field)
        for name, field in (("opposing", "counter_evidence_share"), ("supporting", "supporting_evidence_share"))
        if message.HasField(field)
    }
    return Shares(**given)


def encode_why(why: Why) -> packet_pb2.Why:
    """Why a card came up."""
    return packet_pb2.Why(retrievers=why.retrievers, matched_terms=why.matched_terms, rank=why.rank, score=why.score)


def encode_coverage(coverage: Coverage) -> packet_pb2.Coverage:
    """What was considered, selected and left."""
    return packet_pb2.Coverage(
        status=f"COVERAGE_STATUS_{coverage.status.name}",
        relevant=coverage.relevant,
        stances=[
            packet_pb2.StanceCoverage(stance=f"STANCE_{stance.name}", considered=considered, selected=selected)
            for stance, considered, selected in coverage.stances
        ],
        kinds=[
            packet_pb2.KindCoverage(kind=f"CARD_KIND_{kind.name}", considered=considered, selected=selected)
            for kind, considered, selected in coverage.kinds
        ],
        left=[packet_pb2.LeftCoverage(reason=reason.value, count=count) for reason, count in coverage.left],
        required=coverage.required,
        required_opposing=coverage.required_opposing,
    )


def encode_packet(packet: Packet, asker: Scope) -> packet_pb2.CompileResponse:
    """The answer to Compile: a packet as `asker` sees it."""
    answer = packet_pb2.CompileResponse()
    message = answer.packet
    message.revision = packet.revision
    for item, size in zip(packet.items, packet.sizes, strict=True):
        place = message.items.add()
        fill_card(place.card, item.stored, item.conflicts, asker)
        place.role = _ROLES[item.role]
        place.size_bytes = size
        why = place.why
        why.retrievers.extend(item.why.retrievers)
        why.matched_terms.extend(item.why.matched_terms)
        why.rank = item.why.rank
        why.score = item.why.score
    message.coverage.CopyFrom(encode_coverage(packet.coverage))
    message.cursor = packet.cursor
    message.size_bytes = packet.size
    message.digest = packet.digest
    message.newest_revision = packet.newest_revision
    return answer
