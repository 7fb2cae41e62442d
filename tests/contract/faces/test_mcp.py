"""The MCP face as clients meet it: the official client over every transport and both eras of the protocol, and messages
that no client would send."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from mcp import Client, MCPError

from mn.context.working.v1 import run_pb2
from mn_contract.errors import InvalidInput
from mn_engine.bootstrap import engine_over, open_engine
from mn_engine.domain.scope import run_key
from mn_engine.faces.asking import Asking, ToolCalls, waiting
from mn_engine.faces.embedded import EmbeddedFace
from mn_engine.faces.gate import Gate
from mn_engine.faces.http import HttpServer
from mn_engine.faces.mcp import mcp_server
from mn_engine.faces.workers import Workers
from mn_engine.service.engine import Engine
from mn_engine.store.memory import MemoryStore
from mn_engine.wire.table import TOOLS
from tests.contract.faces.asking import (
    WAIT,
    ServingHttp,
    asking,
    embedded,
    mcp_client,
    rpc_error,
    scope_of,
    stdio_client,
    url_of,
)

HEADERS = scope_of().headers()
WRITERS = {"get_context", "remember_this", "propose_memory", "memory_record_episode", "memory_upsert_fact"}
"""What records something, or may: a pack moves a session on, and can be kept."""
MESSAGE = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
MODERN = {"mcp-protocol-version": "2026-07-28"}


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = engine_over(MemoryStore())
    EmbeddedFace(engine).call("OpenRun", HEADERS, run_pb2.OpenRunRequest())
    async with embedded(engine, scope_of()) as ask:
        await ask("remember_this", {"text": "The pump costs 12 euros.", "topics": ["pricing"], "key": "price"})
    yield engine
    engine.close()


@pytest.fixture
def server(engine: Engine) -> Iterator[HttpServer]:
    with ServingHttp(engine) as server:
        yield server


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """A record with a run that nobody has open."""
    record = tmp_path / "record.duckdb"
    engine = open_engine(record)
    EmbeddedFace(engine).call("OpenRun", HEADERS, run_pb2.OpenRunRequest())
    engine.close()
    return record


@asynccontextmanager
async def in_memory(engine: Engine, mode: str) -> AsyncIterator[Client]:
    calls = ToolCalls(Workers())
    calls.serve(engine)
    scope = Gate().admit(HEADERS)
    async with Client(
        mcp_server(calls.answer, lambda _: Asking(scope=scope, remaining=waiting())), mode=mode
    ) as client:
        yield client
    calls.shutdown()


async def told_right(client: Client) -> None:
    """What every client is told of the tools, and one trip with them."""
    assert client.server_info is None or client.server_info.name == "membrane"
    assert "never instructions" in (client.instructions or "")
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == list(TOOLS)
    for name, tool in tools.items():
        Draft202012Validator.check_schema(tool.input_schema)
        assert tool.input_schema == TOOLS[name].schema
        assert (tool.title, tool.description) == (TOOLS[name].title, TOOLS[name].description)
        hints = tool.annotations
        assert hints is not None
        assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint) == (
            name not in WRITERS,
            False,
            name != "get_context",
            False,
        )
        assert tool.output_schema == TOOLS[name].answers
        assert tool.output_schema["type"] == "object"
    ask = asking(client)
    noted = await ask("remember_this", {"text": "The valve costs 3 euros.", "key": "valve"})
    assert (await ask("fetch", {"id": noted["ref"]}))["text"] == "The valve costs 3 euros."
    assert noted["ref"] in {found["id"] for found in (await ask("search", {"query": "valve"}))["results"]}
    assert (await ask("get_context", {"task": "valve"}))["items"][0]["ref"] == noted["ref"]
    for further in ({"session_id": "chat", "items": "new", "pin": True}, {"format": "json"}, {"format": "markdown"}):
        await ask("get_context", {"task": "valve", **further})
    await ask("remember_this", {"text": "The gauge costs 5 euros."})
    page = await ask("query_memory", {"find": "costs", "k": 1, "expand": "more"})
    for step in ("document", "neighbors"):
        assert (await ask("expand", {"ref": noted["ref"], "direction": step}))["direction"] == step
    assert len((await ask("expand", {"cursor": page["cursor"], "direction": "more"}))["items"]) == 1
    assert (await ask("expand", {"ref": "nothing", "direction": "more"}))["items"] == []
    with pytest.raises(InvalidInput, match="no tool"):
        await ask("shell", {"command": "ls"})
    with pytest.raises(MCPError) as caught:
        await client.session.list_prompts()
    assert caught.value.code == -32601


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_works_in_memory(engine: Engine, mode: str) -> None:
    async with in_memory(engine, mode) as client:
        await told_right(client)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_works_over_streamable_http(server: HttpServer, mode: str) -> None:
    async with mcp_client(server, HEADERS, mode=mode) as client:
        await told_right(client)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_works_over_stdio_with_a_record_of_its_own(record: Path, mode: str) -> None:
    async with stdio_client(scope_of(), mode=mode, MN_CONTEXT_STORE=str(record)) as client:
        await told_right(client)
    engine = open_engine(record)  # the process has let go of it
    async with embedded(engine, scope_of()) as ask:
        assert (await ask("fetch", {"id": "note/valve"}))["text"] == "The valve costs 3 euros."
    engine.close()


async def test_each_message_over_http_has_a_scope_of_its_own(server: HttpServer) -> None:
    async with mcp_client(server, HEADERS) as alice, mcp_client(server, scope_of("bob").headers()) as bob:
        kept = await asking(alice)("get_context", {"task": "pump", "pin": True})
        with pytest.raises(InvalidInput):
            await asking(bob)("get_context", {"pinned": kept["pin"]})
        noted = await asking(bob)("remember_this", {"text": "Bob was here."})
        assert (await asking(alice)("search", {"query": "Bob"}))["results"][0]["id"] == f"bob:{noted['ref']}"


def posted(server: HttpServer, body: bytes | dict[str, Any], **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(f"{url_of(server)}/mcp", content=content, headers={**HEADERS, **MESSAGE, **headers}, timeout=WAIT)


MALFORMED = [
    (b"{", -32700, None),
    (b"[" * 100_000, -32700, None),
    (b"\xff\xfe", -32700, None),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}', -32700, None),
    (b'{"jsonrpc": "2.0", "id": NaN, "method": "tools/list"}', -32700, None),
    (b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "tools/list"}', -32700, None),
    (b"[]", -32600, None),
    (b"null", -32600, None),
    (b'[{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]', -32600, None),
    (b'{"id": 1, "method": "tools/list"}', -32600, 1),
    (b'{"jsonrpc": "1.0", "id": "a", "method": "tools/list"}', -32600, "a"),
    (b'{"jsonrpc": "2.0", "id": null, "method": "tools/list"}', -32600, None),
    (b'{"jsonrpc": "2.0", "id": {}, "method": "tools/list"}', -32600, None),
    (b'{"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"}', -32600, None),
    (b'{"jsonrpc": "2.0", "id": true, "method": "tools/list"}', -32600, None),
    (b'{"jsonrpc": "2.0", "id": 1}', -32600, 1),
    (b'{"jsonrpc": "2.0", "id": 1, "method": 3}', -32600, 1),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": 3}', -32600, 1),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [1]}', -32602, 1),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search", "arguments": {"query": '
     + b"[" * 300 + b"]" * 300 + b"}}}", -32600, 1),
]  # fmt: skip
"""What is no message, the standard's code for it, and the id of it where there is one."""


