"""The codec table: for each operation, how its messages become arguments and its result a message.

Uploads decode an iterator of requests; streams encode one answer at a time. Keys are the operation table's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from google.protobuf.json_format import MessageToDict, SerializeToJsonError
from google.protobuf.message import DecodeError, Message

from mn.context.memory.v1 import memory_pb2
from mn.context.working.v1 import artifact_pb2, card_pb2, invocation_pb2, packet_pb2, run_pb2
from mn_contract.errors import InvalidInput
from mn_contract.names import check_sha256
from mn_engine.domain.access import OPEN
from mn_engine.domain.artifacts import check_hash
from mn_engine.domain.requests import BYTES_MEDIA_TYPE, NewFacts
from mn_engine.domain.scope import Scope
from mn_engine.wire.cards import decode_event, decode_facts, decode_range, encode_artifact, encode_card, encode_receipts
from mn_engine.wire.packets import (
    decode_at,
    decode_decision,
    decode_packet_request,
    encode_coverage,
    encode_explanation,
    encode_packet,
    encode_why,
)
from mn_engine.wire.runs import decode_state, encode_attempt, encode_run, encode_tombstone
from mn_engine.wire.scalars import decode_acl, decode_optional_int
from mn_engine.wire.table import BY_OPERATION
from mn_engine.wire.tools import written

Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """How one operation's messages are read and written. `decode` raises InvalidInput."""

    request: type[Message]
    answer: type[Message]
    decode: Callable[[Any], Arguments]
    encode: Callable[[Any, Scope], Message]

    def parse(self, data: bytes) -> Message:
        """A request message of these bytes. Raises InvalidInput."""
        try:
            return self.request.FromString(data)
        except DecodeError as error:
            raise InvalidInput(
                f"the bytes are no {self.request.DESCRIPTOR.name}: send that message, with texts in UTF-8",
                field="request",
            ) from error


def _decode_put(requests: Iterator[artifact_pb2.PutArtifactRequest]) -> Arguments:
    first = next(requests, None)
    if first is None or first.WhichOneof("part") != "header":
        raise InvalidInput("an upload begins with its header", field="header")

    def chunks() -> Iterator[bytes]:
        running = hashlib.sha256()
        for request in requests:
            part = request.WhichOneof("part")
            if part == "end":
                check_hash(running.hexdigest(), check_sha256(request.end.sha256, "end.sha256"))
                if next(requests, None) is not None:
                    raise InvalidInput("an upload ends with its end; nothing was kept", field="end")
                return
            if part != "chunk":
                raise InvalidInput("an upload has one header, chunks after it, and an end", field="chunk")
            running.update(request.chunk)
            yield request.chunk
        raise InvalidInput("the upload broke off before its end; nothing was kept", field="end")

    header = first.header
    return {
        "media_type": header.media_type or BYTES_MEDIA_TYPE,
        "expected_sha256": header.expected_sha256,
        "acl": decode_acl(header, "acl") if header.HasField("acl") else OPEN,
        "chunks": chunks(),
    }


def _decode_reconcile(message: invocation_pb2.ReconcileInvocationRequest) -> Arguments:
    outcome = message.WhichOneof("outcome")
    if outcome is None or (outcome == "not_executed" and not message.not_executed):
        raise InvalidInput("a reconciliation gives a response or says not_executed", field="outcome")
    return {
        "name": message.name,
        "response": message.response if outcome == "response" else None,
        "evidence": message.evidence,
        "abandoned": message.abandoned_holder,
    }


def _as_json(message: Message) -> Any:
    """A message as JSON has it. Raises InvalidInput where it has no such form: times beyond the calendar, say."""
    try:
        return MessageToDict(message, preserving_proto_field_name=True)
    except (SerializeToJsonError, ValueError) as error:
        raise InvalidInput(f"{message.DESCRIPTOR.name} cannot be read: {error}", field="request") from error


