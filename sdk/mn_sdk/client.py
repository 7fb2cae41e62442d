"""WorkingMemory as plain methods over any transport, and the choice of transport."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from mn.context.working.v1 import artifact_pb2, card_pb2, packet_pb2, run_pb2
from mn_contract.addresses import read_replicas
from mn_contract.errors import DependencyUnavailable, InvalidInput, NotFound, RunClosed, SourceMismatch
from mn_contract.limits import ARTIFACT_CHUNK_BYTES_MAX, ARTIFACT_READ_BYTES_MAX, ARTIFACT_READ_RANGES_MAX
from mn_contract.names import check_media_type, utf8
from mn_sdk.environment import auth_token, engine_address
from mn_sdk.scope import SessionScope
from mn_sdk.transport import Transport
from mn_sdk.transport.bounded import BoundedTransport
from mn_sdk.transport.closing import ClosingTransport


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRef:
    """A stored artifact: its name, its size in bytes and its media type."""

    sha256: str
    size: int
    media_type: str


def runtime_client(
    job_id: str,
    run_id: str,
    principal: str,
    *,
    roles: Iterable[str] = (),
    root: str | Path | None = None,
    address: str | None = None,
    deadline: float | None = None,
    on_closed: Callable[[RunClosed], None] | None = None,
) -> WorkingMemoryClient:
    """A client for one scope: the server at `address` or MN_CONTEXT_ADDR where one is named, else one under `root`.

    A server that is named and cannot be reached is DependencyUnavailable; nothing else is tried. No call lasts beyond
    `deadline`, in epoch seconds. `on_closed` is called with each answer that the run is closed, before it is raised.
    """
    transport = _transport(job_id, run_id, principal, roles, root, address)
    if deadline is not None:
        transport = BoundedTransport(transport, deadline)
    if on_closed is not None:
        transport = ClosingTransport(transport, on_closed)
    return WorkingMemoryClient(transport)


def _transport(
    job_id: str, run_id: str, principal: str, roles: Iterable[str], root: str | Path | None, address: str | None
) -> Transport:
    scope = SessionScope(job_id=job_id, run_id=run_id, principal=principal, roles=roles)
    named, field = (engine_address(), "MN_CONTEXT_ADDR") if address is None else (address, "address")
    if named is not None:
        from mn_sdk.transport.grpc import GrpcTransport

        return GrpcTransport(read_replicas(named, field), scope, token=auth_token())
    if root is None:
        raise InvalidInput("give a root folder, or set MN_CONTEXT_ADDR to a server", field="root")
    from mn_sdk.transport.embedded import EmbeddedTransport

    return EmbeddedTransport(root, scope)


class WorkingMemoryClient:
    """The operations of one scope."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    def call(self, method: str, request: Any, *, timeout: float | None = None) -> Any:
        """Any operation, by its RPC's name."""
        return self.transport.call(method, request, timeout=timeout)

    def open_run(self, *, max_stored_bytes: int | None = None) -> run_pb2.Run:
        """The run, created where it is new."""
        request = run_pb2.OpenRunRequest(max_stored_bytes=max_stored_bytes)
        opened: run_pb2.OpenRunResponse = self.call("OpenRun", request)
        return opened.run

    def run(self) -> run_pb2.Run:
        """The run as it stands. Raises NotFound before it was opened."""
        found: run_pb2.GetRunResponse = self.call("GetRun", run_pb2.GetRunRequest())
        return found.run

    def clear_run(self, reason: str) -> run_pb2.Tombstone:
        """Removes the run's contents; what stays of it. Idempotent."""
        cleared: run_pb2.ClearRunResponse = self.call("ClearRun", run_pb2.ClearRunRequest(reason=reason))
        return cleared.tombstone

    def has_artifact(self, sha256: str) -> bool:
        """Whether the run has an artifact of these bytes that the scope may read."""
        try:
            self.call("StatArtifact", artifact_pb2.StatArtifactRequest(sha256=sha256))
        except NotFound:
            return False
        return True

    def put_artifact(
        self, data_or_path: bytes | bytearray | str | Path, *, media_type: str, acl: artifact_pb2.Acl | None = None
    ) -> ArtifactRef:
        """Stores bytes, a text (as UTF-8) or a file's bytes (a Path), chunk by chunk. Raises InvalidInput."""
        header = artifact_pb2.ArtifactHeader(media_type=check_media_type(media_type, "media_type"), acl=acl)

        def requests() -> Iterator[artifact_pb2.PutArtifactRequest]:
            running = hashlib.sha256()
            yield artifact_pb2.PutArtifactRequest(header=header)
            while chunk := file.read(ARTIFACT_CHUNK_BYTES_MAX):
                running.update(chunk)
                yield artifact_pb2.PutArtifactRequest(chunk=chunk)
            yield artifact_pb2.PutArtifactRequest(end=artifact_pb2.ArtifactEnd(sha256=running.hexdigest()))

        with _opened(data_or_path) as file:
            stored: artifact_pb2.PutArtifactResponse = self.call("PutArtifact", requests())
        artifact = stored.artifact
        return ArtifactRef(sha256=artifact.sha256, size=artifact.size_bytes, media_type=artifact.media_type)

    def read_ranges(self, ranges: Sequence[artifact_pb2.SourceRange]) -> list[bytes]:
        """The bytes of each range, each checked against its hash. Raises SourceMismatch."""
        found: list[bytes] = []
        for part in _parts(ranges):
            found += self._read_part(part)
        return found

    def record(
        self, events: Iterable[card_pb2.Event], *, expected_revision: int | None = None
    ) -> card_pb2.RecordEventsResponse:
        """Records events, all or none."""
        request = card_pb2.RecordEventsRequest(events=events, expected_revision=expected_revision)
        recorded: card_pb2.RecordEventsResponse = self.call("RecordEvents", request)
        return recorded

    def card(self, ref: str) -> card_pb2.Card:
        """A card, exactly. Raises NotFound."""
        found: card_pb2.GetCardResponse = self.call("GetCard", card_pb2.GetCardRequest(ref=ref))
        return found.card

    def recall(self, request: packet_pb2.RecallRequest) -> packet_pb2.RecallResponse:
        """A page of what is relevant."""
        recalled: packet_pb2.RecallResponse = self.call("Recall", request)
        return recalled

    def compile(self, request: packet_pb2.CompileRequest) -> packet_pb2.Packet:
        """A packet. Raises NeedsPartition."""
        compiled: packet_pb2.CompileResponse = self.call("Compile", request)
        return compiled.packet

    def explain(self, request: packet_pb2.CompileRequest, ref: str) -> packet_pb2.ExplainResponse:
        """Why a card is in the packet of a request, or why it is not. Raises NotFound."""
        explained: packet_pb2.ExplainResponse = self.call(
            "Explain", packet_pb2.ExplainRequest(request=request, ref=ref)
        )
        return explained

    def close(self) -> None:
        """Lets go of the engine. Idempotent."""
        self.transport.close()

    def _read_part(self, ranges: Sequence[artifact_pb2.SourceRange]) -> list[bytes]:
        found = [bytearray() for _ in ranges]
        for piece in self.call("ReadArtifact", artifact_pb2.ReadArtifactRequest(ranges=ranges)):
            found[piece.range_index] += piece.chunk
        for wanted, data in zip(ranges, found, strict=True):
            if len(data) != wanted.end - wanted.start:
                raise DependencyUnavailable("an artifact was not read to its end", dependency="engine")
            if wanted.sha256 and hashlib.sha256(data).hexdigest() != wanted.sha256:
                raise SourceMismatch(
                    "bytes that came back are not those that were cited; the evidence was not used",
                    artifact_sha256=wanted.artifact_sha256,
                    start=wanted.start,
                    end=wanted.end,
                )
        return [bytes(data) for data in found]


