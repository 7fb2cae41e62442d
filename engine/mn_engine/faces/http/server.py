"""The HTTP server: the app behind a port, in an event loop and a thread of its own.

It listens before the record is open and answers 503 until it is; it stops by finishing what it has accepted.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from typing import Final

import uvicorn

from mn_contract.addresses import Address
from mn_contract.errors import DependencyUnavailable
from mn_contract.limits import HTTP_CONNECTIONS_MAX, HTTP_HEAD_BYTES_MAX
from mn_engine.domain.failures import place_of
from mn_engine.faces.asking import ToolCalls
from mn_engine.faces.gate import Gate
from mn_engine.faces.http.app import http_app
from mn_engine.faces.http.heads import TimedHeads
from mn_engine.faces.http.mounted import Mounted
from mn_engine.service.engine import Engine

_log = logging.getLogger("mn_engine.http")
_BACKLOG: Final = 512
_CLOSING_SECONDS: Final = 2.0
"""What the server's loop takes to end once nothing is under way."""


class HttpServer:
    """Listens from its making on; answers 503 from `start`, and calls from `serve` on; `stop` finishes what is under
    way."""

    def __init__(self, address: Address, gate: Gate, calls: ToolCalls, mcp: Mounted) -> None:
        self._calls = calls
        self._mcp = mcp
        self._socket = _listen(address)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            http_app(gate, calls, mcp, self._crowded),
            http=TimedHeads,  # over h11, which every install has, so that limits and refusals are the same in each
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=HTTP_HEAD_BYTES_MAX,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="mn-http", daemon=True)

    def start(self) -> None:
        """Begins to answer, 503."""
        self._thread.start()

    def serve(self, engine: Engine) -> None:
        """Begins to answer calls."""
        self._calls.serve(engine)

    def drain(self, grace_seconds: float) -> None:
        """Refuses new requests, and lets the others finish for `grace_seconds`. Returns at once."""
        self._server.config.timeout_graceful_shutdown = int(grace_seconds)
        self._server.should_exit = True

    def stop(self, grace_seconds: float) -> None:
        """The same, and waits for it. The engine is its owner's to close."""
        self.drain(grace_seconds)
        if self._thread.ident is not None:
            self._thread.join(grace_seconds + _CLOSING_SECONDS)
        self._socket.close()
        self._calls.shutdown()

    def _crowded(self) -> bool:
        return len(self._server.server_state.connections) > HTTP_CONNECTIONS_MAX

    def _run(self) -> None:
        try:
            asyncio.run(self._serving())
        except Exception as error:  # noqa: BLE001  (the end of a thread: our faults end in the log)
            _log.error("the HTTP server failed: %s", place_of(error))

    async def _serving(self) -> None:
        async with self._mcp.run():
            await self._server.serve(sockets=[self._socket])


def _listen(address: Address) -> socket.socket:
    """A listening socket. Raises DependencyUnavailable."""
    try:
        family, kind, _, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        # Its protocol is named: asyncio turns Nagle's delay off only where it is, and a head and its body go apart.
        listening = socket.socket(family, kind, socket.IPPROTO_TCP)
    except OSError as error:
        raise _taken(address) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise _taken(address) from error
    return listening


def _taken(address: Address) -> DependencyUnavailable:
    return DependencyUnavailable(f"{address} cannot be listened on: is another server there?", dependency="address")
