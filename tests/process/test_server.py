"""The server as other programs see it: health, reflection, plain clients, deadlines, tokens, signals."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status

from mn.context.working.v1 import artifact_pb2, card_pb2, packet_pb2, run_pb2, working_memory_pb2_grpc
from mn_engine.bootstrap import engine_over
from mn_engine.faces.gate import BoundToken, Gate
from mn_engine.faces.grpc import GrpcServer
from mn_engine.store.memory import MemoryStore

SCOPE = [("mn-job-id", "job"), ("mn-run-id", "run"), ("mn-principal", "alice")]
WAIT = 30


class Served:
    """A server in this process and a channel to it."""

    def __init__(self, gate: Gate) -> None:
        self.server = GrpcServer("127.0.0.1:0", gate)
        self.server.start()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.server.port}")
        self.stub = working_memory_pb2_grpc.WorkingMemoryStub(self.channel)
        self.health = health_pb2_grpc.HealthStub(self.channel)
        self.store = MemoryStore()

    def serve(self) -> None:
        self.server.serve(engine_over(self.store))

    def status(self, service: str = "") -> int:
        return self.health.Check(health_pb2.HealthCheckRequest(service=service), timeout=WAIT).status

    def close(self) -> None:
        self.channel.close()
        self.server.stop(5)


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served(Gate())
    yield served
    served.close()


def test_health_says_not_serving_until_the_record_is_open(served: Served) -> None:
    assert served.status() == health_pb2.HealthCheckResponse.NOT_SERVING
    with pytest.raises(grpc.RpcError) as caught:
        served.stub.OpenRun(run_pb2.OpenRunRequest(), metadata=SCOPE, timeout=WAIT)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    served.serve()
    assert served.status() == health_pb2.HealthCheckResponse.SERVING
    assert served.status("mn.context.working.v1.WorkingMemory") == health_pb2.HealthCheckResponse.SERVING
    served.stub.OpenRun(run_pb2.OpenRunRequest(), metadata=SCOPE, timeout=WAIT)


def test_reflection_describes_the_service(served: Served) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(served.channel)
    asked = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="mn.context.working.v1.WorkingMemory"),
    ]
    listed, described = list(stub.ServerReflectionInfo(iter(asked), timeout=WAIT))
    assert "mn.context.working.v1.WorkingMemory" in {service.name for service in listed.list_services_response.service}
    assert described.file_descriptor_response.file_descriptor_proto


def test_an_error_reaches_a_plain_client_as_a_rich_status(served: Served) -> None:
    served.serve()
    with pytest.raises(grpc.RpcError) as caught:
        served.stub.OpenRun(run_pb2.OpenRunRequest(), timeout=WAIT)
    status = rpc_status.from_call(caught.value)
    info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    assert status.details[0].Unpack(info)
    assert (info.domain, info.reason) == ("mn.context", "INVALID_ARGUMENT")
    assert status.details[1].Unpack(bad)
    assert bad.field_violations[0].field == "mn-job-id"


@pytest.mark.parametrize("room", ["", "-1", "9" * 6000, "many", "0"])
def test_a_nonsensical_wish_for_detail_changes_no_error(served: Served, room: str) -> None:
    served.serve()
    with pytest.raises(grpc.RpcError) as caught:
        served.stub.OpenRun(run_pb2.OpenRunRequest(), metadata=[("mn-detail-bytes-max", room)], timeout=WAIT)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_refusal_with_a_large_detail_fits_the_trailers_of_a_plain_client(served: Served) -> None:
    served.serve()
    served.stub.OpenRun(run_pb2.OpenRunRequest(), metadata=SCOPE, timeout=WAIT)
    named = [f"a-rather-long-card-name-to-fill-the-trailers-{n:04d}" for n in range(256)]
    events = [card_pb2.Event(key=name, cards=[card_pb2.Card(kind="CARD_KIND_FACT", text=name)]) for name in named]
    served.stub.RecordEvents(card_pb2.RecordEventsRequest(events=events), metadata=SCOPE, timeout=WAIT)
    request = packet_pb2.CompileRequest(decision=packet_pb2.Decision(required=named), budget_bytes=100)
    with pytest.raises(grpc.RpcError) as caught:
        served.stub.Compile(request, metadata=SCOPE, timeout=WAIT)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    info = error_details_pb2.ErrorInfo()
    assert rpc_status.from_call(caught.value).details[0].Unpack(info)
    assert '"cut":{"items":256' in info.metadata["detail"]


def test_a_client_killed_in_the_middle_of_an_upload_leaves_nothing(served: Served) -> None:
    served.serve()
    served.stub.OpenRun(run_pb2.OpenRunRequest(), metadata=SCOPE, timeout=WAIT)
    sent = threading.Event()

    def requests() -> Iterator[artifact_pb2.PutArtifactRequest]:
        yield artifact_pb2.PutArtifactRequest(header=artifact_pb2.ArtifactHeader(media_type="text/plain"))
        yield artifact_pb2.PutArtifactRequest(chunk=b"half")
        sent.set()
        threading.Event().wait(WAIT)

    call = served.stub.PutArtifact.future(requests(), metadata=SCOPE, timeout=WAIT)
    assert sent.wait(WAIT)
    call.cancel()
    sha256 = hashlib.sha256(b"half").hexdigest()
    with pytest.raises(grpc.RpcError) as caught:
        served.stub.StatArtifact(artifact_pb2.StatArtifactRequest(sha256=sha256), metadata=SCOPE, timeout=WAIT)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_tokens_guard_every_method() -> None:
    bound = BoundToken(
        sha256=hashlib.sha256(b"bound").hexdigest(), principal="alice", roles=frozenset(), jobs=frozenset({"job"})
    )
    served = Served(Gate(trusted_sha256=hashlib.sha256(b"trusted").hexdigest(), bound=(bound,)))
    served.serve()
    try:
        for token, metadata, code in (
            (None, SCOPE, grpc.StatusCode.UNAUTHENTICATED),
            ("wrong", SCOPE, grpc.StatusCode.UNAUTHENTICATED),
            ("bound", [*SCOPE[:2], ("mn-principal", "bob")], grpc.StatusCode.PERMISSION_DENIED),
            ("bound", [("mn-job-id", "other"), *SCOPE[1:]], grpc.StatusCode.PERMISSION_DENIED),
            ("trusted", SCOPE[:2], grpc.StatusCode.INVALID_ARGUMENT),
        ):
            bearer = [("authorization", f"Bearer {token}")] if token else []
            with pytest.raises(grpc.RpcError) as caught:
                served.stub.OpenRun(run_pb2.OpenRunRequest(), metadata=[*metadata, *bearer], timeout=WAIT)
            assert caught.value.code() is code
        for token, metadata in (("bound", SCOPE[:2]), ("trusted", [*SCOPE[:2], ("mn-principal", "anyone")])):
            bearer = [("authorization", f"Bearer {token}")]
            served.stub.OpenRun(run_pb2.OpenRunRequest(), metadata=[*metadata, *bearer], timeout=WAIT)
        assert served.status() == health_pb2.HealthCheckResponse.SERVING, "probes carry no token"
    finally:
        served.close()


def test_health_and_cancel_get_through_when_every_thread_is_busy(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.serve()
    served.stub.OpenRun(run_pb2.OpenRunRequest(), metadata=SCOPE, timeout=WAIT)
    held, busy = threading.Event(), threading.Semaphore(0)

    def slow_upload() -> Iterator[artifact_pb2.PutArtifactRequest]:
        yield artifact_pb2.PutArtifactRequest(header=artifact_pb2.ArtifactHeader(media_type="text/plain"))
        busy.release()
        held.wait(WAIT)

    calls = [served.stub.PutArtifact.future(slow_upload(), metadata=SCOPE, timeout=WAIT) for _ in range(64)]
    for _ in calls:
        assert busy.acquire(timeout=WAIT)
    try:
        assert served.status() == health_pb2.HealthCheckResponse.SERVING
        cancelled = served.stub.CancelRun(run_pb2.CancelRunRequest(reason="stop"), metadata=SCOPE, timeout=WAIT)
        assert cancelled.run.state == run_pb2.RUN_STATE_CANCELLED
    finally:
        held.set()
        for call in calls:
            call.exception(timeout=WAIT)


def _start(tmp_path: Path, *arguments: str) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen(
        [sys.executable, "-m", "mn_engine.cli", "serve", "--address", "127.0.0.1:0", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MN_CONTEXT_STORE": str(tmp_path / "record.duckdb")},
    )
    assert process.stderr is not None
    port = 0
    for line in process.stderr:
        if "listening on port" in line:
            port = int(line.split("listening on port ")[1].split(";")[0])
        if line.rstrip().endswith("serving"):
            return process, port
    raise AssertionError("the server did not start")


def test_a_signal_stops_the_server_and_what_was_acknowledged_is_there_again(tmp_path: Path) -> None:
    process, port = _start(tmp_path)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = working_memory_pb2_grpc.WorkingMemoryStub(channel)
        stub.OpenRun(run_pb2.OpenRunRequest(), metadata=SCOPE, timeout=WAIT)
        event = card_pb2.Event(key="k", cards=[card_pb2.Card(kind="CARD_KIND_FACT", text="kept")])
        stub.RecordEvents(card_pb2.RecordEventsRequest(events=[event]), metadata=SCOPE, timeout=WAIT)
        watch = stub.WatchRevisions(run_pb2.WatchRevisionsRequest(), metadata=SCOPE, timeout=WAIT)
        assert next(iter(watch)).revision == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0
    assert process.stderr is not None
    log = process.stderr.read()
    process.stderr.close()
    assert "kept" not in log, "logs carry no contents"
    again, port = _start(tmp_path)
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = working_memory_pb2_grpc.WorkingMemoryStub(channel)
            assert stub.GetCard(card_pb2.GetCardRequest(ref="k"), metadata=SCOPE, timeout=WAIT).card.text == "kept"
    finally:
        again.terminate()
        again.wait(WAIT)
        assert again.stderr is not None
        again.stderr.close()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["serve", "--address", "nonsense"], 2, "HOST:PORT"),
        (["serve", "--address", "0.0.0.0:1"], 2, "MN_CONTEXT_AUTH_TOKEN"),
        (["serve", "--store", "postgresql://x"], 2, "path"),
        (["compact", "--store", "/nonexistent/record.duckdb"], 2, "no record"),
        (["unknown"], 2, "No such command"),
        (["serve", "--nonsense"], 2, "No such option"),
    ],
)
def test_wrong_usage_is_told_in_one_line_without_a_traceback(arguments: list[str], code: int, told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mn_engine.cli", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_help_needs_no_heavy_import() -> None:
    script = (
        "import sys; from mn_engine.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'grpc', 'duckdb', 'pyarrow', 'numpy', 'litellm', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "serve" in done.stdout


def test_a_port_that_is_taken_is_one_clear_error(tmp_path: Path) -> None:
    process, port = _start(tmp_path)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "mn_engine.cli", "serve", "--address", f"127.0.0.1:{port}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "MN_CONTEXT_STORE": str(tmp_path / "other.duckdb")},
        )
        assert (done.returncode, "Traceback" in done.stderr) == (1, False)
        assert "another server" in done.stderr
    finally:
        process.terminate()
        process.wait(WAIT)
        assert process.stderr is not None
        process.stderr.close()
