"""Requests: who asks, and a body within a size and a time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from mn_contract.errors import ContextBudgetExceeded, InvalidInput
from mn_contract.limits import HTTP_BODY_BYTES_MAX
from mn_engine.domain.deadlines import Remaining
from mn_engine.faces.asking import Asking, patience, waiting
from mn_engine.faces.gate import Gate, headers_of
from mn_engine.faces.http.answers import Refused

Result = TypeVar("Result")
_JSON: Final = "application/json"


def admitted(gate: Gate, scope: Scope) -> Asking:
    """Who asks, and until when. Raises what the gate raises, and InvalidInput."""
    headers = headers_of(
        (name.decode("latin-1"), value.decode("utf-8", "surrogateescape")) for name, value in scope["headers"]
    )
    return Asking(scope=gate.admit(headers), remaining=waiting(patience(headers)))


async def json_body(scope: Scope, receive: Receive, remaining: Remaining) -> bytes:
    """The body of a request that says it is JSON, which no form of a web page can. Raises Refused,
    ContextBudgetExceeded where it does not come in time, ClientDisconnect."""
    types = [value for name, value in scope["headers"] if name == b"content-type"]
    if len(types) != 1 or types[0].partition(b";")[0].strip().lower() != _JSON.encode():
        raise Refused(415, InvalidInput(f"the body must be sent as {_JSON}", field="content-type"))
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    if length.isdigit() and int(length[:20]) > HTTP_BODY_BYTES_MAX:
        raise _too_large()
    try:
        async with asyncio.timeout(max(remaining(), 0.0)):
            return await _received(receive)
    except TimeoutError as error:
        raise ContextBudgetExceeded(
            "the body did not come before the call's deadline; nothing was written", budget="deadline"
        ) from error


async def _received(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > HTTP_BODY_BYTES_MAX:
            raise _too_large()
        if not message.get("more_body", False):
            return bytes(body)


def _too_large() -> Refused:
    return Refused(413, InvalidInput(f"a body is at most {HTTP_BODY_BYTES_MAX} bytes", field="body"))


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result:
    """What `work` returns or raises; it is cancelled where the client goes first. Raises ClientDisconnect then."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientDisconnect
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait({working, leaving})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
