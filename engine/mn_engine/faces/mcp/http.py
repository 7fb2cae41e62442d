"""MCP over streamable HTTP: no sessions, each message alone. Who asks is settled by what stands in front."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from mn_contract.limits import HTTP_BODY_BYTES_MAX
from mn_engine.faces.asking import ASKING, Asking
from mn_engine.faces.mcp.messages import refusal_of

_MALFORMED: Final = 400


def over_http(server: Server[Any]) -> OverHttp:
    """`server` as an app of one path. Host and Origin are checked in front of it, for every path alike."""
    return OverHttp(
        StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=HTTP_BODY_BYTES_MAX
        )
    )


class OverHttp:
    """The SDK's app, behind a check that what comes is a message."""

    def __init__(self, sdk: StreamableHTTPSessionManager) -> None:
        self._sdk = sdk

    def run(self) -> AbstractAsyncContextManager[None]:
        """What must be open while it serves."""
        return self._sdk.run()

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One message."""
        body = await Request(scope, receive).body()
        refusal = refusal_of(body)
        if refusal is not None:
            told = Response(refusal.model_dump_json(exclude_unset=True), _MALFORMED, media_type="application/json")
            await told(scope, receive, send)
        else:
            await self._sdk.handle_request(scope, _again(body, receive), send)


def _again(body: bytes, receive: Receive) -> Receive:
    """The body that was read, once more, and then what comes after it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return messages.pop() if messages else await receive()

    return received


def asking_over_http(request: Any) -> Asking:
    """Who asks: what the gate has put into the request's scope."""
    asking: Asking = request.scope[ASKING]
    return asking
