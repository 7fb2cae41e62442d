"""Requests that the tests of every face make, in few words."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from mn.context.working.v1 import artifact_pb2, card_pb2, packet_pb2, run_pb2
from mn_sdk.transport import Transport


def opened(transport: Transport, **options: Any) -> run_pb2.Run:
    run: run_pb2.Run = transport.call("OpenRun", run_pb2.OpenRunRequest(**options)).run
    return run


def card(text: str, kind: str = "observation", **fields: Any) -> card_pb2.Card:
    relations = [card_pb2.Relation(type=type_, target=target) for type_, target in fields.pop("relations", ())]
    stance = f"STANCE_{fields.pop('stance', 'neutral').upper()}"
    return card_pb2.Card(kind=f"CARD_KIND_{kind.upper()}", text=text, stance=stance, relations=relations, **fields)


def event(key: str, *cards: card_pb2.Card, **fields: Any) -> card_pb2.Event:
    return card_pb2.Event(key=key, cards=cards, **fields)


def record(transport: Transport, *events: card_pb2.Event, **fields: Any) -> card_pb2.RecordEventsResponse:
    answer: card_pb2.RecordEventsResponse = transport.call(
        "RecordEvents", card_pb2.RecordEventsRequest(events=events, **fields)
    )
    return answer


def observe(transport: Transport, key: str, text: str, kind: str = "observation", **fields: Any) -> int:
    return record(transport, event(key, card(text, kind, **fields))).revision


def compiled(
    transport: Transport, focus: str = "", budget: int = 100_000, *, at: dict[str, int] | None = None, **fields: Any
) -> packet_pb2.Packet:
    packet: packet_pb2.Packet = transport.call("Compile", asking(focus, budget, at=at, **fields)).packet
    return packet


def asking(
    focus: str = "", budget: int = 100_000, *, at: dict[str, int] | None = None, **fields: Any
) -> packet_pb2.CompileRequest:
    known = ("cursor", "counter_evidence_share", "supporting_evidence_share", "budget_tokens", "rotation")
    options = {name: fields.pop(name) for name in known if name in fields}
    return packet_pb2.CompileRequest(
        decision=packet_pb2.Decision(focus=focus, **fields),
        at=packet_pb2.At(**(at or {})),
        budget_bytes=budget,
        **options,
    )


def explained(transport: Transport, ref: str, request: packet_pb2.CompileRequest) -> packet_pb2.ExplainResponse:
    answer: packet_pb2.ExplainResponse = transport.call("Explain", packet_pb2.ExplainRequest(request=request, ref=ref))
    return answer


def refs(packet: packet_pb2.Packet) -> list[str]:
    return [item.card.ref for item in packet.items]


def get(transport: Transport, ref: str, **fields: Any) -> card_pb2.Card:
    found: card_pb2.Card = transport.call("GetCard", card_pb2.GetCardRequest(ref=ref, **fields)).card
    return found


def put(
    transport: Transport, data: bytes, *, chunk: int = 65_536, media_type: str = "text/plain", **header: Any
) -> artifact_pb2.Artifact:
    def requests() -> Iterator[artifact_pb2.PutArtifactRequest]:
        yield artifact_pb2.PutArtifactRequest(header=artifact_pb2.ArtifactHeader(media_type=media_type, **header))
        for start in range(0, len(data), chunk):
            yield artifact_pb2.PutArtifactRequest(chunk=data[start : start + chunk])
        end = artifact_pb2.ArtifactEnd(sha256=hashlib.sha256(data).hexdigest())
        yield artifact_pb2.PutArtifactRequest(end=end)

    artifact: artifact_pb2.Artifact = transport.call("PutArtifact", requests()).artifact
    return artifact


def read(transport: Transport, *spans: tuple[str, int, int], sha256: str = "") -> list[bytes]:
    ranges = [artifact_pb2.SourceRange(artifact_sha256=a, start=s, end=e, sha256=sha256) for a, s, e in spans]
    found = [b""] * len(ranges)
    for piece in transport.call("ReadArtifact", artifact_pb2.ReadArtifactRequest(ranges=ranges)):
        found[piece.range_index] += piece.chunk
        if piece.range_sha256:
            assert piece.range_sha256 == hashlib.sha256(found[piece.range_index]).hexdigest()
    return found


def acl(allow: Sequence[str] = (), *, roles: Sequence[str] = (), deny: Sequence[str] = ()) -> artifact_pb2.Acl:
    return artifact_pb2.Acl(allow_principals=allow, allow_roles=roles, deny_principals=deny)
