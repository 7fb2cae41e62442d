"""`serve --http` as other programs see it: one engine behind two ports, both gone on one signal, nothing lost."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import grpc
import httpx
import pytest
from click.testing import CliRunner

from mn.context.working.v1 import run_pb2, working_memory_pb2_grpc
from mn_contract.smp import ENVELOPE_SCHEMA
from mn_engine.cli import main
from mn_sdk.scope import SessionScope

HEADERS = SessionScope(job_id="job", run_id="run", principal="alice").headers()
WAIT = 30.0


class Process:
    """A server in a process of its own, at two ports that the system picked."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mn_engine.cli", "serve", "--address", "127.0.0.1:0", *arguments],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "MN_CONTEXT_STORE": str(folder / "record.duckdb"), **environment},
        )
        assert self._process.stderr is not None
        self.grpc_port = self.http_port = 0
        for line in self._process.stderr:
            if "listening on port" in line:
                self.grpc_port = int(line.split("listening on port ")[1].split(";")[0])
            if "listening for HTTP on" in line:
                self.http_port = int(line.rsplit(maxsplit=1)[1])
            if line.rstrip().endswith("serving"):
                return
        raise AssertionError("the server did not start")

    def open_run(self) -> None:
        """Over gRPC: what HTTP then finds."""
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}") as channel:
            stub = working_memory_pb2_grpc.WorkingMemoryStub(channel)
            stub.OpenRun(run_pb2.OpenRunRequest(), metadata=list(HEADERS.items()), timeout=WAIT)

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=f"http://127.0.0.1:{self.http_port}", headers=HEADERS, timeout=WAIT)

    def answer_probes(self) -> NoReturn:
        """Raises where a new connection is not taken."""
        while True:
            httpx.get(f"http://127.0.0.1:{self.http_port}/healthz", timeout=WAIT)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self) -> tuple[int, str]:
        """The exit code and the rest of the log."""
        code = self._process.wait(WAIT)
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            return code, stderr.read()

    def stop(self) -> tuple[int, str]:
        self.signal(signal.SIGTERM)
        return self.ended()


def test_a_server_signs_roots_with_the_key_that_it_is_given(tmp_path: Path) -> None:
    key, note = tmp_path / "root.key", tmp_path / "root.note"
    vkey = CliRunner().invoke(main, ["keygen", "example.com/membrane", str(key)]).output.strip()
    process = Process(tmp_path, "--http", "127.0.0.1:0", "--log-level", "debug", "--signing-key", str(key))
    process.open_run()
    with process.client() as client:
        answer = client.post("/v1/tools/call", json={"name": "memory_export_root", "arguments": {}})
    assert answer.status_code == 200, answer.text
    note.write_text(answer.json()["note"], encoding="utf-8")
    assert CliRunner().invoke(main, ["verify-root", str(note), "--key", vkey]).exit_code == 0
    _, log = process.stop()
    assert key.read_text().rpartition("+")[2].strip() not in log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_lets_a_request_under_way_finish_and_what_was_acknowledged_is_there_again(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = Process(tmp_path, "--http", "127.0.0.1:0", "--log-level", "debug")
    process.open_run()
    body = json.dumps({"name": "remember_this", "arguments": {"text": "The secret is kept.", "key": "k"}}).encode()
    head = "".join(f"{name}: {value}\r\n" for name, value in {**HEADERS, "content-type": "application/json"}.items())
    with (
        process.client() as idle,
        socket.create_connection(("127.0.0.1", process.http_port), timeout=WAIT) as connection,
    ):
        connection.sendall(
            f"POST /v1/tools/call HTTP/1.1\r\nhost: localhost\r\n{head}content-length: {len(body)}\r\n\r\n".encode()
            + body[:9]
        )
        assert idle.get("/healthz").json() == {"status": "serving"}, "and keeps a connection that is idle then"
        process.signal(number)
        with pytest.raises(httpx.TransportError):
            process.answer_probes()
        connection.sendall(body[9:])
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    code, log = process.ended()
    assert answer.startswith(b"HTTP/1.1 200"), answer
    assert code == 0
    assert "secret" not in log, "logs carry no contents"
    assert "Traceback" not in log
    again = Process(tmp_path, MN_CONTEXT_HTTP="127.0.0.1:0")
    with again.client() as client:
        found = client.post("/v1/tools/call", json={"name": "fetch", "arguments": {"id": "note/k"}})
        assert found.json()["text"] == "The secret is kept."
    assert again.stop()[0] == 0


def test_profiles_of_the_users_own_are_served(tmp_path: Path) -> None:
    profiles = tmp_path / "profiles.yaml"
    profiles.write_text(
        "profiles:\n  tiny:\n    context_window: 4000\n    pack_token_budget: 500\n    chars_per_token: 3.5\n"
        "    weights: {relevance: 0.6, recency: 0.25, trust: 0.15}\n    aliases: [phone]\n"
    )
    process = Process(tmp_path, "--http", "127.0.0.1:0", MN_CONTEXT_PROFILES_FILE=str(profiles))
    process.open_run()
    with process.client() as client:
        pack = client.get("/v1/context", params={"task": "a", "model": "my phone"}).json()
        assert (pack["model"], pack["budget"]["tokens"]) == ("tiny", 500)
        assert client.get("/v1/context", params={"task": "a", "model": "telephone"}).json()["model"] == "generic"
    assert process.stop()[0] == 0


@pytest.mark.parametrize(
    ("arguments", "environment", "told"),
    [
        (["--http", "nonsense"], {}, "--http must be HOST:PORT"),
        (["--http", ""], {}, "--http is empty"),
        (["--http", "0.0.0.0:1"], {}, "MN_CONTEXT_AUTH_TOKEN"),
        ([], {"MN_CONTEXT_HTTP": "10.0.0.1:80"}, "MN_CONTEXT_AUTH_TOKEN"),
        (["--http", "0.0.0.0:1"], {"MN_CONTEXT_AUTH_TOKEN": "t"}, "--allow-plaintext"),
        ([], {"MN_CONTEXT_PROFILES_FILE": "/nonexistent.yaml"}, "MN_CONTEXT_PROFILES_FILE"),
    ],
)
def test_wrong_usage_is_told_in_one_line(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], told: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mn_engine.cli", "serve", "--address", "127.0.0.1:0", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "MN_CONTEXT_STORE": str(tmp_path / "record.duckdb"), **environment},
    )
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "record.duckdb").exists()


def test_an_http_port_that_is_taken_is_one_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = subprocess.run(
            [sys.executable, "-m", "mn_engine.cli", "serve", "--address", "127.0.0.1:0"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={
                **os.environ,
                "MN_CONTEXT_STORE": str(tmp_path / "record.duckdb"),
                "MN_CONTEXT_HTTP": f"127.0.0.1:{taken.getsockname()[1]}",
            },
        )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "another server" in done.stderr


def test_the_schema_of_an_envelope_is_printed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mn_engine.cli", "schema"], capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == json.loads(json.dumps(dict(ENVELOPE_SCHEMA)))