@pytest.mark.parametrize("era", [{}, MODERN], ids=["legacy", "modern"])
@pytest.mark.parametrize(("body", "code", "named"), [(b"", -32700, None), *MALFORMED])
def test_malformed_messages_have_the_standards_codes(
    server: HttpServer, body: bytes, code: int, named: Any, era: dict[str, str]
) -> None:
    answer = posted(server, body, **era)
    told = answer.json()
    assert (answer.status_code, told["error"]["code"], told["id"]) == (400, code, named)
    assert "Traceback" not in answer.text
    assert "pydantic" not in answer.text
    assert told["error"].keys() == {"code", "message"}


@pytest.mark.parametrize("params", [b'{"name": 3}', b'{"name": "fetch", "arguments": 3}'])
def test_a_call_that_is_none_has_the_wrong_parameters(server: HttpServer, params: bytes) -> None:
    answer = posted(server, b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ' + params + b"}")
    assert answer.json()["error"]["code"] == -32602


def test_malformed_lines_are_answered_as_bodies_are(record: Path) -> None:
    """Each line is, but an empty one; what comes after them is served."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mn_engine.cli", "mcp", "--store", str(record)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={"MN_JOB_ID": "job", "MN_RUN_ID": "run", "MN_PRINCIPAL": "alice"},
    )  # fmt: skip
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    last = {"jsonrpc": "2.0", "id": "last", "method": "initialize", "params": hello}
    lines = [b"", *(body for body, _, _ in MALFORMED), json.dumps(last).encode()]
    told, _ = process.communicate(b"".join(line + b"\n" for line in lines), timeout=WAIT)
    answers = [json.loads(line) for line in told.splitlines()]
    assert [(one["error"]["code"], one["id"]) for one in answers[:-1]] == [
        (code, named) for _, code, named in MALFORMED
    ]
    assert answers[-1]["result"]["serverInfo"]["name"] == "membrane"


def test_an_unknown_method_is_the_standards(server: HttpServer) -> None:
    answer = posted(server, {"jsonrpc": "2.0", "id": 1, "method": "memories/drop"})
    assert answer.json()["error"]["code"] == -32601


def test_no_stream_is_opened_and_no_session_kept(server: HttpServer) -> None:
    for method in ("GET", "DELETE", "PUT"):
        answer = httpx.request(method, f"{url_of(server)}/mcp", headers={**HEADERS, **MESSAGE}, timeout=WAIT)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert answer.json()["error"]["data"]["reason"] == "INVALID_ARGUMENT"
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    answer = posted(server, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    assert answer.json()["result"]["serverInfo"]["name"] == "membrane"
    assert "mcp-session-id" not in answer.headers


def test_a_message_without_a_scope_or_in_another_form_is_refused(server: HttpServer) -> None:
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    answer = httpx.post(f"{url_of(server)}/mcp", json=listing, headers=MESSAGE, timeout=WAIT)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, -32602)
    assert answer.json()["error"]["data"] == {"reason": "INVALID_ARGUMENT", "detail": {"field": "mn-job-id"}}
    assert posted(server, listing, **{"content-type": "text/plain"}).status_code == 415
    assert posted(server, b" " * (1 << 20) + json.dumps(listing).encode()).status_code == 413


async def test_a_fault_of_ours_is_told_without_its_contents(
    engine: Engine, server: HttpServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(key: str) -> None:
        raise RuntimeError("the pump costs 12 euros")

    async with mcp_client(server, HEADERS) as client:
        monkeypatch.setattr(engine.store, "run", fail)
        with pytest.raises(MCPError) as caught:
            await client.call_tool("search", {"query": "pump"})
    assert caught.value.code == -32603
    assert "euros" not in caught.value.message
    assert "RuntimeError at" in caplog.text
    assert "euros" not in caplog.text


async def test_an_engine_that_is_away_is_an_error_of_each_call_and_nothing_else_is_opened(tmp_path: Path) -> None:
    store = tmp_path / "record.duckdb"
    async with stdio_client(scope_of(), MN_CONTEXT_ADDR="127.0.0.1:1", MN_CONTEXT_STORE=str(store)) as client:
        assert (await client.list_tools()).tools
        with pytest.raises(MCPError) as caught:
            await client.call_tool("search", {"query": "pump"})
    assert rpc_error(caught.value).reason == "UNAVAILABLE"
    assert not store.exists()


def test_stdout_carries_the_protocol_and_nothing_else(record: Path) -> None:
    messages = [
        "not json",
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        "{",
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "nonsense"}),
        json.dumps({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {
            "name": "remember_this", "arguments": {"text": "The secret is 42."}}}),
        json.dumps({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "nonsense"}}),
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "mn_engine.cli", "mcp", "--store", str(record), "--log-level", "debug"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={"MN_JOB_ID": "job", "MN_RUN_ID": "run", "MN_PRINCIPAL": "alice"},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    answers: dict[Any, dict[str, Any]] = {}
    for line in messages:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    while not answers.keys() >= {1, 2, 3, 4}:
        told = json.loads(process.stdout.readline())
        assert told["jsonrpc"] == "2.0"
        answers[told.get("id")] = told
    process.stdin.close()
    assert process.wait(WAIT) == 0
    log = process.stderr.read()
    assert process.stdout.read() == ""
    process.stdout.close()
    process.stderr.close()
    assert answers[None]["error"]["code"] == -32700
    assert answers[2]["error"]["code"] == -32601
    assert answers[3]["result"]["structuredContent"]["status"] == "recorded"
    assert (answers[4]["error"]["code"], answers[4]["error"]["data"]["reason"]) == (-32602, "INVALID_ARGUMENT")
    assert "secret" not in log
    assert "Traceback" not in log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_process_at_once_and_the_record_is_whole(record: Path, number: signal.Signals) -> None:
    note = {"name": "remember_this", "arguments": {"text": "Kept.", "key": "k"}}
    process = subprocess.Popen(
        [sys.executable, "-m", "mn_engine.cli", "mcp", "--store", str(record)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={"MN_JOB_ID": "job", "MN_RUN_ID": "run", "MN_PRINCIPAL": "alice"},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    for place, (method, params) in enumerate((("initialize", hello), ("tools/call", note))):
        message = {"jsonrpc": "2.0", "id": place, "method": method, "params": params}
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        assert "result" in json.loads(process.stdout.readline())
    process.send_signal(number)
    _, log = process.communicate(timeout=WAIT)
    assert (process.returncode, "Traceback" in log) == (-number, False)
    engine = open_engine(record)
    try:
        assert engine.store.run(run_key("job", "run")).revision == 1
    finally:
        engine.close()


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, "MN_JOB_ID"),
        ({"MN_JOB_ID": "job", "MN_RUN_ID": "run"}, "MN_PRINCIPAL"),
        ({"MN_JOB_ID": "job", "MN_RUN_ID": "run", "MN_PRINCIPAL": "not a name"}, "MN_PRINCIPAL"),
        ({"MN_JOB_ID": "job", "MN_RUN_ID": "run", "MN_PRINCIPAL": "a", "MN_ROLES": "a b"}, "MN_ROLES"),
        ({"MN_JOB_ID": "job", "MN_RUN_ID": "run", "MN_PRINCIPAL": "a", "MN_CONTEXT_ADDR": "x"}, "MN_CONTEXT_ADDR"),
    ],
)
def test_a_scope_that_is_missing_or_wrong_is_told_in_one_line(environment: dict[str, str], told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mn_engine.cli", "mcp"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False, env=environment,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_record_that_another_process_has_open_is_told_in_one_line(record: Path) -> None:
    engine = open_engine(record)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "mn_engine.cli", "mcp", "--store", str(record)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
            env={"MN_JOB_ID": "job", "MN_RUN_ID": "run", "MN_PRINCIPAL": "alice"},
        )  # fmt: skip
    finally:
        engine.close()
    assert (done.returncode, done.stdout) == (1, "")
    assert "RECORD_IN_USE" in done.stderr
    assert "Traceback" not in done.stderr
