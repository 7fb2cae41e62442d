"""Invariant 5, whole: the same revision and request give byte-identical packets on every store, process and machine.

A record that was grown batch by batch, its index caught up after each, is asked a number of drawn requests; so is every
other way to the same record. `python -m tests.scenario.test_determinism COUNT` writes what a process of its own finds.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from mn.context.working.v1 import card_pb2, packet_pb2, run_pb2
from mn_contract.addresses import read_replicas
from mn_contract.canonical import encoded
from mn_contract.errors import ContextError
from mn_engine.bootstrap import engine_over, open_engine
from mn_engine.faces.embedded import EmbeddedFace
from mn_engine.faces.gate import Gate
from mn_engine.faces.grpc.server import GrpcServer
from mn_engine.service.engine import Engine
from mn_engine.store.memory import MemoryStore
from mn_sdk.scope import SessionScope
from mn_sdk.transport.grpc import GrpcTransport

SCOPES = tuple(
    SessionScope(job_id="job", run_id="run", principal=principal, roles=roles)
    for principal, roles in (("alice", ()), ("bob", ("auditor",)), ("bob", ()))
)
WORDS = (
    *("door", "window", "wood", "iron", "price", "cost", "river", "water", "flood", "storm", "payment", "invoice"),
    *("getUserName", "src/lib/parse.py", "error", "parser", "lexer", "nested", "slow", "fast", "memory", "cache"),
    *("battery", "engine", "electric", "climate", "ocean", "warming", "東京", "地震", "approve", "reject", "vote"),
)
TOPICS = ("money", "weather", "code")
CLAIMS = ("it is safe", "it is cheap")
Call = Callable[[SessionScope, str, Any], Any]


def grow(call: Call, *, asking: bool) -> None:
    """Records the same cards, in the same batches; `asking` catches the index up after each."""
    rng = random.Random(11)
    call(SCOPES[0], "OpenRun", run_pb2.OpenRunRequest())
    known: list[str] = []
    for batch in range(12):
        scope = SCOPES[batch % 2]
        events = []
        for at in range(20):
            key = f"{scope.principal}-{batch}-{at}"
            card = card_pb2.Card(
                kind=rng.choice((1, 1, 2, 4, 5, 8, 10) if at == 0 else (1, 2, 3, 6, 8)),
                text=" ".join(rng.choices(WORDS, k=rng.randint(1, 40))),
                stance=rng.randint(1, 4),
                topics=rng.sample(TOPICS, rng.choice((0, 0, 1, 2))),
                entities=rng.sample(("Ada", "Grace"), rng.choice((0, 0, 1))),
                claims=[
                    card_pb2.Claim(claim=claim, stance=rng.randint(1, 4)) for claim in CLAIMS if rng.random() < 0.2
                ],
                tokens=rng.choice((0, 30)),
                captured_at=Timestamp(seconds=1),
            )
            if rng.random() < 0.5:
                card.occurred_at.seconds = 600 * (20 * batch + at)
            if rng.random() < 0.3:
                card.valid_from.seconds = rng.randint(1, 100)
            if known and rng.random() < 0.3:
                card.relations.add(
                    type=rng.choice(("supersedes", "contradicts", "contradicts", "about")), target=rng.choice(known)
                )
            if rng.random() < 0.1:
                card.acl.allow_roles.append("auditor")
            events.append(card_pb2.Event(key=key, cards=[card]))
        call(scope, "RecordEvents", card_pb2.RecordEventsRequest(events=events))
        if scope.principal == "alice":
            known += [event.key for event in events if not event.cards[0].HasField("acl")]
        known = [f"alice:{ref.removeprefix('alice:')}" for ref in known]
        if asking:
            call(scope, "Recall", packet_pb2.RecallRequest(decision=packet_pb2.Decision(focus="door")))


def told(call: Call, count: int) -> str:
    """A digest of the answers to `count` drawn requests, cursors followed for one page."""
    rng = random.Random(7)
    heard = hashlib.sha256()
    for _ in range(count):
        request = packet_pb2.CompileRequest(
            decision=packet_pb2.Decision(
                focus=" ".join(rng.choices(WORDS, k=rng.choice((0, 1, 3, 8)))),
                topics=rng.sample(TOPICS, rng.choice((0, 0, 1))),
                claims=rng.sample(CLAIMS, rng.choice((0, 0, 1))),
                kinds=rng.choice(([], [], [1, 2])),
            ),
            budget_bytes=rng.choice((900, 3000, 9000, 40_000)),
            counter_evidence_share=rng.choice((0.2, 0.35)),
        )
        if rng.random() < 0.5:
            request.at.revision = rng.randint(1, 12)
        if rng.random() < 0.3:
            request.budget_tokens = rng.randint(20, 900)
        if rng.random() < 0.3:
            request.rotation = rng.randint(0, 1 << 23)
        if rng.random() < 0.3:
            request.decision.as_of.seconds = rng.randint(1, 120)
        scope = rng.choice(SCOPES)
        try:
            packet = call(scope, "Compile", request).packet
            heard.update(packet.SerializeToString(deterministic=True))
            if packet.cursor:
                request.cursor = packet.cursor
                heard.update(call(scope, "Compile", request).packet.SerializeToString(deterministic=True))
        except ContextError as refused:
            heard.update(encoded([refused.reason, refused.message, refused.detail]))
    return heard.hexdigest()


def fixed(engine: Engine) -> Engine:
    """The engine with a clock that stands still."""
    return dataclasses.replace(engine, clock=lambda: 1_000_000_000_000)


def embedded(engine: Engine) -> Call:
    face = EmbeddedFace(engine)
    return lambda scope, method, request: face.call(method, scope.headers(), request)


@contextmanager
def served(engine: Engine) -> Iterator[Call]:
    server = GrpcServer("127.0.0.1:0", Gate())
    server.start()
    server.serve(engine)
    replicas = read_replicas(f"127.0.0.1:{server.port}", "address")
    transports = {scope: GrpcTransport(replicas, scope) for scope in SCOPES}
    try:
        yield lambda scope, method, request: transports[scope].call(method, request)
    finally:
        for transport in transports.values():
            transport.close()
        server.stop(5)


def in_memory(count: int, *, asking: bool = False) -> str:
    engine = fixed(engine_over(MemoryStore()))
    try:
        grow(embedded(engine), asking=asking)
        return told(embedded(engine), count)
    finally:
        engine.close()


def check_every_way(count: int, folder: Path) -> None:
    expected = in_memory(count)
    assert in_memory(count, asking=True) == expected, "an index that was caught up answers like one that was built"
    record = folder / "record.duckdb"
    engine = fixed(open_engine(record))
    try:
        grow(embedded(engine), asking=True)
        assert told(embedded(engine), count) == expected
        with served(engine) as over_grpc:
            assert told(over_grpc, count) == expected
    finally:
        engine.close()
    reopened = fixed(open_engine(record))
    try:
        assert told(embedded(reopened), count) == expected
    finally:
        reopened.close()
    for variables in VARIABLES:
        # numpy warns of features that this machine, or this build, does not have: those are off already.
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "tests.scenario.test_determinism", str(count)],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=500,
            check=True,
        )
        assert done.stdout.strip() == expected, variables


VARIABLES = (
    {"PYTHONHASHSEED": "1", "OPENBLAS_NUM_THREADS": "1"},
    {"PYTHONHASHSEED": "2", "OPENBLAS_NUM_THREADS": "2", "OPENBLAS_CORETYPE": "Nehalem"},
    {"PYTHONHASHSEED": "3", "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512_SKX X86_V3 X86_V4"},
)


def test_packets_are_the_same_on_every_store_face_and_process(tmp_path: Path) -> None:
    check_every_way(60, tmp_path)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_thousand_packets_are_the_same_on_every_store_face_and_process(tmp_path: Path) -> None:
    check_every_way(1000, tmp_path)


if __name__ == "__main__":
    sys.stdout.write(in_memory(int(sys.argv[1])))
