"""Explaining a turn's packet: why a card is in it, or why it is not.

The engine builds a packet again from its request, which gives the same one (invariant 5); so a session keeps the
request of each packet that a turn has used, under the packet's digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from mn.context.working.v1 import card_pb2, packet_pb2
from mn_contract.errors import InvalidInput, NotFound
from mn_contract.names import check_sha256
from mn_sdk.client import WorkingMemoryClient
from mn_sdk.context_session.journal.notes import Note, Notes

_KIND: Final = "packet"


def note(packet: packet_pb2.Packet, request: packet_pb2.CompileRequest, roles: Iterable[str]) -> Note:
    """What `packet` was built from, and with which roles."""
    placed = packet_pb2.CompileRequest()
    placed.CopyFrom(request)
    placed.at.revision = packet.revision
    head = " ".join(sorted(set(roles))).encode() + b"\n"
    return _KIND, packet.digest, head + placed.SerializeToString(deterministic=True)


def explain(
    client: WorkingMemoryClient, notes: Notes, packet_digest: str, cards: Sequence[str], roles: Iterable[str]
) -> dict[str, Any]:
    """Why a card is in the packet of this digest, or why it is not; see `ContextSession.explain`. `cards` are those
    that its reference stands for.

    Raises NotFound where no turn of this root and principal had such a packet with these roles, where it cannot be
    built again, or where there is no such card.
    """
    if len(cards) > 1:
        raise InvalidInput(f"the record is {len(cards)} cards, {cards[0]} to {cards[-1]}: name one", field="card_id")
    (ref,) = cards
    kept = notes.get(_KIND, check_sha256(packet_digest, "packet_digest"))
    head, _, request = (kept or b"").partition(b"\n")
    if kept is None or head.decode().split() != sorted(set(roles)):
        raise NotFound(
            "no turn under this root had a packet of this digest with these roles; a turn's report names its own"
        )
    told = client.explain(packet_pb2.CompileRequest.FromString(request), ref)
    if told.packet_digest != packet_digest:
        raise NotFound("the packet cannot be built again: a model selector had reordered it, or the engine is another")
    return {
        "packet_digest": told.packet_digest,
        "revision": told.revision,
        "card": ref,
        "selected": told.selected,
        "role": _name(packet_pb2.ItemRole, told.role, "ITEM_ROLE_") if told.selected else None,
        "reason": told.reason or None,
        "retrievers": list(told.why.retrievers),
        "matched_terms": list(told.why.matched_terms),
        "rank": told.why.rank or None,
        "relevance": told.why.relevance if told.why.HasField("relevance") else None,
        "relevance_basis": told.why.relevance_basis or None,
        "score": told.why.score,
        "parts": {part.stage: part.score for part in told.parts},
        "redundancy": told.redundancy / 1024,
        "utility": told.utility,
        "offered": told.offered or None,
        "bytes": told.size_bytes,
        "tokens": told.tokens,
        "stance": _name(card_pb2.Stance, told.stance, "STANCE_"),
        "quotas": [
            {
                "role": _name(packet_pb2.ItemRole, quota.role, "ITEM_ROLE_"),
                "bytes": quota.bytes,
                "used_bytes": quota.used_bytes,
                **({"tokens": quota.tokens, "used_tokens": quota.used_tokens} if quota.tokens else {}),
            }
            for quota in told.quotas
        ],
    }


def _name(enum: Any, value: int, prefix: str) -> str:
    return str(enum.Name(value)).removeprefix(prefix).lower()
