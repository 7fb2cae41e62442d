"""The server: a synchronous gRPC server over the operation table, with health and reflection.

It listens before the record is open and says NOT_SERVING until it is; it stops by finishing what it has accepted.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection

import mn.context.memory.v1.memory_pb2
import mn.context.working.v1.working_memory_pb2  # noqa: F401  (reflection answers from the descriptors it registers)
from mn_contract.errors import DependencyUnavailable
from mn_contract.limits import (
    ERROR_DETAIL_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    SERVER_CALLS_MAX,
    UPLOAD_IDLE_SECONDS,
)
from mn_engine.faces.gate import Gate
from mn_engine.faces.grpc.handlers import Handlers
from mn_engine.faces.grpc.lanes import Lanes, on
from mn_engine.faces.grpc.uploads import Uploads
from mn_engine.service.engine import Engine
from mn_engine.service.operations import MEMORY, WORKING_MEMORY, Lane

_log = logging.getLogger("mn_engine.grpc")
_SERVICES: Final = (WORKING_MEMORY, MEMORY)
_OPTIONS: Final = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_metadata_size", ERROR_DETAIL_BYTES_MAX * 2),
    ("grpc.so_reuseport", 0),
]


class GrpcServer:
    """Listens from `start` on; answers from `serve` on; `stop` finishes what is under way."""

    def __init__(self, address: str, gate: Gate, *, upload_idle_seconds: float = UPLOAD_IDLE_SECONDS) -> None:
        self._lanes = Lanes()
        self._uploads = Uploads(idle_seconds=upload_idle_seconds)
        self._handlers = Handlers(gate, self._lanes, self._uploads)
        self._health = health.HealthServicer()
        self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        self._server = grpc.server(
            self._lanes[Lane.CALL],
            handlers=[self._handlers, _probes(self._health, self._lanes)],
            options=_OPTIONS,
            maximum_concurrent_rpcs=SERVER_CALLS_MAX,
        )
        reflection.enable_server_reflection((*_SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)
        try:
            self.port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise DependencyUnavailable(
                f"{address} cannot be listened on: is another server there?", dependency="address"
            ) from error
        self._engine: Engine | None = None

    def start(self) -> None:
        """Begins to listen, NOT_SERVING."""
        self._server.start()

    def serve(self, engine: Engine) -> None:
        """Begins to answer."""
        self._engine = engine
        self._handlers.serve(engine)
        self._set_health(health_pb2.HealthCheckResponse.SERVING)

    def stop(self, grace_seconds: float) -> None:
        """Refuses new calls, ends watches, and lets the others finish for `grace_seconds`. The engine is its owner's to
        close."""
        self._health.enter_graceful_shutdown()
        stopping = self._server.stop(grace_seconds)
        if self._engine is not None:
            self._engine.watchers.close()
        stopping.wait(grace_seconds + 1)
        self._lanes.shutdown()
        self._uploads.shutdown()
        _log.info("stopped")

    def _set_health(self, status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
        for service in ("", *_SERVICES):
            self._health.set(service, status)


def _probes(servicer: health.HealthServicer, lanes: Lanes) -> grpc.GenericRpcHandler:
    """The health service on threads of its own: grpc's way to register it leaves Check among all other calls."""

    def watch(request: Any, context: grpc.ServicerContext, send: Any) -> Any:
        return servicer.Watch(request, context, send)

    watch.experimental_non_blocking = True  # type: ignore[attr-defined]  # it keeps no thread between two answers
    codec = {
        "request_deserializer": health_pb2.HealthCheckRequest.FromString,
        "response_serializer": health_pb2.HealthCheckResponse.SerializeToString,
    }
    methods = {
        "Check": grpc.unary_unary_rpc_method_handler(
            on(lanes.health, lambda request, context: servicer.Check(request, context)), **codec
        ),
        "Watch": grpc.unary_stream_rpc_method_handler(on(lanes.health, watch), **codec),
    }
    return grpc.method_handlers_generic_handler(health.SERVICE_NAME, methods)