def _tool_codec(operation: str) -> Codec:
    """An operation of the memory service: its message has a tool's arguments, its answer the tool's document."""
    tool = BY_OPERATION[operation]
    answer = getattr(memory_pb2, f"{operation}Response")
    return Codec(
        request=getattr(memory_pb2, f"{operation}Request"),
        answer=answer,
        decode=lambda m: tool.read(_as_json(m)),
        encode=lambda result, scope: answer(document=written(tool.encode(result, scope))),
    )


CODECS: Final[Mapping[str, Codec]] = MappingProxyType(
    {
        **{operation: _tool_codec(operation) for operation in BY_OPERATION},
        "OpenRun": Codec(
            request=run_pb2.OpenRunRequest,
            answer=run_pb2.OpenRunResponse,
            decode=lambda m: {"max_stored_bytes": decode_optional_int(m, "max_stored_bytes")},
            encode=lambda run, _: run_pb2.OpenRunResponse(run=encode_run(run)),
        ),
        "GetRun": Codec(
            request=run_pb2.GetRunRequest,
            answer=run_pb2.GetRunResponse,
            decode=lambda m: {},
            encode=lambda run, _: run_pb2.GetRunResponse(run=encode_run(run)),
        ),
        "CancelRun": Codec(
            request=run_pb2.CancelRunRequest,
            answer=run_pb2.CancelRunResponse,
            decode=lambda m: {"reason": m.reason},
            encode=lambda run, _: run_pb2.CancelRunResponse(run=encode_run(run)),
        ),
        "ClearRun": Codec(
            request=run_pb2.ClearRunRequest,
            answer=run_pb2.ClearRunResponse,
            decode=lambda m: {"reason": m.reason},
            encode=lambda stone, _: run_pb2.ClearRunResponse(tombstone=encode_tombstone(stone)),
        ),
        "WatchRevisions": Codec(
            request=run_pb2.WatchRevisionsRequest,
            answer=run_pb2.WatchRevisionsResponse,
            decode=lambda m: {"after_revision": m.after_revision},
            encode=lambda told, _: run_pb2.WatchRevisionsResponse(revision=told[0], state=f"RUN_STATE_{told[1].name}"),
        ),
        "PutArtifact": Codec(
            request=artifact_pb2.PutArtifactRequest,
            answer=artifact_pb2.PutArtifactResponse,
            decode=_decode_put,
            encode=lambda artifact, _: artifact_pb2.PutArtifactResponse(artifact=encode_artifact(artifact)),
        ),
        "StatArtifact": Codec(
            request=artifact_pb2.StatArtifactRequest,
            answer=artifact_pb2.StatArtifactResponse,
            decode=lambda m: {"sha256": m.sha256},
            encode=lambda artifact, _: artifact_pb2.StatArtifactResponse(artifact=encode_artifact(artifact)),
        ),
        "ReadArtifact": Codec(
            request=artifact_pb2.ReadArtifactRequest,
            answer=artifact_pb2.ReadArtifactResponse,
            decode=lambda m: {"ranges": tuple(decode_range(wanted) for wanted in m.ranges)},
            encode=lambda piece, _: artifact_pb2.ReadArtifactResponse(
                range_index=piece.range_index, chunk=piece.chunk, range_sha256=piece.range_sha256
            ),
        ),
        "RecordEvents": Codec(
            request=card_pb2.RecordEventsRequest,
            answer=card_pb2.RecordEventsResponse,
            decode=lambda m: {
                "events": tuple(decode_event(event) for event in m.events),
                "expected_revision": decode_optional_int(m, "expected_revision"),
            },
            encode=encode_receipts,
        ),
        "RecordFacts": Codec(
            request=card_pb2.RecordFactsRequest,
            answer=card_pb2.RecordFactsResponse,
            decode=lambda m: {"asked": NewFacts(key=m.key, facts=decode_facts(m.facts))},
            encode=lambda done, _: card_pb2.RecordFactsResponse(
                revision=done.revision, replayed=done.replayed, cards=done.refs
            ),
        ),
        "GetCard": Codec(
            request=card_pb2.GetCardRequest,
            answer=card_pb2.GetCardResponse,
            decode=lambda m: {"ref": m.ref, "revision": decode_optional_int(m, "revision")},
            encode=lambda found, asker: card_pb2.GetCardResponse(
                card=encode_card(found[0].stored, found[0].conflicts, asker), revision=found[1]
            ),
        ),
        "Recall": Codec(
            request=packet_pb2.RecallRequest,
            answer=packet_pb2.RecallResponse,
            decode=lambda m: {
                "decision": decode_decision(m.decision),
                **decode_at(m.at),
                "page_size": m.page_size,
                "cursor": m.cursor,
            },
            encode=lambda recalled, asker: packet_pb2.RecallResponse(
                revision=recalled.revision,
                candidates=[
                    packet_pb2.Candidate(card=encode_card(seen.stored, seen.conflicts, asker), why=encode_why(why))
                    for seen, why in recalled.candidates
                ],
                coverage=encode_coverage(recalled.coverage),
                cursor=recalled.cursor,
                newest_revision=recalled.newest_revision,
            ),
        ),
        "Compile": Codec(
            request=packet_pb2.CompileRequest,
            answer=packet_pb2.CompileResponse,
            decode=lambda m: {"request": decode_packet_request(m)},
            encode=encode_packet,
        ),
        "Explain": Codec(
            request=packet_pb2.ExplainRequest,
            answer=packet_pb2.ExplainResponse,
            decode=lambda m: {"request": decode_packet_request(m.request), "ref": m.ref},
            encode=lambda explanation, _: encode_explanation(explanation),
        ),
        "BeginInvocation": Codec(
            request=invocation_pb2.BeginInvocationRequest,
            answer=invocation_pb2.BeginInvocationResponse,
            decode=lambda m: {
                "name": m.name,
                "holder": m.holder,
                "lease_ms": m.lease_ms,
                "fingerprint": m.fingerprint,
                "retry": m.retry,
                "abandoned": m.abandoned_holder,
            },
            encode=lambda attempt, _: invocation_pb2.BeginInvocationResponse(invocation=encode_attempt(attempt)),
        ),
        "DispatchInvocation": Codec(
            request=invocation_pb2.DispatchInvocationRequest,
            answer=invocation_pb2.DispatchInvocationResponse,
            decode=lambda m: {
                "name": m.name,
                "attempt": m.attempt,
                "epoch": m.epoch,
                "request_sha256": m.request_sha256,
                "max_calls": decode_optional_int(m, "max_calls"),
            },
            encode=lambda attempt, _: invocation_pb2.DispatchInvocationResponse(invocation=encode_attempt(attempt)),
        ),
        "RespondInvocation": Codec(
            request=invocation_pb2.RespondInvocationRequest,
            answer=invocation_pb2.RespondInvocationResponse,
            decode=lambda m: {
                "name": m.name,
                "attempt": m.attempt,
                "epoch": m.epoch,
                "outcome": decode_state(m.outcome, "outcome"),
                "response": m.response,
                "usable": m.response_usable,
                "evidence": m.evidence,
            },
            encode=lambda attempt, _: invocation_pb2.RespondInvocationResponse(invocation=encode_attempt(attempt)),
        ),
        "CompleteInvocation": Codec(
            request=invocation_pb2.CompleteInvocationRequest,
            answer=invocation_pb2.CompleteInvocationResponse,
            decode=lambda m: {"name": m.name, "attempt": m.attempt},
            encode=lambda attempt, _: invocation_pb2.CompleteInvocationResponse(invocation=encode_attempt(attempt)),
        ),
        "ReconcileInvocation": Codec(
            request=invocation_pb2.ReconcileInvocationRequest,
            answer=invocation_pb2.ReconcileInvocationResponse,
            decode=_decode_reconcile,
            encode=lambda attempt, _: invocation_pb2.ReconcileInvocationResponse(invocation=encode_attempt(attempt)),
        ),
        "GetInvocation": Codec(
            request=invocation_pb2.GetInvocationRequest,
            answer=invocation_pb2.GetInvocationResponse,
            decode=lambda m: {"name": m.name, "attempt": decode_optional_int(m, "attempt")},
            encode=lambda found, _: invocation_pb2.GetInvocationResponse(
                invocation=encode_attempt(found[0]), run_calls=found[1]
            ),
        ),
    }
)
