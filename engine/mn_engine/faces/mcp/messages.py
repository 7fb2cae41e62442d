"""What a message of JSON-RPC 2.0 is, as MCP narrows it (one message at a time, parameters by name, ids that are text or
whole numbers), read before the SDK reads it: the SDK takes much of what is none for a notification, which nobody
answers, or drops it.
"""

from __future__ import annotations

from typing import Any, Final

import mcp_types as types
from pydantic import ValidationError

from mn_contract.errors import InvalidInput
from mn_engine.wire.tools import read_json

_VERSION: Final = "2.0"


def refusal_of(message: bytes) -> types.JSONRPCError | None:
    """What is answered to bytes that are no message, with the standard's codes and the id where there is one; None
    where they are a message."""
    try:
        said = read_json(message)
    except InvalidInput as error:
        return _refused(None, types.PARSE_ERROR, error.message)
    if not isinstance(said, dict):
        return _refused(None, types.INVALID_REQUEST, "a message is one object; batches are not served")
    named, known = said.get("id"), type(said.get("id")) in (int, str)
    told = named if known else None
    if said.get("jsonrpc") != _VERSION:
        return _refused(told, types.INVALID_REQUEST, f"jsonrpc must be {_VERSION!r}")
    if "id" in said and not known:
        return _refused(None, types.INVALID_REQUEST, "id must be a text or a whole number; leave it out to notify")
    params = said.get("params")
    if isinstance(params, list):  # which the standard knows, and no method of MCP takes
        return _refused(told, types.INVALID_PARAMS, "params must be an object")
    try:
        types.jsonrpc_message_adapter.validate_json(message, by_name=False)
    except ValidationError:
        return _refused(told, types.INVALID_REQUEST, "this is no request, notification or response")
    return None


def _refused(named: Any, code: int, told: str) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc=_VERSION, id=named, error=types.ErrorData(code=code, message=told))
