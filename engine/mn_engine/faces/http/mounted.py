"""An app of another face behind the gate: it gets requests of a known caller only, whole, and within a size and a time.

It speaks JSON-RPC, so what is refused here is told as a JSON-RPC error, with the status of the contract's table.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, suppress
from typing import Protocol

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from mn_contract.canonical import encoded
from mn_contract.errors import ContextError, InvalidInput
from mn_engine.faces.asking import ASKING
from mn_engine.faces.gate import Gate
from mn_engine.faces.http.answers import JSON, Refused, further
from mn_engine.faces.http.requests import admitted, json_body, unless_gone
from mn_engine.wire.problems import rpc_error_of

_log = logging.getLogger("mn_engine.http")


class Mounted(Protocol):
    """An app that is served between the beginning and the end of `run()`."""

    def run(self) -> AbstractAsyncContextManager[None]:
        """What must be open while it serves."""

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; `scope[ASKING]` says who asks."""


class Mounting:
    """`mounted` as an endpoint."""

    def __init__(self, gate: Gate, mounted: Mounted) -> None:
        self._gate = gate
        self._mounted = mounted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(ClientDisconnect):
            refused, body = await self._ready(scope, receive)
            if refused is not None:
                await refused(scope, receive, send)
            else:
                await unless_gone(receive, self._mounted.handle_request(scope, _replayed(body), send))

    async def _ready(self, scope: Scope, receive: Receive) -> tuple[Response | None, bytes]:
        """A refusal, or None and the request's body; the scope then says who asks. Raises ClientDisconnect."""
        try:
            if scope["method"] != "POST":
                wrong = InvalidInput("this server opens no streams of its own: POST each message", field="method")
                raise Refused(405, wrong, allow="POST")
            asking = scope[ASKING] = admitted(self._gate, scope)
            return None, await json_body(scope, receive, asking.remaining)
        except ContextError as error:
            return _told(error, error.status.http), b""
        except Refused as refusal:
            answer = _told(refusal.error, refusal.status)
            answer.headers.update(refusal.headers)
            return answer, b""


def _told(error: ContextError, status: int) -> Response:
    _log.info("refused reason=%s", error.reason)
    body = encoded({"jsonrpc": "2.0", "id": None, "error": rpc_error_of(error)})
    return Response(body, status, {"cache-control": "no-store", **further(error)}, JSON)


def _replayed(body: bytes) -> Receive:
    """A request's body, once, and nothing more: that its client has gone the app learns by being cancelled."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop()

    return receive
