"""Running the server as a process: open the record behind a listening port, stop on a signal, lose nothing."""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType

from mn_engine.bootstrap import open_engine
from mn_engine.config import ServeConfig
from mn_engine.faces.grpc import GrpcServer

_log = logging.getLogger("mn_engine.serve")


def serve_until_signalled(config: ServeConfig, *, grace_seconds: float) -> None:
    """Serves until SIGINT, SIGTERM or SIGHUP, then finishes what is under way. Raises the contract's errors."""
    stop = threading.Event()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        _log.info("stopping on %s", signal.Signals(number).name)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_signal)
    server = GrpcServer(str(config.address), config.gate)
    server.start()
    try:
        _log.info("listening on port %d; opening %s", server.port, config.record)
        server.serve(open_engine(config.record))
        _log.info("serving")
        stop.wait()
    finally:
        server.stop(grace_seconds)
