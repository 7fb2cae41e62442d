"""From a gRPC status to the contract's error: by the ErrorInfo that the engine attached, else by the code."""

from __future__ import annotations

import json
from typing import Any, Final

import grpc
from google.rpc import error_details_pb2, status_pb2

from mn_contract.errors import (
    BY_REASON,
    DOMAIN,
    ContextBudgetExceeded,
    ContextError,
    DependencyUnavailable,
    InvalidInput,
    PermissionDenied,
    Unauthenticated,
    from_reason,
)

_STATUS_TRAILER: Final = "grpc-status-details-bin"


def error_of(error: grpc.RpcError) -> ContextError:
    """The contract's error for a failed call. What the engine did not explain itself becomes DependencyUnavailable."""
    info = _info(error)
    if info is not None:
        return from_reason(info.reason, error.details() or "", _detail(info.metadata.get("detail", "")))
    code = error.code()
    told = error.details() or code.name
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DependencyUnavailable(f"the engine did not answer in time: {told}", dependency="engine", code=code.name)
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return Unauthenticated(told)
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return PermissionDenied(told)
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        return InvalidInput(told, field="request")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return ContextBudgetExceeded(told, budget="message")
    return DependencyUnavailable(f"the engine cannot be used: {told}", dependency="engine", code=code.name)


def _info(error: grpc.RpcError) -> error_details_pb2.ErrorInfo | None:
    packed = next((pair.value for pair in error.trailing_metadata() or () if pair.key == _STATUS_TRAILER), None)
    if not isinstance(packed, bytes):
        return None
    status = status_pb2.Status.FromString(packed)
    for detail in status.details:
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.domain == DOMAIN and info.reason in BY_REASON:
            return info
    return None


def _detail(text: str) -> dict[str, Any]:
    try:
        detail = json.loads(text) if text else {}
    except ValueError:
        return {"unreadable_detail": True}
    return detail if isinstance(detail, dict) else {"unreadable_detail": True}
