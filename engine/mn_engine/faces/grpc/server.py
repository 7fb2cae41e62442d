"""The server: a synchronous gRPC server over the operation table, with health and reflection.

It listens before the record is open and says NOT_SERVING until it is; it stops by finishing what it has accepted.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

import mn.context.working.v1.working_memory_pb2  # noqa: F401  (reflection answers from the descriptors it registers)
from mn_contract.errors import DependencyUnavailable
from mn_contract.limits import (
    ERROR_DETAIL_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    SERVER_CALLS_MAX,
    SERVER_RESERVE_THREADS,
    SERVER_THREADS,
    WATCHES_MAX,
)
from mn_engine.faces.gate import Gate
from mn_engine.faces.grpc.handlers import SERVICE, Handlers
from mn_engine.service.engine import Engine

_log = logging.getLogger("mn_engine.grpc")
_OPTIONS: Final = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_metadata_size", ERROR_DETAIL_BYTES_MAX * 2),
    ("grpc.so_reuseport", 0),
]


class GrpcServer:
    """Listens from `start` on; answers from `serve` on; `stop` finishes what is under way."""

    def __init__(self, address: str, gate: Gate) -> None:
        self._urgent = ThreadPoolExecutor(SERVER_RESERVE_THREADS, thread_name_prefix="mn-urgent")
        self._watching = ThreadPoolExecutor(WATCHES_MAX, thread_name_prefix="mn-watch")
        self._handlers = Handlers(gate, urgent=self._urgent, watching=self._watching)
        self._health = health.HealthServicer(experimental_non_blocking=True, experimental_thread_pool=self._urgent)
        self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        self._server = grpc.server(
            ThreadPoolExecutor(SERVER_THREADS, thread_name_prefix="mn-call"),
            handlers=[self._handlers],
            options=_OPTIONS,
            maximum_concurrent_rpcs=SERVER_CALLS_MAX,
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)
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
        """Refuses new calls, ends watches, lets the others finish for `grace_seconds`, and closes the engine."""
        self._health.enter_graceful_shutdown()
        stopping = self._server.stop(grace_seconds)
        if self._engine is not None:
            self._engine.watchers.close()
        stopping.wait(grace_seconds + 1)
        if self._engine is not None:
            self._engine.close()
        self._urgent.shutdown(wait=False)
        self._watching.shutdown(wait=False)
        _log.info("stopped")

    def _set_health(self, status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
        for service in ("", SERVICE):
            self._health.set(service, status)
