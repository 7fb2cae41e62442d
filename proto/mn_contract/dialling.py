"""What every gRPC client of an engine shares: what it dials, and what a failed call means."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Sequence
from typing import Any, Final

import grpc
from google.rpc import error_details_pb2, status_pb2

from mn_contract.addresses import Address
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
    """The contract's error for a failed call: by the ErrorInfo that the engine attached, else by the code. What the
    engine did not explain itself becomes DependencyUnavailable."""
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
    trailers: Any = error.trailing_metadata() or ()  # pairs, also where a client is asynchronous
    packed = next((value for key, value in trailers if key == _STATUS_TRAILER), None)
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


def target(replicas: Sequence[Address]) -> str:
    """The gRPC name of the replicas, which are tried in their order.

    gRPC looks up a single host by itself, and again when it has lost it. Of several it takes numbers only, all of one
    family: so they are looked up here, once, and IPv4 is written as IPv6, which gRPC dials as IPv4 (RFC 4291, 2.5.5.2).
    Raises DependencyUnavailable where none is known here.
    """
    if len(replicas) == 1:
        return f"dns:///{replicas[0]}"
    places: list[str] = []
    for replica in replicas:
        with contextlib.suppress(socket.gaierror):
            found = socket.getaddrinfo(replica.host, replica.port, type=socket.SOCK_STREAM)
            places += [str(Address(host=_ipv6(str(place[0])), port=replica.port)) for *_, place in found]
    if not places:
        names = ", ".join(map(str, replicas))
        raise DependencyUnavailable(f"no host of {names} is known here; check the names", dependency="engine")
    return f"ipv6:{','.join(dict.fromkeys(places))}"


def _ipv6(host: str) -> str:
    return host if ":" in host else f"::ffff:{host}"
