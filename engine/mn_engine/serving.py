"""Running the server as a process: open the record behind a listening port, stop on a signal, lose nothing."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mn_engine.bootstrap import answering, http_server, open_engine
from mn_engine.config import McpConfig, ServeConfig
from mn_engine.faces.grpc import GrpcServer
from mn_engine.faces.mcp import dialled, serve_stdio

_LIBRARIES: Final = ("mcp", "sse_starlette", "uvicorn", "asyncio")
_STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_log = logging.getLogger("mn_engine.serve")


def serve_until_signalled(config: ServeConfig, *, grace_seconds: float) -> None:
    """Serves until SIGINT, SIGTERM or SIGHUP, then finishes what is under way. Raises the contract's errors."""
    with _signals() as signals:
        grpc = GrpcServer(str(config.address), config.gate)
        http = None if config.http is None else http_server(config.http, config.gate)
        engine = None
        try:
            grpc.start()
            _log.info("listening on port %d; opening %s", grpc.port, config.record)
            if http is not None:
                http.start()
                _log.info("listening for HTTP on %d", http.port)
            engine = open_engine(config.record, config.signing_key)
            grpc.serve(engine)
            if http is not None:
                http.serve(engine)
            _log.info("serving")
            _log.info("stopping on %s", signal.Signals(signals.recv(1)[0]).name)
        finally:
            if http is not None:
                http.drain(grace_seconds)  # before the other is waited for: neither takes new calls meanwhile
            grpc.stop(grace_seconds)
            if http is not None:
                http.stop(grace_seconds)
            if engine is not None:
                engine.close()


def serve_mcp(config: McpConfig) -> None:
    """Serves MCP over stdin and stdout until stdin ends. Raises the contract's errors.

    A signal ends the process at once: what was acknowledged is durable, and a client that sends one waits for nothing.
    """
    for number in _STOPPING:
        signal.signal(number, signal.SIG_DFL)
    opened = dialled(config.replicas, config.token) if config.replicas else answering(config.record, config.scope)
    serve_stdio(opened, config.scope)


def log_to_stderr(level: str) -> None:
    """Our log. Of the libraries that serve requests it has nothing: theirs quote what was sent."""
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for name in _LIBRARIES:
        logging.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def _signals() -> Iterator[socket.socket]:
    """A socket that receives the number of each signal.

    A signal may reach any thread, and only one that reaches the main thread interrupts what it waits for; a byte on a
    socket wakes it whoever was hit.
    """
    received, sent = socket.socketpair()
    with received, sent:
        sent.setblocking(False)
        signal.set_wakeup_fd(sent.fileno())
        for number in _STOPPING:
            signal.signal(number, lambda *_: None)
        try:
            yield received
        finally:
            signal.set_wakeup_fd(-1)
