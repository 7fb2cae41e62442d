"""An outside peer: the official TypeScript client works with both of our transports."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mn.context.working.v1 import run_pb2
from mn_contract.addresses import read_address
from mn_contract.smp import ENVELOPE_SCHEMA
from mn_engine.bootstrap import engine_over, http_server
from mn_engine.faces.embedded import EmbeddedFace
from mn_engine.faces.gate import Gate
from mn_engine.faces.grpc import GrpcServer
from mn_engine.service.engine import Engine
from mn_engine.store.memory import MemoryStore
from mn_engine.wire.table import TOOLS
from mn_sdk.scope import SessionScope

SOURCES = Path(__file__).parent / "typescript"
HEADERS = SessionScope(job_id="job", run_id="run", principal="alice").headers()

pytestmark = pytest.mark.skipif(
    shutil.which("npm") is None or shutil.which("node") is None, reason="npm and node are not on this machine"
)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client's program, with what it needs as its lock file has it."""
    folder = tmp_path_factory.mktemp("typescript")
    for source in SOURCES.iterdir():
        shutil.copy(source, folder)
    done = subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        cwd=folder, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = engine_over(MemoryStore())
    EmbeddedFace(engine).call("OpenRun", HEADERS, run_pb2.OpenRunRequest())
    yield engine
    engine.close()


def ran(peer: Path, where: Mapping[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        ["node", "client.mjs", json.dumps(where)], cwd=peer, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def held_true(told: dict[str, Any]) -> None:
    """What the peer was told, whichever way it came."""
    assert told["server"]["name"] == "membrane"
    assert [(tool["name"], tool["inputSchema"]) for tool in told["tools"]] == [
        (name, tool.schema) for name, tool in TOOLS.items()
    ]
    assert all(tool["annotations"]["readOnlyHint"] is not TOOLS[tool["name"]].writes for tool in told["tools"])
    assert told["remembered"]["structured"]["status"] == "recorded"
    assert told["proposed"]["structured"]["status"] == "proposed"
    for name in ("remembered", "proposed", "pack", "found", "expanded", "searched", "fetched"):
        assert json.loads(told[name]["text"]) == told[name]["structured"]
        assert not told[name]["isError"]
    pack = told["pack"]["structured"]
    Draft202012Validator(ENVELOPE_SCHEMA).validate(pack)
    assert pack["items"][0]["content"] == "The valve costs 3 euros."
    assert pack["working_memory"]["cursor"] == "1"
    assert told["markdown"]["structured"] == {"markdown": told["markdown"]["text"]}
    assert "] The valve costs 3 euros.\n" in told["markdown"]["text"]
    assert told["fetched"]["structured"]["text"] == "The valve costs 3 euros."
    assert (told["absent"]["code"], told["absent"]["data"]["reason"]) == (-32004, "NOT_FOUND")
    assert (told["wrong"]["code"], told["wrong"]["data"]) == (
        -32602,
        {"reason": "INVALID_ARGUMENT", "detail": {"field": "ask"}},
    )
    assert told["unknown"]["code"] == -32602


def test_it_works_over_streamable_http(peer: Path, engine: Engine) -> None:
    server = http_server(read_address("127.0.0.1:0", "address"), Gate())
    server.start()
    server.serve(engine)
    try:
        held_true(ran(peer, {"url": f"http://127.0.0.1:{server.port}/mcp", "headers": dict(HEADERS)}))
    finally:
        server.stop(5)


def test_it_works_over_stdio(peer: Path, engine: Engine) -> None:
    server = GrpcServer("127.0.0.1:0", Gate())
    server.start()
    server.serve(engine)
    scope = {name.upper().replace("-", "_"): value for name, value in HEADERS.items()}
    command = {
        "command": sys.executable,
        "args": ["-m", "mn_engine.cli", "mcp"],
        "env": {"PATH": os.environ["PATH"], "MN_CONTEXT_ADDR": f"127.0.0.1:{server.port}", **scope},
    }
    try:
        held_true(ran(peer, command))
    finally:
        server.stop(5)
