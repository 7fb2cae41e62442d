"""Packets and counters for tests that need no engine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from mn.context.working.v1 import artifact_pb2, card_pb2, packet_pb2
from mn_contract.canonical import encoded
from mn_contract.errors import NeedsPartition
from mn_sdk.context_session.admit import Compile
from mn_sdk.context_session.documents import card_document
from mn_tokens import Count, count


def card(ref: str, text: str) -> card_pb2.Card:
    data = text.encode()
    sha256 = hashlib.sha256(data).hexdigest()
    body = artifact_pb2.SourceRange(artifact_sha256=sha256, start=0, end=len(data), sha256=sha256)
    return card_pb2.Card(
        ref=ref,
        id=ref,
        kind="CARD_KIND_OBSERVATION",
        text=text,
        body=body,
        sources=[body],
        stance="STANCE_NEUTRAL",
        validation="VALIDATION_UNVERIFIED",
    )


def compiler(cards: Sequence[card_pb2.Card], required: int = 0, standing: int = 0) -> Compile:
    """An engine's compile in miniature: the first `standing` cards, and those up to `required` where named, or
    NeedsPartition; then what fits, in order."""

    most = max(required, standing)

    def compile_packet(budget_bytes: int, *, named: bool = True) -> packet_pb2.Packet:
        required = most if named else standing
        packet = packet_pb2.Packet(revision=1, size_bytes=2)
        packet.coverage.status = packet_pb2.COVERAGE_STATUS_COMPLETE
        roles = [packet_pb2.ITEM_ROLE_NAMED if n < required else packet_pb2.ITEM_ROLE_RANKED for n in range(len(cards))]
        labels = ["named" if n < required else "" for n in range(len(cards))]
        sizes = [len(encoded(card_document(one, required=why))) + 1 for one, why in zip(cards, labels, strict=True)]
        needed = 1 + sum(sizes[:required])
        if required and needed > budget_bytes:
            items = [{"id": one.id, "bytes": size} for one, size in zip(cards[:required], sizes, strict=False)]
            raise NeedsPartition("too large", detail={"reason": "required_over_budget", "size": needed, "items": items})
        used = 1
        for one, role, size in zip(cards, roles, sizes, strict=True):
            if used + size <= budget_bytes:
                packet.items.add(card=one, role=role, size_bytes=size)
                used += size
        packet.size_bytes = max(used, 2)
        return packet

    return compile_packet


def counter(request: Mapping[str, Any], model: str) -> Count:
    return count(request, model=model)
