"""The server as other programs see it: health, reflection, plain clients, deadlines, tokens, signals."""

from __future__ import annotations

import ctypes
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status

from mn.context.working.v1 import (
    artifact_pb2,
    card_pb2,
    packet_pb2,
    run_pb2,
    working_memory_pb2,
    working_memory_pb2_grpc,
)
from mn_contract.limits import (
    ARTIFACT_CHUNK_BYTES_MAX,
    SERVER_READS,
    SERVER_RESERVE_THREADS,
    SERVER_THREADS,
    UPLOADS_MAX,
    WATCHES_MAX,
)
from mn_engine.bootstrap import engine_over
from mn_engine.faces.gate import BoundToken, Gate
from mn_engine.faces.grpc import GrpcServer
from mn_engine.store.duckdb import DuckDBStore
from mn_engine.store.memory import MemoryStore
from mn_engine.store.port import Store

SCOPE = [("mn-job-id", "job"), ("mn-run-id", "run"), ("mn-principal", "alice")]
WAIT = 30


class Served:
    """A server in this process and a channel to it."""

    def __init__(self, gate: Gate, store: Store | None = None, **options: Any) -> None:
        self.server = GrpcServer("127.0.0.1:0", gate, **options)
        self.server.start()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.server.port}")
        self.stub = working_memory_pb2_grpc.WorkingMemoryStub(self.channel)
        self.health = health_pb2_grpc.HealthStub(self.channel)
        self.store = MemoryStore() if store is None else store
        self.engine = engine_over(self.store)

    def serve(self) -> None:
        self.server.serve(self.engine)

    def status(self, service: str = "") -> int:
        return self.health.Check(health_pb2.HealthCheckRequest(service=service), timeout=WAIT).status

    def close(self) -> None:
        self.channel.close()
        self.server.stop(5)
        self.engine.close()


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


def _silent_upload(over: threading.Event) -> Iterator[artifact_pb2.PutArtifactRequest]:
    """A header, a chunk, and nothing more until `over`."""
    yield artifact_pb2.PutArtifactRequest(header=artifact_pb2.ArtifactHeader(media_type="text/plain"))
    yield artifact_pb2.PutArtifactRequest(chunk=b"half")
    over.wait(WAIT)


def _reason(error: grpc.RpcError) -> str:
    """The contract's reason of a failed call; an error without one fails the test."""
    info = error_details_pb2.ErrorInfo()
    status = rpc_status.from_call(error)
    assert status is not None, error
    assert status.details[0].Unpack(info)
    return str(info.reason)


