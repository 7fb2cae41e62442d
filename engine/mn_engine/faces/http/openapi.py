"""The OpenAPI 3.1 document: made from the tool table, the error table and the envelope's schema alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mn_contract.errors import TABLE
from mn_contract.limits import ID_BYTES_MAX, TIMEOUT_MS_MAX
from mn_contract.smp import ENVELOPE_SCHEMA
from mn_engine.faces.gate import JOB, PRINCIPAL, ROLES, RUN, TIMEOUT_MS
from mn_engine.faces.http.answers import JSON, PROBLEM
from mn_engine.wire.problems import PROBLEM_SCHEMA
from mn_engine.wire.table import BY_OPERATION, TOOLS
from mn_engine.wire.tools import Tool

Document = dict[str, Any]

_FORMAT_VERSION: Final = "3.1.0"
_API_VERSION: Final = "1"
_OF_HTTP: Final = (400, 408, 413, 415, 421, 500)
"""Statuses that are not in the contract's table, or not for its reasons: bytes that are no request, a head that does
not come, a body's size and type, a foreign host, a fault of ours."""
_ID_PATTERN: Final = rf"^[A-Za-z0-9_\-.@/]{{1,{ID_BYTES_MAX}}}$"


def openapi() -> Document:
    """The document."""
    context = BY_OPERATION["GetContext"]
    return {
        "openapi": _FORMAT_VERSION,
        "info": {
            "title": "Membrane",
            "version": _API_VERSION,
            "description": "Packs of memories and the tools that read and write them. The scope of a call is in its"
            " headers. The same tools are served over MCP at /mcp.",
        },
        "security": [{"bearer": []}, {}],
        "paths": {
            "/v1/context": {
                "get": _operation(context, "readContext", {"parameters": [*_headers(), *_parameters(context)]})
                | {"responses": _pack_responses(kept=True)},
                "post": _operation(context, "getContext", {"parameters": _headers(), **_body(context.schema)})
                | {"responses": _pack_responses(kept=False)},
            },
            "/v1/tools/call": {
                "post": {
                    "operationId": "callTool",
                    "summary": "Call a tool",
                    "parameters": _headers(),
                    **_body({"oneOf": [_named(tool) for tool in TOOLS.values()]}),
                    "responses": _responses({JSON: {"schema": {"type": "object"}}, **_MARKDOWN}),
                }
            },
            "/healthz": {"get": _health()},
            "/openapi.json": {"get": _itself()},
        },
        "components": {
            "schemas": {
                "Envelope": {name: part for name, part in ENVELOPE_SCHEMA.items() if name != "$schema"},
                "Problem": dict(PROBLEM_SCHEMA),
            },
            "responses": {"Problem": {"description": "Refused.", "content": {PROBLEM: {"schema": _ref("Problem")}}}},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


_MARKDOWN: Final[Mapping[str, Any]] = {"text/markdown": {"schema": {"type": "string"}}}


def _operation(tool: Tool, name: str, further: Document) -> Document:
    return {"operationId": name, "summary": tool.title, "description": tool.description, **further}


def _named(tool: Tool) -> Document:
    return {
        "type": "object",
        "title": tool.title,
        "description": tool.description,
        "properties": {"name": {"const": tool.name}, "arguments": tool.schema},
        "required": ["name", "arguments"] if tool.required else ["name"],
        "additionalProperties": False,
    }


def _body(schema: Document) -> Document:
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema}}}}


def _parameters(tool: Tool) -> list[Document]:
    """The tool's arguments as query parameters; a list is a parameter that stands there more than once."""
    return [
        {
            "name": name,
            "in": "query",
            "required": name in tool.required,
            "description": schema["description"],
            "schema": {key: part for key, part in schema.items() if key != "description"},
        }
        for name, schema in tool.properties.items()
    ]


def _headers() -> list[Document]:
    text = {"type": "string", "pattern": _ID_PATTERN}
    return [
        _header(JOB, "The job.", text, required=True),
        _header(RUN, "Its run.", text, required=True),
        _header(PRINCIPAL, "Who asks; may be left out where the token says it.", text, required=False),
        _header(ROLES, "Their roles, with commas between them.", {"type": "string"}, required=False),
        _header(
            TIMEOUT_MS,
            "How long the caller waits, in milliseconds.",
            {"type": "integer", "minimum": 1, "maximum": TIMEOUT_MS_MAX},
            required=False,
        ),
    ]


def _header(name: str, description: str, schema: Document, *, required: bool) -> Document:
    return {"name": name, "in": "header", "required": required, "description": description, "schema": schema}


def _pack_responses(*, kept: bool) -> Document:
    """A pack's answers; one that was kept has an ETag, and where the caller has it already that is said."""
    etag = {"ETag": {"description": "Of a pack that was kept: its digest.", "schema": {"type": "string"}}}
    responses = _responses({JSON: {"schema": {"anyOf": [_ref("Envelope"), {"type": "object"}]}}, **_MARKDOWN})
    responses["200"]["headers"] = etag
    if kept:
        responses["304"] = {"description": "The caller has this pack.", "headers": etag}
    return responses


def _responses(content: Document) -> Document:
    statuses = sorted({status.http for status in TABLE.values()} | set(_OF_HTTP))
    refused = {str(status): {"$ref": "#/components/responses/Problem"} for status in statuses}
    return {"200": {"description": "Done.", "content": content}, **refused}


def _health() -> Document:
    told = {"type": "object", "properties": {"status": {"enum": ["serving", "opening"]}}, "required": ["status"]}
    content = {JSON: {"schema": told}}
    return {
        "operationId": "health",
        "summary": "Whether the record is open",
        "security": [],
        "responses": {
            "200": {"description": "It is.", "content": content},
            "421": {"$ref": "#/components/responses/Problem"},
            "503": {"description": "It is being opened.", "content": content},
        },
    }


def _itself() -> Document:
    return {
        "operationId": "openapi",
        "summary": "This document",
        "security": [],
        "responses": {
            "200": {"description": "It.", "content": {JSON: {"schema": {"type": "object"}}}},
            "421": {"$ref": "#/components/responses/Problem"},
        },
    }


def _ref(name: str) -> Document:
    return {"$ref": f"#/components/schemas/{name}"}
