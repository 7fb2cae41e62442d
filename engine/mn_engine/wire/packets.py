"""Decisions, coverage and packets between protobuf and the domain."""

from __future__ import annotations

from typing import Any, Final

from mn.context.working.v1 import packet_pb2
from mn_engine.domain.cards import Kind
from mn_engine.domain.packets import (
    BASIS,
    Budget,
    Coverage,
    Decision,
    Explanation,
    Packet,
    PacketRequest,
    Role,
    Shares,
    Why,
)
from mn_engine.domain.scope import Scope
from mn_engine.wire.cards import fill_card
from mn_engine.wire.scalars import decode_enum, decode_optional_int, decode_time

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
        as_of=decode_time(message, "as_of", "decision.as_of"),
    )


def decode_at(message: packet_pb2.At) -> dict[str, int | None]:
    """Which revision to answer at, and which must be the newest."""
    return {
        "revision": decode_optional_int(message, "revision"),
        "expected": decode_optional_int(message, "expected_revision"),
    }


def decode_packet_request(message: packet_pb2.CompileRequest) -> PacketRequest:
    """What a packet is built from."""
    return PacketRequest(
        decision=decode_decision(message.decision),
        budget=Budget(bytes=message.budget_bytes, tokens=decode_optional_int(message, "budget_tokens")),
        shares=_decode_shares(message),
        cursor=message.cursor,
        rotation=decode_optional_int(message, "rotation"),
        **decode_at(message.at),
    )


def _decode_shares(message: packet_pb2.CompileRequest) -> Shares:
    """The two shares; what is unset has the policy's default."""
    given = {
        name: getattr(message, field)
        for name, field in (("opposing", "counter_evidence_share"), ("supporting", "supporting_evidence_share"))
        if message.HasField(field)
    }
    return Shares(**given)


def encode_why(why: Why) -> packet_pb2.Why:
    """Why a card came up."""
    message = packet_pb2.Why()
    _fill_why(message, why)
    return message


def _fill_why(message: packet_pb2.Why, why: Why) -> None:
    message.retrievers.extend(why.retrievers)
    message.matched_terms.extend(why.matched_terms)
    message.rank = why.rank
    message.score = why.score
    if why.relevance is not None:
        message.relevance = why.relevance
        message.relevance_basis = BASIS


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
    for item, size, tokens in zip(packet.items, packet.sizes, packet.item_tokens, strict=True):
        place = message.items.add()
        fill_card(place.card, item.stored, item.conflicts, asker)
        place.role = _ROLES[item.role]
        place.size_bytes = size
        place.tokens = tokens
        _fill_why(place.why, item.why)
    message.coverage.CopyFrom(encode_coverage(packet.coverage))
    message.cursor = packet.cursor
    message.size_bytes = packet.size
    message.digest = packet.digest
    message.newest_revision = packet.newest_revision
    message.tokens = packet.tokens
    message.next_rotation = packet.next_rotation
    message.selector = packet.selector
    return answer


def encode_explanation(explanation: Explanation) -> packet_pb2.ExplainResponse:
    """The answer to Explain."""
    role, reason = explanation.role, explanation.reason
    return packet_pb2.ExplainResponse(
        packet_digest=explanation.packet_digest,
        revision=explanation.revision,
        selected=role is not None,
        role=packet_pb2.ITEM_ROLE_UNSPECIFIED if role is None else _ROLES[role],
        reason="" if reason is None else reason.value,
        why=encode_why(explanation.why),
        parts=[packet_pb2.ScorePart(stage=stage, score=score) for stage, score in explanation.parts],
        size_bytes=explanation.size,
        tokens=explanation.tokens,
        stance=f"STANCE_{explanation.stance.name}",
        redundancy=explanation.redundancy,
        utility=explanation.utility,
        offered=explanation.offered,
        quotas=[
            packet_pb2.Quota(
                role=_ROLES[quota.role],
                bytes=quota.bytes,
                used_bytes=quota.used_bytes,
                tokens=quota.tokens,
                used_tokens=quota.used_tokens,
            )
            for quota in explanation.quotas
        ],
    )
