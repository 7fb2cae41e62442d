"""The tools over every face, behind one way to ask: what a face answers is JSON (or Markdown), what it refuses an error
of the contract, wherever it travelled."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import httpx
import httpx2
from google.protobuf.json_format import ParseDict
from jsonschema import Draft202012Validator
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from mn_contract.addresses import Address, read_address
from mn_contract.dialling import error_of
from mn_contract.errors import TABLE, ContextError, from_reason
from mn_engine.bootstrap import http_server
from mn_engine.faces.asking import Asking, ToolCalls, waiting
from mn_engine.faces.embedded import EmbeddedFace
from mn_engine.faces.gate import Gate
from mn_engine.faces.grpc import GrpcServer
from mn_engine.faces.http import HttpServer
from mn_engine.faces.mcp import mcp_server
from mn_engine.faces.workers import Workers
from mn_engine.service.engine import Engine
from mn_engine.service.operations import OPERATIONS
from mn_engine.wire.codecs import CODECS
from mn_engine.wire.table import TOOLS
from mn_sdk.scope import SessionScope

WAIT = 30.0
ANYWHERE = read_address("127.0.0.1:0", "address")
Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
Opened = AbstractAsyncContextManager[Ask]


def scope_of(principal: str = "alice", *, run: str = "run", roles: tuple[str, ...] = ()) -> SessionScope:
    return SessionScope(job_id="job", run_id=run, principal=principal, roles=roles)


@asynccontextmanager
async def embedded(engine: Engine, scope: SessionScope) -> AsyncIterator[Ask]:
    face = EmbeddedFace(engine)

    async def ask(name: str, arguments: Mapping[str, Any]) -> Any:
        told = face.call(TOOLS[name].operation, scope.headers(), _message(name, arguments))
        return _read(told.document, arguments)

    yield ask


@asynccontextmanager
async def over_grpc(engine: Engine, scope: SessionScope) -> AsyncIterator[Ask]:
    with ServingGrpc(engine) as address, grpc.insecure_channel(str(address)) as channel:

        async def ask(name: str, arguments: Mapping[str, Any]) -> Any:
            operation = TOOLS[name].operation
            codec = CODECS[operation]
            method = channel.unary_unary(
                f"/{OPERATIONS[operation].service}/{operation}",
                request_serializer=codec.request.SerializeToString,
                response_deserializer=codec.answer.FromString,
            )
            metadata = [*scope.headers().items(), ("mn-detail-bytes-max", "100000")]
            try:
                told = method(_message(name, arguments), metadata=metadata, timeout=WAIT)
            except grpc.RpcError as error:
                raise error_of(error) from error
            return _read(told.document, arguments)

        yield ask


@asynccontextmanager
async def over_http(engine: Engine, scope: SessionScope) -> AsyncIterator[Ask]:
    with ServingHttp(engine) as server:
        async with asking_http(server, scope.headers()) as ask:
            yield ask


@asynccontextmanager
async def asking_http(server: HttpServer, headers: Mapping[str, str]) -> AsyncIterator[Ask]:
    async with httpx.AsyncClient(base_url=url_of(server), headers=headers, timeout=WAIT) as client:

        async def ask(name: str, arguments: Mapping[str, Any]) -> Any:
            answer = await client.post("/v1/tools/call", json={"name": name, "arguments": dict(arguments)})
            if answer.is_error:
                raise problem_error(answer)
            return _read(answer.content, arguments)

        yield ask


@asynccontextmanager
async def mcp_in_memory(engine: Engine, scope: SessionScope) -> AsyncIterator[Ask]:
    calls = ToolCalls(Workers())
    calls.serve(engine)
    bound = EmbeddedFace(engine)._gate.admit(scope.headers())
    server = mcp_server(calls.answer, lambda _: Asking(scope=bound, remaining=waiting()))
    try:
        async with Client(server) as client:
            yield asking(client)
    finally:
        calls.shutdown()


@asynccontextmanager
async def mcp_over_http(engine: Engine, scope: SessionScope) -> AsyncIterator[Ask]:
    with ServingHttp(engine) as server:
        async with asking_mcp(server, scope.headers()) as ask:
            yield ask


@asynccontextmanager
async def asking_mcp(server: HttpServer, headers: Mapping[str, str]) -> AsyncIterator[Ask]:
    async with mcp_client(server, headers) as client:
        yield asking(client)


@asynccontextmanager
async def mcp_over_stdio(engine: Engine, scope: SessionScope) -> AsyncIterator[Ask]:
    """A process that dials the engine."""
    with ServingGrpc(engine) as address:
        async with stdio_client(scope, MN_CONTEXT_ADDR=str(address)) as client:
            yield asking(client)


FACES: dict[str, Callable[[Engine, SessionScope], Opened]] = {
    "embedded": embedded,
    "grpc": over_grpc,
    "http": over_http,
    "mcp in memory": mcp_in_memory,
    "mcp over http": mcp_over_http,
    "mcp over stdio": mcp_over_stdio,
}


class ServingGrpc:
    """A gRPC server over an engine, at an address."""

    def __init__(self, engine: Engine, gate: Gate | None = None) -> None:
        self._server = GrpcServer(str(ANYWHERE), gate or Gate())
        self._engine = engine

    def __enter__(self) -> Address:
        self._server.start()
        self._server.serve(self._engine)
        return Address(host="127.0.0.1", port=self._server.port)

    def __exit__(self, *raised: object) -> None:
        self._server.stop(5)


class ServingHttp:
    """An HTTP server over an engine; without one it says that it is being opened."""

    def __init__(self, engine: Engine | None, gate: Gate | None = None) -> None:
        self.server = http_server(ANYWHERE, gate or Gate())
        self._engine = engine

    def __enter__(self) -> HttpServer:
        self.server.start()
        if self._engine is not None:
            self.server.serve(self._engine)
        return self.server

    def __exit__(self, *raised: object) -> None:
        self.server.stop(5)


def url_of(server: HttpServer) -> str:
    return f"http://127.0.0.1:{server.port}"


@asynccontextmanager
async def mcp_client(server: HttpServer, headers: Mapping[str, str], *, mode: str = "auto") -> AsyncIterator[Client]:
    """The official client over streamable HTTP."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=dict(headers), timeout=WAIT))
        transport = streamable_http_client(f"{url_of(server)}/mcp", http_client=http)
        yield await stack.enter_async_context(Client(transport, mode=mode, read_timeout_seconds=WAIT))


