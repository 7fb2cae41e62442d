"""The MCP face: the tools of the table, over stdio, streamable HTTP, or in memory."""

from mn_engine.faces.mcp.http import asking_over_http, over_http
from mn_engine.faces.mcp.remote import dialled
from mn_engine.faces.mcp.server import Answer, mcp_server
from mn_engine.faces.mcp.stdio import serve_stdio

__all__ = ["Answer", "asking_over_http", "dialled", "mcp_server", "over_http", "serve_stdio"]
