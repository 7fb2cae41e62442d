"""MCP over streamable HTTP: no sessions, each message alone. Who asks is settled by what stands in front."""

from __future__ import annotations

from typing import Any

from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from mn_contract.limits import HTTP_BODY_BYTES_MAX
from mn_engine.faces.asking import ASKING, Asking


def over_http(server: Server[Any]) -> StreamableHTTPSessionManager:
    """`server` as an app of one path. Host and Origin are checked in front of it, for every path alike."""
    return StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, max_request_body_size=HTTP_BODY_BYTES_MAX
    )


def asking_over_http(request: Any) -> Asking:
    """Who asks: what the gate has put into the request's scope."""
    asking: Asking = request.scope[ASKING]
    return asking
