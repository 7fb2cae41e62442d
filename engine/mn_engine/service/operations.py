"""The operation table: every use case that a face can reach, once.

Adding an operation is a line here and a codec in the wire; a test counts that no face forgot one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from mn_engine.service import artifacts, compile, explain, integrity, invocations, notes, packs, queries, record, runs
from mn_engine.service.graph import batch, bundle, context, read, write


class Shape(Enum):
    """Whether requests and answers come one at a time."""

    UNARY = "unary"
    UPLOAD = "upload"
    """Many requests, one answer: the first request opens, the others carry bytes."""
    STREAM = "stream"
    """One request, many answers."""


class Lane(Enum):
    """What a call waits beside: a server gives each lane threads of its own, so that no lane can hold up another."""

    CALL = "call"
    """It ends by itself."""
    URGENT = "urgent"
    """It stops work, and must get through when everything else is busy."""
    UPLOAD = "upload"
    READ = "read"
    WATCH = "watch"
    """The last three last as long as their client likes."""


WORKING_MEMORY: Final = "mn.context.working.v1.WorkingMemory"
MEMORY: Final = "mn.context.memory.v1.Memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A use case as faces see it: `run(engine, scope, call, **decoded request)`.

    `service` is the gRPC service that has it. `safe_to_retry`: the same request again changes nothing more.
    """

    run: Callable[..., Any]
    service: str = WORKING_MEMORY
    shape: Shape = Shape.UNARY
    safe_to_retry: bool = True
    lane: Lane = Lane.CALL


OPERATIONS: Final[Mapping[str, Operation]] = MappingProxyType(
    {
        "OpenRun": Operation(run=runs.open_run),
        "GetRun": Operation(run=runs.get_run),
        "CancelRun": Operation(run=runs.cancel_run, lane=Lane.URGENT),
        "ClearRun": Operation(run=runs.clear_run),
        "WatchRevisions": Operation(run=runs.watch_revisions, shape=Shape.STREAM, lane=Lane.WATCH),
        "PutArtifact": Operation(run=artifacts.put_artifact, shape=Shape.UPLOAD, lane=Lane.UPLOAD),
        "StatArtifact": Operation(run=artifacts.stat_artifact),
        "ReadArtifact": Operation(run=artifacts.read_artifact, shape=Shape.STREAM, lane=Lane.READ),
        "RecordEvents": Operation(run=record.record_events),
        "RecordFacts": Operation(run=batch.record_facts),
        "GetCard": Operation(run=record.get_card),
        "Recall": Operation(run=compile.recall),
        "Compile": Operation(run=compile.compile_packet),
        "Explain": Operation(run=explain.explain),
        "BeginInvocation": Operation(run=invocations.begin_invocation, safe_to_retry=False),
        "DispatchInvocation": Operation(run=invocations.dispatch_invocation, safe_to_retry=False),
        "RespondInvocation": Operation(run=invocations.respond_invocation),
        "CompleteInvocation": Operation(run=invocations.complete_invocation),
        "ReconcileInvocation": Operation(run=invocations.reconcile_invocation),
        "GetInvocation": Operation(run=invocations.get_invocation),
        "GetContext": Operation(run=packs.get_context, service=MEMORY, safe_to_retry=False),
        "QueryMemory": Operation(run=queries.query_memory, service=MEMORY),
        "Expand": Operation(run=queries.expand, service=MEMORY),
        "Search": Operation(run=queries.search, service=MEMORY),
        "Fetch": Operation(run=queries.fetch, service=MEMORY),
        "RememberThis": Operation(run=notes.remember_this, service=MEMORY),
        "ProposeMemory": Operation(run=notes.propose_memory, service=MEMORY),
        "RecordEpisode": Operation(run=write.record_episode, service=MEMORY),
        "UpsertFact": Operation(run=write.upsert_fact, service=MEMORY),
        "CompileContext": Operation(run=context.compile_context, service=MEMORY),
        "QueryEntity": Operation(run=read.query_entity, service=MEMORY),
        "TimeTravel": Operation(run=read.time_travel, service=MEMORY),
        "VerifyIntegrity": Operation(run=integrity.verify_integrity, service=MEMORY),
        "ListContradictions": Operation(run=read.list_contradictions, service=MEMORY),
        "ProposeFacts": Operation(run=read.propose_facts, service=MEMORY),
        "ExportBundle": Operation(run=bundle.export_bundle, service=MEMORY),
        "ExportRoot": Operation(run=bundle.export_root, service=MEMORY),
    }
)
