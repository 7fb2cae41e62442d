"""Decisions, coverage and packets between protobuf and the domain."""

from __future__ import annotations

from mn.context.working.v1 import packet_pb2
from mn_engine.domain.cards import Kind
from mn_engine.domain.packets import Coverage, Decision, Packet, Shares, Why
from mn_engine.domain.scope import Scope
from mn_engine.wire.cards import encode_card
from mn_engine.wire.scalars import decode_enum


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


def encode_packet(packet: Packet, asker: Scope) -> packet_pb2.Packet:
    """A packet as `asker` sees it."""
    return packet_pb2.Packet(
        revision=packet.revision,
        items=[
            packet_pb2.PacketItem(
                card=encode_card(item.stored, item.conflicts, asker),
                role=f"ITEM_ROLE_{item.role.name}",
                why=encode_why(item.why),
                size_bytes=size,
            )
            for item, size in zip(packet.items, packet.sizes, strict=True)
        ],
        coverage=encode_coverage(packet.coverage),
        cursor=packet.cursor,
        size_bytes=packet.size,
        digest=packet.digest,
        newest_revision=packet.newest_revision,
    )
