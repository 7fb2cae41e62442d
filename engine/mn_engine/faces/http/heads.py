"""The protocol of a connection: uvicorn's, which refuses in our form, and waits for a request's head only so long.

uvicorn itself times no head: whoever sends half of one holds a connection for as long as he likes, and whoever holds
enough of them the server.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from mn_contract.canonical import encoded
from mn_contract.errors import ContextBudgetExceeded, ContextError, InvalidInput
from mn_engine.faces.http.answers import PROBLEM
from mn_engine.wire.problems import problem_of

HEAD_SECONDS: Final = 10.0
"""From a connection's beginning, or the first byte after an answer, to the end of a head."""
_UNANSWERED: Final = (h11.IDLE, h11.SEND_RESPONSE)


class TimedHeads(H11Protocol):
    """HTTP/1.1 on one connection."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for the first head."""
        super().connection_made(transport)
        self._time_head()

    def data_received(self, data: bytes) -> None:
        """Reads on; what is no part of a request that is being answered is of a head that is waited for."""
        super().data_received(data)
        self._time_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits for nothing more."""
        self._untimed()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What uvicorn refuses: bytes that are no request, or a head that is too long."""
        self._refuse(InvalidInput(msg, field="request"), 400)

    def _time_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._untimed()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _untimed(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        told = f"a request's head must come within {HEAD_SECONDS:g} seconds"
        self._refuse(ContextBudgetExceeded(told, budget="deadline"), 408)

    def _refuse(self, error: ContextError, status: int) -> None:
        """Tells an error where nothing else was told, and closes the connection."""
        if self.conn.our_state in _UNANSWERED:
            body = encoded(problem_of(error, status))
            headers = [("content-type", PROBLEM), ("content-length", str(len(body))), ("cache-control", "no-store")]
            head = h11.Response(status_code=status, headers=[*headers, ("connection", "close")])
            for event in (head, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
