"""Errors as JSON: problem+json (RFC 9457) over HTTP, an error object over JSON-RPC. The same reason and detail."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from mn_contract.errors import TABLE, ContextError, InvalidInput
from mn_contract.limits import ERROR_DETAIL_BYTES_MAX
from mn_engine.wire.errors import detail_json, message_of

INTERNAL: Final = "INTERNAL"
"""The reason of a fault of ours, which no class of the contract is for."""

PROBLEM_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "pattern": "^urn:mn:context:error:"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "description": "What happened, and what to do next."},
        "reason": {"enum": [*TABLE, INTERNAL]},
        "field": {"type": "string", "description": "What of the request is wrong, where one thing is."},
        "details": {"type": "object", "description": "The reason's own figures and names."},
    },
    "required": ["type", "title", "status", "detail", "reason", "details"],
    "additionalProperties": False,
}


def problem_of(error: ContextError, status: int) -> dict[str, Any]:
    """`error` as the body of an answer with HTTP `status`."""
    field = {"field": error.field} if isinstance(error, InvalidInput) else {}
    return {**_problem(error.reason, message_of(error), status), **field, "details": _detail(error)}


def internal_problem(message: str) -> dict[str, Any]:
    """A fault of ours: nothing of it but that it was one."""
    return {**_problem(INTERNAL, message, 500), "details": {}}


def rpc_error_of(error: ContextError) -> dict[str, Any]:
    """`error` as a JSON-RPC error object."""
    data = {"reason": error.reason, "detail": _detail(error)}
    return {"code": error.status.json_rpc, "message": message_of(error), "data": data}


def _problem(reason: str, message: str, status: int) -> dict[str, Any]:
    return {
        "type": f"urn:mn:context:error:{reason}",
        "title": reason.replace("_", " ").capitalize(),
        "status": status,
        "detail": message,
        "reason": reason,
    }


def _detail(error: ContextError) -> dict[str, Any]:
    detail: dict[str, Any] = json.loads(detail_json(error.detail, ERROR_DETAIL_BYTES_MAX))
    return detail