def _parts(ranges: Sequence[artifact_pb2.SourceRange]) -> Iterator[list[artifact_pb2.SourceRange]]:
    """Ranges in groups that one read takes."""
    part: list[artifact_pb2.SourceRange] = []
    size = 0
    for wanted in ranges:
        length = wanted.end - wanted.start
        if part and (len(part) == ARTIFACT_READ_RANGES_MAX or size + length > ARTIFACT_READ_BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(wanted)
        size += length
    if part:
        yield part


def _opened(data_or_path: object) -> BinaryIO:
    """What is to be stored, to be read from its start. Opened before anything is sent, so that its errors are told."""
    field = "data_or_path"
    if isinstance(data_or_path, bytes | bytearray):
        return io.BytesIO(data_or_path)
    if isinstance(data_or_path, str):
        return io.BytesIO(utf8(data_or_path, field))
    if not isinstance(data_or_path, Path):
        raise InvalidInput(f"{field} must be bytes, text or a Path, not {type(data_or_path).__name__}", field=field)
    if not data_or_path.is_file():
        raise InvalidInput(f"{field}: there is no file {str(data_or_path)!r}", field=field)
    try:
        return data_or_path.open("rb")
    except OSError as error:
        raise InvalidInput(f"{field}: the file cannot be read: {error.strerror}", field=field) from error