@asynccontextmanager
async def stdio_client(scope: SessionScope, *, mode: str = "auto", **environment: str) -> AsyncIterator[Client]:
    """The official client over the stdio of the command."""
    named = {name.upper().replace("-", "_"): value for name, value in scope.headers().items()}
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mn_engine.cli", "mcp"],
        env={"PATH": os.environ["PATH"], **named, **environment},
    )
    async with Client(command, mode=mode, read_timeout_seconds=WAIT) as client:
        yield client


def asking(client: Client) -> Ask:
    async def ask(name: str, arguments: Mapping[str, Any]) -> Any:
        try:
            told = await client.call_tool(name, dict(arguments))
        except MCPError as error:
            raise rpc_error(error) from error
        (part,) = told.content
        assert not told.is_error
        structured = told.structured_content
        Draft202012Validator(dict(TOOLS[name].answers)).validate(structured)
        if structured == {"markdown": part.text}:
            return part.text
        assert json.loads(part.text) == structured
        return structured

    return ask


def problem_error(answer: httpx.Response) -> ContextError:
    """The contract's error in a problem, which must be well-formed."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    problem = answer.json()
    assert problem["status"] == answer.status_code == TABLE[problem["reason"]].http
    assert problem.get("field") == problem["details"].get("field")
    return from_reason(problem["reason"], problem["detail"], problem["details"])


def rpc_error(error: MCPError) -> ContextError:
    """The contract's error in a JSON-RPC error, which must be well-formed."""
    assert error.code == TABLE[error.data["reason"]].json_rpc
    return from_reason(error.data["reason"], error.message, error.data["detail"])


def _message(name: str, arguments: Mapping[str, Any]) -> Any:
    return ParseDict(dict(arguments), CODECS[TOOLS[name].operation].request())


def _read(document: bytes, arguments: Mapping[str, Any]) -> Any:
    text = document.decode("utf-8")
    return text if arguments.get("format") == "markdown" else json.loads(text)
