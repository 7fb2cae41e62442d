"""What every request passes first, whatever its path; and what nothing gets past: a fault of ours ends in the log, by
its type and place, and not in an answer.

Where no token is configured the server trusts whoever reaches it, on loopback. A browser reaches it too, for any page:
by a name of the page's own that is made to mean 127.0.0.1 (DNS rebinding), which its Host tells, or by a request across
origins, which its Origin tells.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mn_contract.addresses import Address
from mn_contract.errors import DependencyUnavailable, PermissionDenied
from mn_engine.domain.failures import place_of
from mn_engine.faces.http.answers import internal, problem

_log = logging.getLogger("mn_engine.http")
_SCHEMES: Final = ("http", "https")


class Front:
    """The outermost part of the app. `guarded` says that tokens guard the server, `crowded` whether it has more
    connections than it serves."""

    def __init__(self, app: ASGIApp, *, guarded: bool, crowded: Callable[[], bool]) -> None:
        self._app = app
        self._guarded = guarded
        self._crowded = crowded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        if self._crowded():
            busy = DependencyUnavailable("too many connections are open", dependency="connections", retry_after_ms=1000)
            return await problem(busy)(scope, receive, send)
        if not self._guarded:
            hosts, origins = _values(scope, b"host"), _values(scope, b"origin")
            if len(hosts) != 1 or not _loopback(f"//{hosts[0]}"):
                refused = PermissionDenied("without tokens only requests for a loopback host are served")
                return await problem(refused, status=421)(scope, receive, send)
            if not all(_loopback(origin) and urlsplit(origin).scheme in _SCHEMES for origin in origins):
                refused = PermissionDenied("without tokens no page of another origin is served")
                return await problem(refused)(scope, receive, send)
        try:
            await self._app(scope, receive, sending)
        except Exception as error:  # noqa: BLE001  (the outermost handler: our faults end in the log, not in text)
            _log.error("a request failed: %s", place_of(error))
            if not begun:
                await internal()(scope, receive, send)


def _values(scope: Scope, wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == wanted]


def _loopback(url: str) -> bool:
    """Whether a URL's host is this machine's own, by number or as localhost."""
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return False
    return host is not None and Address(host=host, port=0).loopback
