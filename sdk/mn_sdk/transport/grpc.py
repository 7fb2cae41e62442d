"""An engine behind a server. Every call has a deadline; calls that may be repeated safely are, a few times, when the server
cannot be reached; every failure comes out as one of the contract's errors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import grpc
from google.protobuf.message_factory import GetMessageClass

from mn.context.working.v1 import working_memory_pb2
from mn_contract.errors import (
    DOMAIN,
    ContextBudgetExceeded,
    ContextError,
    DependencyUnavailable,
    InvalidInput,
    PermissionDenied,
    Unauthenticated,
    from_reason,
)
from mn_contract.limits import ERROR_DETAIL_BYTES_MAX, MESSAGE_BYTES_MAX

_SERVICE: Final = working_memory_pb2.DESCRIPTOR.services_by_name["WorkingMemory"]
_NEVER_REPEATED: Final = frozenset({"BeginInvocation", "DispatchInvocation", "WatchRevisions", "PutArtifact"})
TIMEOUT_SECONDS: Final = 60.0
_RETRY: Final = {
    "maxAttempts": 4,
    "initialBackoff": "0.1s",
    "maxBackoff": "2s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}


class GrpcTransport:
    """Operations over a channel. The token is asked for anew at each call, so that it can be rotated."""

    def __init__(self, address: str, metadata: dict[str, str], *, token: Callable[[], str] = lambda: "") -> None:
        self._address = address
        self._metadata = [*metadata.items(), ("mn-detail-bytes-max", str(ERROR_DETAIL_BYTES_MAX))]
        self._token = token
        self._channel = grpc.insecure_channel(address, options=_options())
        self._calls = {name: self._stub(name) for name in _SERVICE.methods_by_name}

    def call(self, method: str, request: Any, *, timeout: float | None = None) -> Any:
        stub = self._calls.get(method)
        if stub is None:
            raise InvalidInput(f"there is no operation {method!r}", field="method")
        seconds = TIMEOUT_SECONDS if timeout is None else timeout
        try:
            answer = stub(request, timeout=seconds, metadata=self._with_token())
        except grpc.RpcError as error:
            raise self._translated(error) from error
        if _SERVICE.methods_by_name[method].server_streaming:
            return self._read(answer)
        return answer

    def close(self) -> None:
        self._channel.close()

    def _stub(self, name: str) -> Any:
        method = _SERVICE.methods_by_name[name]
        kinds = ("stream" if method.client_streaming else "unary", "stream" if method.server_streaming else "unary")
        make = getattr(self._channel, "_".join(kinds))
        return make(
            f"/{_SERVICE.full_name}/{name}",
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )

    def _with_token(self) -> list[tuple[str, str]]:
        token = self._token()
        return [*self._metadata, ("authorization", f"Bearer {token}")] if token else self._metadata

    def _read(self, answers: Any) -> Iterator[Any]:
        try:
            yield from answers
        except grpc.RpcError as error:
            raise self._translated(error) from error
        finally:
            answers.cancel()

    def _translated(self, error: grpc.RpcError) -> ContextError:
        code = error.code()
        ours = _reason_of(error)
        if ours is not None:
            return ours
        text = error.details() or code.name
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return ContextBudgetExceeded(f"{self._address} did not answer in time", budget="deadline")
        plain: dict[grpc.StatusCode, ContextError] = {
            grpc.StatusCode.UNAUTHENTICATED: Unauthenticated(text),
            grpc.StatusCode.PERMISSION_DENIED: PermissionDenied(text),
            grpc.StatusCode.INVALID_ARGUMENT: InvalidInput(text, field="request"),
        }
        return plain.get(code) or DependencyUnavailable(
            f"{self._address}: {code.name.lower()}: {text}", dependency=self._address
        )


def _options() -> list[tuple[str, Any]]:
    repeated = [
        {"service": _SERVICE.full_name, "method": name}
        for name in _SERVICE.methods_by_name
        if name not in _NEVER_REPEATED
    ]
    return [
        ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
        ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
        ("grpc.max_metadata_size", ERROR_DETAIL_BYTES_MAX * 2),
        ("grpc.service_config", json.dumps({"methodConfig": [{"name": repeated, "retryPolicy": _RETRY}]})),
    ]


def _reason_of(error: grpc.RpcError) -> ContextError | None:
    """The contract's error that a status carries; None where it carries none."""
    from google.rpc import error_details_pb2, status_pb2

    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status = status_pb2.Status.FromString(value)
            for packed in status.details:
                info = error_details_pb2.ErrorInfo()
                if packed.Unpack(info) and info.domain == DOMAIN:
                    return from_reason(info.reason, status.message, json.loads(info.metadata["detail"]))
    return None