def test_health_and_cancel_get_through_when_every_thread_is_busy(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every lane is full, and more calls wait: uploads and watches stay, other calls and reads hang in the store."""
    served.serve()
    for run in ("run", "other"):
        scope = [SCOPE[0], ("mn-run-id", run), SCOPE[2]]
        served.stub.OpenRun(run_pb2.OpenRunRequest(), metadata=scope, timeout=WAIT)
    over, hanging = threading.Event(), threading.Semaphore(0)

    def hang(run_key: str, asked: object, **_: object) -> dict[str, tuple[object, ...]]:
        hanging.release()
        over.wait(4 * WAIT)  # longer than anybody waits for an answer
        return {}

    monkeypatch.setattr(served.store, "artifacts", hang)
    monkeypatch.setattr(served.store, "read_ranges", hang)
    stat = artifact_pb2.StatArtifactRequest(sha256="0" * 64)
    wanted = artifact_pb2.ReadArtifactRequest(ranges=[artifact_pb2.SourceRange(artifact_sha256="0" * 64, end=1)])
    answers = [served.stub.ReadArtifact(wanted, metadata=SCOPE, timeout=WAIT) for _ in range(SERVER_READS + 8)]
    answers += [
        served.stub.WatchRevisions(run_pb2.WatchRevisionsRequest(), metadata=SCOPE, timeout=WAIT)
        for _ in range(WATCHES_MAX + 8)
    ]
    calls = [served.stub.StatArtifact.future(stat, metadata=SCOPE, timeout=WAIT) for _ in range(SERVER_THREADS + 8)]
    calls += [
        served.stub.PutArtifact.future(_silent_upload(over), metadata=SCOPE, timeout=WAIT)
        for _ in range(UPLOADS_MAX + 8)
    ]
    for _ in range(SERVER_THREADS + SERVER_READS):
        assert hanging.acquire(timeout=WAIT)
    try:
        assert served.status() == health_pb2.HealthCheckResponse.SERVING
        metadata = [SCOPE[0], ("mn-run-id", "other"), SCOPE[2]]
        cancelled = served.stub.CancelRun(run_pb2.CancelRunRequest(reason="stop"), metadata=metadata, timeout=WAIT)
        assert cancelled.run.state == run_pb2.RUN_STATE_CANCELLED
    finally:
        over.set()
        for answer in answers:
            answer.cancel()
        for call in calls:
            call.exception(timeout=WAIT)


def test_the_upload_too_many_is_refused_at_once_and_others_are_answered(served: Served) -> None:
    served.serve()
    served.stub.OpenRun(run_pb2.OpenRunRequest(), metadata=SCOPE, timeout=WAIT)
    over, refused = threading.Event(), threading.Semaphore(0)
    calls = [
        served.stub.PutArtifact.future(_silent_upload(over), metadata=SCOPE, timeout=WAIT)
        for _ in range(2 * SERVER_THREADS)
    ]
    for call in calls:
        call.add_done_callback(lambda call: refused.release())
    try:
        for _ in range(len(calls) - UPLOADS_MAX):
            assert refused.acquire(timeout=WAIT), "what is too much does not wait for a place"
        errors = [call.exception() for call in calls if call.done()]
        assert {(error.code(), _reason(error)) for error in errors} == {
            (grpc.StatusCode.RESOURCE_EXHAUSTED, "BUDGET_EXCEEDED")
        }
        retry = error_details_pb2.RetryInfo()
        assert any(detail.Unpack(retry) for detail in rpc_status.from_call(errors[0]).details)
        served.stub.GetRun(run_pb2.GetRunRequest(), metadata=SCOPE, timeout=WAIT)
    finally:
        over.set()
        for call in calls:
            call.exception(timeout=WAIT)


def test_an_upload_that_sends_nothing_for_long_is_ended_and_leaves_nothing(tmp_path: Path) -> None:
    served = Served(Gate(), DuckDBStore(tmp_path / "record.duckdb"), upload_idle_seconds=0.3)
    served.serve()
    served.stub.OpenRun(run_pb2.OpenRunRequest(), metadata=SCOPE, timeout=WAIT)
    over = threading.Event()
    large = artifact_pb2.PutArtifactRequest(chunk=bytes(ARTIFACT_CHUNK_BYTES_MAX))

    def requests() -> Iterator[artifact_pb2.PutArtifactRequest]:
        yield artifact_pb2.PutArtifactRequest(header=artifact_pb2.ArtifactHeader(media_type="text/plain"))
        yield large
        over.wait(WAIT)

    try:
        with pytest.raises(grpc.RpcError) as caught:
            served.stub.PutArtifact(requests(), metadata=SCOPE, timeout=WAIT)
        assert (caught.value.code(), _reason(caught.value)) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "BUDGET_EXCEEDED",
        )
        assert not [file for file in tmp_path.rglob("*.blobs/*/*") if file.is_file()]
    finally:
        over.set()
        served.close()
    waiting = [thread for thread in threading.enumerate() if thread.name.startswith("mn-receive")]
    for thread in waiting:
        thread.join(WAIT)
    assert not any(thread.is_alive() for thread in waiting), "nobody waits for what will not come"


def test_the_watch_too_many_is_refused_at_once(served: Served) -> None:
    served.serve()
    served.stub.OpenRun(run_pb2.OpenRunRequest(), metadata=SCOPE, timeout=WAIT)
    event = card_pb2.Event(key="k", cards=[card_pb2.Card(kind="CARD_KIND_FACT", text="told")])
    served.stub.RecordEvents(card_pb2.RecordEventsRequest(events=[event]), metadata=SCOPE, timeout=WAIT)
    watches = [
        served.stub.WatchRevisions(run_pb2.WatchRevisionsRequest(), metadata=SCOPE, timeout=WAIT)
        for _ in range(WATCHES_MAX)
    ]
    for watch in watches:
        assert next(watch).revision == 1
    for _ in range(2 * SERVER_RESERVE_THREADS):
        with pytest.raises(grpc.RpcError) as caught:
            next(served.stub.WatchRevisions(run_pb2.WatchRevisionsRequest(), metadata=SCOPE, timeout=WAIT))
        assert (caught.value.code(), _reason(caught.value)) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "BUDGET_EXCEEDED",
        )
    for watch in watches:
        watch.cancel()


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\xff", b"\x0a\x02\xff\xfe"], ids=["garbage", "not UTF-8"])
def test_bytes_that_are_no_message_are_the_callers_fault_whatever_the_method(served: Served, data: bytes) -> None:
    served.serve()
    served.stub.OpenRun(run_pb2.OpenRunRequest(), metadata=SCOPE, timeout=WAIT)
    for name, method in working_memory_pb2.DESCRIPTOR.services_by_name["WorkingMemory"].methods_by_name.items():
        if not method.input_type.fields or (data[:1] == b"\x0a" and not _begins_with_a_text(method.input_type)):
            continue
        path = f"/mn.context.working.v1.WorkingMemory/{name}"
        with pytest.raises(grpc.RpcError) as caught:
            # One message in and any number out: every shape of method takes that.
            list(served.channel.unary_stream(path)(data, metadata=SCOPE, timeout=WAIT))
        assert (name, caught.value.code()) == (name, grpc.StatusCode.INVALID_ARGUMENT)
        assert _reason(caught.value) == "INVALID_ARGUMENT"


def _begins_with_a_text(message: Any) -> bool:
    first = message.fields_by_number.get(1)
    return first is not None and first.type == first.TYPE_STRING


def test_bytes_that_are_no_message_in_the_middle_of_an_upload_leave_nothing(served: Served) -> None:
    served.serve()
    served.stub.OpenRun(run_pb2.OpenRunRequest(), metadata=SCOPE, timeout=WAIT)
    header = artifact_pb2.PutArtifactRequest(header=artifact_pb2.ArtifactHeader(media_type="text/plain"))
    upload = served.channel.stream_unary("/mn.context.working.v1.WorkingMemory/PutArtifact")
    with pytest.raises(grpc.RpcError) as caught:
        upload(iter([header.SerializeToString(), b"\xff\xff\xff"]), metadata=SCOPE, timeout=WAIT)
    assert (caught.value.code(), _reason(caught.value)) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT")
    assert served.stub.GetRun(run_pb2.GetRunRequest(), metadata=SCOPE, timeout=WAIT).run.stored_bytes == 0


def test_a_scope_given_twice_is_refused(served: Served) -> None:
    served.serve()
    with pytest.raises(grpc.RpcError) as caught:
        served.stub.OpenRun(run_pb2.OpenRunRequest(), metadata=[*SCOPE, ("mn-principal", "bob")], timeout=WAIT)
    assert (caught.value.code(), _reason(caught.value)) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT")


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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_the_server_and_what_was_acknowledged_is_there_again(
    tmp_path: Path, number: signal.Signals
) -> None:
    process, port = _start(tmp_path)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = working_memory_pb2_grpc.WorkingMemoryStub(channel)
        stub.OpenRun(run_pb2.OpenRunRequest(), metadata=SCOPE, timeout=WAIT)
        event = card_pb2.Event(key="k", cards=[card_pb2.Card(kind="CARD_KIND_FACT", text="kept")])
        stub.RecordEvents(card_pb2.RecordEventsRequest(events=[event]), metadata=SCOPE, timeout=WAIT)
        watch = stub.WatchRevisions(run_pb2.WatchRevisionsRequest(), metadata=SCOPE, timeout=WAIT)
        assert next(iter(watch)).revision == 1
        process.send_signal(number)
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


def test_a_signal_stops_the_server_whichever_thread_it_reaches(tmp_path: Path) -> None:
    """The kernel hands a process's signal to any of its threads."""
    process, _ = _start(tmp_path)
    others = [int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir() if int(task.name) != process.pid]
    assert others
    time.sleep(1)  # until the main thread waits: one that is still at work looks at signals itself
    assert ctypes.CDLL(None).tgkill(process.pid, others[0], signal.SIGTERM) == 0
    assert process.wait(WAIT) == 0
    assert process.stderr is not None
    process.stderr.close()


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
