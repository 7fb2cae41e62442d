"""MCP over stdin and stdout: one caller, for as long as stdin is open. stdout carries the protocol and nothing else."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from mn_engine.domain.scope import Scope
from mn_engine.faces.asking import Asking, waiting
from mn_engine.faces.mcp.messages import refusal_of
from mn_engine.faces.mcp.server import Answer, mcp_server


def serve_stdio(answering: AbstractAsyncContextManager[Answer], scope: Scope) -> None:
    """Serves `scope` until stdin ends. Raises what opening `answering` raises."""
    asyncio.run(_serving(answering, scope))


async def _serving(answering: AbstractAsyncContextManager[Answer], scope: Scope) -> None:
    answers: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    lines = cast("anyio.AsyncFile[str]", _messages(answers))  # of which the SDK wants no more than its lines
    async with answering as answer, stdio_server(stdin=lines) as (received, sent):
        answers.set_result(sent)
        server = mcp_server(answer, lambda _: Asking(scope=scope, remaining=waiting()))
        await server.run(received, sent, server.create_initialization_options())


async def _messages(answers: asyncio.Future[Any]) -> AsyncIterator[str]:
    """The lines of stdin that are messages. What is none is refused by way of `answers`, where answers are sent; an
    empty line is nothing."""
    async for line in anyio.wrap_file(sys.stdin.buffer):
        if not line.strip():
            continue
        refusal = refusal_of(line)
        if refusal is None:
            yield line.decode("utf-8")
        else:
            await (await answers).send(SessionMessage(refusal))
