"""Running the server as a process: open the record behind a listening port, stop on a signal, lose nothing."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mn_engine.bootstrap import open_engine
from mn_engine.config import ServeConfig
from mn_engine.faces.grpc import GrpcServer

_STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_log = logging.getLogger("mn_engine.serve")


def serve_until_signalled(config: ServeConfig, *, grace_seconds: float) -> None:
    """Serves until SIGINT, SIGTERM or SIGHUP, then finishes what is under way. Raises the contract's errors."""
    with _signals() as signals:
        server = GrpcServer(str(config.address), config.gate)
        server.start()
        try:
            _log.info("listening on port %d; opening %s", server.port, config.record)
            server.serve(open_engine(config.record))
            _log.info("serving")
            _log.info("stopping on %s", signal.Signals(signals.recv(1)[0]).name)
        finally:
            server.stop(grace_seconds)


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
