"""What is really sent: one dispatch watched at the HTTP client, where every provider's request passes.

`recording` watches the calls made inside of it, in this context only: other code in the process is untouched, and
outside of a recording the clients behave as ever. A second request to the same address within one dispatch is refused
before it leaves: one dispatch is one send (invariant 10), whatever retries somebody configured. For the same reason
redirects are not followed: the client would send again below of what is watched here.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from mn_contract.errors import UnmanagedCall

_MODULES: Final = ("httpx", "httpx2")
_current: Final[ContextVar[Exchange | None]] = ContextVar("mn_exchange", default=None)
_lock: Final = threading.Lock()
_tapped: Final[set[str]] = set()


class Exchange:
    """What was seen of one dispatch: how many requests were sent, the last answer's status and whole body."""

    def __init__(self) -> None:
        self.sent = 0
        self.status: int | None = None
        self.body: bytes | None = None
        self.failure: BaseException | None = None
        self.about_to_send = False
        self._addresses: set[str] = set()

    def sending(self, request: Any) -> None:
        """A request is about to leave. Raises UnmanagedCall for the second one to an address."""
        address = f"{request.method} {request.url}"
        if address in self._addresses:
            raise UnmanagedCall("a second request within one dispatch was stopped; retries belong to the caller")
        self._addresses.add(address)
        self.sent += 1
        self.status, self.body, self.failure = None, None, None

    def received(self, response: Any, *, streamed: bool) -> None:
        """An answer came; where it is streamed its body is still to be read."""
        self.status = int(response.status_code)
        self.body = None if streamed else bytes(response.content)

    def on_log(self, event: dict[str, Any]) -> None:
        """litellm's word that it is about to call a provider, by whatever client."""
        if event.get("log_event_type") == "pre_api_call":
            self.about_to_send = True

    def describe(self) -> str:
        """For evidence: numbers and names, no contents."""
        failure = "" if self.failure is None else f", {type(self.failure).__name__}"
        return f"{self.sent} sent, status {self.status}{failure}"


@contextmanager
def recording(exchange: Exchange) -> Iterator[None]:
    """Watches what this context sends."""
    _tap()
    token = _current.set(exchange)
    try:
        yield
    finally:
        _current.reset(token)


def _tap() -> None:
    """Sees to it that the HTTP clients that are loaded report to recordings; each once."""
    with _lock:
        for name in _MODULES:
            module = sys.modules.get(name)
            if module is not None and name not in _tapped:
                module.Client.send = _sync(module.Client.send)
                module.AsyncClient.send = _async(module.AsyncClient.send)
                _tapped.add(name)


def _sync(send: Any) -> Any:
    @functools.wraps(send)
    def tapped(client: Any, request: Any, **options: Any) -> Any:
        exchange = _current.get()
        if exchange is None:
            return send(client, request, **options)
        exchange.sending(request)
        try:
            response = send(client, request, **{**options, "follow_redirects": False})
        except BaseException as error:
            exchange.failure = error
            raise
        exchange.received(response, streamed=bool(options.get("stream")))
        return response

    return tapped


def _async(send: Any) -> Any:
    @functools.wraps(send)
    async def tapped(client: Any, request: Any, **options: Any) -> Any:
        exchange = _current.get()
        if exchange is None:
            return await send(client, request, **options)
        exchange.sending(request)
        try:
            response = await send(client, request, **{**options, "follow_redirects": False})
        except BaseException as error:
            exchange.failure = error
            raise
        exchange.received(response, streamed=bool(options.get("stream")))
        return response

    return tapped
