"""MCP over stdin and stdout: one caller, for as long as stdin is open. stdout carries the protocol and nothing else."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

from mcp.server.stdio import stdio_server

from mn_engine.domain.scope import Scope
from mn_engine.faces.asking import Asking, waiting
from mn_engine.faces.mcp.server import Answer, mcp_server


def serve_stdio(answering: AbstractAsyncContextManager[Answer], scope: Scope) -> None:
    """Serves `scope` until stdin ends. Raises what opening `answering` raises."""
    asyncio.run(_serving(answering, scope))


async def _serving(answering: AbstractAsyncContextManager[Answer], scope: Scope) -> None:
    async with answering as answer, stdio_server() as (received, sent):
        server = mcp_server(answer, lambda _: Asking(scope=scope, remaining=waiting()))
        await server.run(received, sent, server.create_initialization_options())
