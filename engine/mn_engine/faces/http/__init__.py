"""The HTTP face: packs, tool calls, their OpenAPI document, health, and MCP behind the same gate."""

from mn_engine.faces.http.server import HttpServer

__all__ = ["HttpServer"]
