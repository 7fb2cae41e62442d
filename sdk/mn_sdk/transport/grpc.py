"""An engine over gRPC: scope and bearer as metadata, a deadline on every call, retries only where they are safe.

A call is repeated only where the engine was not reached (UNAVAILABLE) and only where the same request again changes
nothing: reads, keyed writes, content-addressed uploads. Claims and dispatches of invocations are never repeated here
(invariant 10).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import grpc

from mn.context.memory.v1 import memory_pb2
from mn.context.working.v1 import working_memory_pb2
from mn_contract.addresses import Address
from mn_contract.dialling import error_of, target
from mn_contract.errors import DependencyUnavailable, InvalidInput
from mn_contract.limits import ERROR_DETAIL_BYTES_MAX, MESSAGE_BYTES_MAX
from mn_sdk.scope import SessionScope

DEADLINE_SECONDS: Final = 60.0
_DEADLINES: Final = {"PutArtifact": 600.0, "ReadArtifact": 600.0, "WatchRevisions": 3600.0}
"""Calls that may take longer. A watch holds one of the few places that a server has for them, so it is renewed by the
hour, from the revision that was told last."""

_SERVICES: Final = (
    working_memory_pb2.DESCRIPTOR.services_by_name["WorkingMemory"],
    memory_pb2.DESCRIPTOR.services_by_name["Memory"],
)
_METHODS: Final = {name: method for service in _SERVICES for name, method in service.methods_by_name.items()}
_REPEATABLE: Final = (
    "OpenRun", "GetRun", "CancelRun", "StatArtifact", "RecordEvents", "RecordFacts", "GetCard", "Recall", "Compile",
    "RespondInvocation", "CompleteInvocation", "GetInvocation", "QueryMemory", "Expand", "Search", "Fetch",
    "RememberThis", "ProposeMemory",
)  # fmt: skip
_METADATA_BYTES_MAX: Final = 2 * ERROR_DETAIL_BYTES_MAX
"""Trailers carry an error's detail in base64, and more."""


def _service_config() -> str:
    policy = {
        "maxAttempts": 4,
        "initialBackoff": "0.1s",
        "maxBackoff": "1s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    names = [{"service": _METHODS[name].containing_service.full_name, "method": name} for name in _REPEATABLE]
    return json.dumps({"methodConfig": [{"name": names, "retryPolicy": policy}]})


_OPTIONS: Final[tuple[tuple[str, Any], ...]] = (
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_metadata_size", _METADATA_BYTES_MAX),
    ("grpc.absolute_max_metadata_size", _METADATA_BYTES_MAX),
    ("grpc.enable_retries", 1),
    ("grpc.service_config", _service_config()),
    ("grpc.keepalive_time_ms", 60_000),
    # By default an engine that was away for half a minute is not dialled again for as long.
    ("grpc.max_reconnect_backoff_ms", 2_000),
)


class GrpcTransport:
    """Calls the engine at one of `replicas`, for one scope. Raises DependencyUnavailable where names of several
    replicas are given and none is known here."""

    def __init__(self, replicas: Sequence[Address], scope: SessionScope, *, token: str | None = None) -> None:
        self._metadata = [*scope.headers().items(), ("mn-detail-bytes-max", str(ERROR_DETAIL_BYTES_MAX))]
        if token is not None:
            self._metadata.append(("authorization", f"Bearer {token}"))
        self._channel = grpc.insecure_channel(target(replicas), options=_OPTIONS)
        self._closed = False
        self._calls = {name: _callable(self._channel, name) for name in _METHODS}

    def call(self, method: str, request: Any, *, timeout: float | None = None) -> Any:
        """See Transport."""
        called = self._calls.get(method)
        if called is None:
            raise InvalidInput(f"there is no operation {method!r}", field="method")
        descriptor = _METHODS[method]
        if self._closed:
            raise DependencyUnavailable("the session is closed", dependency="engine")
        own = _DEADLINES.get(method, DEADLINE_SECONDS)
        seconds = own if timeout is None else min(own, timeout)
        try:
            answer = called(request, timeout=seconds, metadata=self._metadata)
        except grpc.RpcError as error:
            raise error_of(error) from error
        return _read(answer) if descriptor.server_streaming else answer

    def close(self) -> None:
        """See Transport."""
        self._closed = True
        self._channel.close()


def _callable(channel: grpc.Channel, method: str) -> Callable[..., Any]:
    descriptor = _METHODS[method]
    maker: Callable[..., Any] = {
        (False, False): channel.unary_unary,
        (True, False): channel.stream_unary,
        (False, True): channel.unary_stream,
    }[(descriptor.client_streaming, descriptor.server_streaming)]
    request, answer = _message(descriptor.input_type), _message(descriptor.output_type)
    called: Callable[..., Any] = maker(
        f"/{descriptor.containing_service.full_name}/{method}",
        request_serializer=request.SerializeToString,
        response_deserializer=answer.FromString,
    )
    return called


def _message(descriptor: Any) -> Any:
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(descriptor)


def _read(answers: Any) -> Iterator[Any]:
    """A stream's answers. Leaving off early cancels it."""
    try:
        yield from answers
    except grpc.RpcError as error:
        raise error_of(error) from error
    finally:
        answers.cancel()
