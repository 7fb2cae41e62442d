"""The HTTP app: who asks -> a tool of the table -> its answer.

Scope comes from headers through the gate, never from a path, a query or a body. What a browser sends on behalf of some
page is not served where no token guards the server.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from mn_contract.canonical import encoded
from mn_contract.errors import ContextError, InvalidInput, NotFound
from mn_engine.domain.packs import Packaged
from mn_engine.faces.asking import Asking, ToolCalls, perform
from mn_engine.faces.gate import Gate
from mn_engine.faces.http.answers import JSON, MARKDOWN, Refused, answered, not_modified, problem
from mn_engine.faces.http.front import Front
from mn_engine.faces.http.mounted import Mounted, Mounting
from mn_engine.faces.http.openapi import openapi
from mn_engine.faces.http.query import query_arguments
from mn_engine.faces.http.requests import admitted, json_body, unless_gone
from mn_engine.service.engine import Call, Engine
from mn_engine.wire.table import BY_OPERATION, tool_named
from mn_engine.wire.tools import Tool, read_json, written

_GONE: Final = 499
"""What is answered to nobody."""
_CALL_KEYS: Final = frozenset({"name", "arguments"})


def http_app(gate: Gate, calls: ToolCalls, mcp: Mounted, crowded: Callable[[], bool]) -> Starlette:
    """The app. `mcp` is served at /mcp, behind the same gate; while there are too many connections (`crowded`) nothing
    is."""
    face = _HttpFace(gate, calls)
    context = Route("/v1/context", face.context, methods=["GET", "POST"])
    context.methods = {"GET", "POST"}  # without the HEAD that comes with a GET: it would move a session on, unread
    app = Starlette(
        routes=[
            context,
            Route("/v1/tools/call", face.call, methods=["POST"]),
            Route("/healthz", face.health, methods=["GET"]),
            Route("/openapi.json", face.openapi, methods=["GET"]),
            Route("/mcp", Mounting(gate, mcp)),
        ],
        middleware=[Middleware(Front, guarded=not gate.open, crowded=crowded)],
        exception_handlers={
            ContextError: _contract,
            Refused: _refused,
            HTTPException: _routing,
            ClientDisconnect: _gone,
        },
    )
    app.router.redirect_slashes = False
    return app


class _HttpFace:
    def __init__(self, gate: Gate, calls: ToolCalls) -> None:
        self._gate = gate
        self._calls = calls
        self._tool = BY_OPERATION["GetContext"]
        self._openapi = encoded(openapi())

    async def context(self, request: Request) -> Response:
        """`GET|POST /v1/context`."""
        asking = admitted(self._gate, request.scope)
        reads = request.method == "GET"
        if reads:
            arguments: Any = query_arguments(self._tool, request.scope["query_string"])
        else:
            _no_query(request)
            arguments = read_json(await json_body(request.scope, request.receive, asking.remaining))
        packaged, body = await self._done(request, asking, partial(_packed, asking, self._tool, arguments))
        # A session's answer is told once; a pack that was kept is the same for ever.
        etag = f'"{packaged.digest}"' if packaged.pin and packaged.change is None else ""
        if reads and etag and _has(request.headers.getlist("if-none-match"), etag):
            return not_modified(etag)
        return answered(*body, etag=etag)

    async def call(self, request: Request) -> Response:
        """`POST /v1/tools/call`."""
        asking = admitted(self._gate, request.scope)
        _no_query(request)
        body = read_json(await json_body(request.scope, request.receive, asking.remaining))
        if not isinstance(body, dict) or not body.keys() <= _CALL_KEYS:
            raise InvalidInput("the body is an object of name and arguments, and of nothing else", field="body")
        tool, arguments = tool_named(body.get("name")), body.get("arguments", {})
        return answered(*await self._done(request, asking, partial(_called, asking, tool, arguments)))

    async def health(self, request: Request) -> Response:
        """`GET /healthz`: no scope, as probes have none."""
        told = answered(encoded({"status": "serving" if self._calls.open else "opening"}), JSON)
        told.status_code = 200 if self._calls.open else 503
        return told

    async def openapi(self, request: Request) -> Response:
        """`GET /openapi.json`."""
        return answered(self._openapi, JSON)

    async def _done(self, request: Request, asking: Asking, work: Callable[[Engine, Call], Any]) -> Any:
        return await unless_gone(request.receive, self._calls.run(asking, work))


def _packed(
    asking: Asking, tool: Tool, arguments: Any, engine: Engine, call: Call
) -> tuple[Packaged, tuple[bytes, str]]:
    packaged: Packaged = perform(engine, asking.scope, call, tool, arguments)
    return packaged, _written(tool.encode(packaged, asking.scope))


def _called(asking: Asking, tool: Tool, arguments: Any, engine: Engine, call: Call) -> tuple[bytes, str]:
    return _written(tool.encode(perform(engine, asking.scope, call, tool, arguments), asking.scope))


def _written(answer: Any) -> tuple[bytes, str]:
    return written(answer), MARKDOWN if isinstance(answer, str) else JSON


def _no_query(request: Request) -> None:
    if request.scope["query_string"]:
        raise InvalidInput("a POST gives its arguments in the body, and none in the query", field="query")


def _has(lists: list[str], etag: str) -> bool:
    """Whether If-None-Match names `etag`, weakly compared (RFC 9110, 13.1.2)."""
    named = {one.strip().removeprefix("W/") for told in lists for one in told.split(",")}
    return bool(named & {etag, "*"})


async def _contract(request: Request, error: Exception) -> Response:
    assert isinstance(error, ContextError)
    return problem(error)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return problem(error.error, status=error.status, headers=error.headers)


async def _routing(request: Request, error: Exception) -> Response:
    """What the router refuses: a path that is not there, or a method that it does not have."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return problem(NotFound("there is no such path; /openapi.json says what there is"))
    told = InvalidInput(f"{request.method[:20]} is not a method of this path", field="method")
    return problem(told, status=error.status_code, headers=error.headers)


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=_GONE)
