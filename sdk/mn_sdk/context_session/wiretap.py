"""What is really sent: one dispatch watched at the HTTP client, where every provider's request passes.

`recording` watches the calls made inside of it, in this context only: other code in the process is untouched, and
outside of a recording the clients behave as ever. An exchange is about the provider's request alone: the first POST to
the address that litellm names before it calls. A second one there is refused before it leaves: one dispatch is one send
(invariant 10), whatever retries somebody configured. For the same reason redirects are not followed: the client would
send again below of what is watched here. Whatever else passes in the dispatch (a token that is fetched, a callback's
own log) is none of its business, and so is everything once the dispatch has ended: contexts are copied, and a task
that was started in one may live as long as the program.

litellm may itself call a model in a dispatch, from a thread of its own as well, where no context tells whose it is, but
the dispatch's logger, which it hands on. `within_dispatch` lets the first such call pass (an asynchronous completion
makes a synchronous one) and refuses the next: a fan-out or fallback, to whatever address.

A dispatch has a time limit as a whole: the client's own are for one read each, and a provider that trickles keeps
within those for as long as it likes.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, Final
from urllib.parse import urlsplit

from mn_contract.errors import ContextBudgetExceeded, ContextError, UnmanagedCall

_MODULES: Final = ("httpx", "httpx2")
_current: Final[ContextVar[Exchange | None]] = ContextVar("mn_exchange", default=None)
_calling: Final[ContextVar[Exchange | None]] = ContextVar("mn_exchange_calling", default=None)
"""The exchange whose inner call this context is in."""
_lock: Final = threading.Lock()
_tapped: Final[set[str]] = set()
_PORTS: Final = {"http": 80, "https": 443}
_FORM: Final = "application/x-www-form-urlencoded"
Check = Callable[[str, bytes], None]
"""Looks at the URL and the body of a request."""
_Origin = tuple[str, str, int | None]
_GRACE_SECONDS: Final = 0.5
"""The client's own limits speak first: a connection that could not be made in time proves that nothing left."""


class Exchange:
    """What was seen of one dispatch: whether the provider's request was sent, its answer's status and whole body, or
    how it failed.

    All that it sends and receives takes `limit` seconds from now at most. Thread-safe.
    """

    def __init__(self, limit: float, check: Check | None = None) -> None:
        """`check` looks at the provider's request before it leaves, and raises a ContextError to stop it."""
        self._check = check
        self._limit = limit
        self._until = time.monotonic() + limit + _GRACE_SECONDS
        self.sent = 0
        self.status: int | None = None
        self.body: bytes | None = None
        self.failure: BaseException | None = None
        self.refusal: ContextError | None = None
        self.about_to_send = False
        self.ended = False
        self._lock = threading.Lock()
        self._provider: _Origin | None = None
        self._called = False

    def calling(self) -> None:
        """litellm calls a model within the dispatch. Raises UnmanagedCall where one was called before."""
        with self._lock:
            if self._called or self.about_to_send:
                raise UnmanagedCall("a second model call within one dispatch was stopped; one dispatch is one send")
            self._called = True

    @property
    def left(self) -> float:
        """Seconds until its limit; 0 where it has passed."""
        return max(self._until - time.monotonic(), 0.0)

    def sending(self, request: Any) -> bool:
        """A request is about to leave; whether it is the provider's. Raises UnmanagedCall for a second one to it,
        ContextBudgetExceeded where the time is up, and what `check` raises: `refusal`, where that stopped the first."""
        with self._lock:
            if self.ended or not _asks(request) or self._provider not in (None, _origin(request.url)):
                return False
            if self.sent:
                raise UnmanagedCall("a second request within one dispatch was stopped; retries belong to the caller")
            try:
                self._check_first(request)
            except ContextError as error:
                self.refusal = error
                raise
            self._provider = _origin(request.url)
            self.sent = 1
        return True

    def _check_first(self, request: Any) -> None:
        if not self.left:
            raise ContextBudgetExceeded(
                f"the call's {self._limit} seconds had passed before it was sent", budget="deadline", limit=self._limit
            )
        if self._check is not None:
            self._check(str(request.url), _body(request))

    def received(self, response: Any, *, streamed: bool) -> None:
        """The provider's answer came; where it is streamed its body is still to be read."""
        self.status = int(response.status_code)
        self.body = None if streamed else bytes(response.content)

    def on_log(self, event: dict[str, Any]) -> None:
        """litellm's word that it is about to call a provider, by whatever client, and where. What was sent before was
        for something else, such as a token."""
        with self._lock:
            if event.get("log_event_type") != "pre_api_call" or self.about_to_send:
                return
            self.about_to_send = True
            self._provider = _origin((event.get("additional_args") or {}).get("api_base") or "")
            self.sent, self.status, self.body, self.failure = 0, None, None, None

    def end(self) -> None:
        """The dispatch is over: nothing that its context still sends is its own."""
        with self._lock:
            self.ended = True

    def describe(self) -> str:
        """For evidence: numbers and names, no contents."""
        failure = "" if self.failure is None else f", {type(self.failure).__name__}"
        return f"{self.sent} sent, status {self.status}{failure}"


def _asks(request: Any) -> bool:
    """Whether a request can be one to a model: a POST, and no form, as those for tokens are (RFC 6749)."""
    return request.method == "POST" and not request.headers.get("content-type", "").startswith(_FORM)


def _body(request: Any) -> bytes:
    """What it sends; nothing where that is not known before it is sent."""
    try:
        return bytes(request.content)
    except RuntimeError:  # httpx.RequestNotRead: a body that comes piece by piece, as no model's request does
        return b""


def _origin(url: Any) -> _Origin | None:
    """Scheme, host and port; None for what names no host."""
    parts = urlsplit(str(url))
    return (parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)) if parts.hostname else None


@contextmanager
def recording(exchange: Exchange) -> Iterator[None]:
    """Watches what this context sends."""
    _tap()
    token = _current.set(exchange)
    try:
        yield
    finally:
        _current.reset(token)


def watch(exchange: Exchange) -> None:
    """Watches what this context and its copies send from now on, until the exchange has ended: for a dispatch that ends
    in another context than it began in."""
    _tap()
    _current.set(exchange)


def dispatching() -> bool:
    """Whether this context is in a dispatch."""
    return watched() is not None


def watched() -> Exchange | None:
    """The exchange that this context's requests belong to; none where it has ended."""
    exchange = _current.get()
    return None if exchange is None or exchange.ended else exchange


@contextmanager
def within_dispatch(logger: Any) -> Iterator[None]:
    """Around a model call of litellm's that no turn manages; `logger` is its `logger_fn`. Raises UnmanagedCall for the
    second one in a dispatch, be it over: whoever bears its logger repeats it."""
    exchange = watched() or _owner(logger)
    if exchange is None or _calling.get() is exchange:
        yield
        return
    exchange.calling()
    token = _calling.set(exchange)
    try:
        with recording(exchange):
            yield
    finally:
        _calling.reset(token)


def _owner(logger: Any) -> Exchange | None:
    owner = getattr(logger, "__self__", None)
    return owner if isinstance(owner, Exchange) else None


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
        exchange = watched()
        if exchange is None or not exchange.sending(request):
            return send(client, request, **options)
        try:
            response = _within(
                exchange,
                lambda: send(client, request, **{**options, "follow_redirects": False, "stream": True}),
                whole=not options.get("stream"),
            )
        except BaseException as error:
            exchange.failure = error
            raise
        exchange.received(response, streamed=bool(options.get("stream")))
        return response

    return tapped


def _within(exchange: Exchange, send: Callable[[], Any], *, whole: bool) -> Any:
    """What `send()` answers, with its whole body where that is wanted. Raises TimeoutError at the exchange's limit.

    A read that blocks cannot be ended from outside, so a thread of its own does it, which stops at the next bytes.
    """
    answered: Future[Any] = Future()

    def receive() -> None:
        try:
            response = send()
            response.iter_bytes = functools.partial(_in_time, exchange, response, response.iter_bytes)
            if whole:
                response.read()
            answered.set_result(response)
        except BaseException as error:  # noqa: BLE001 - it is the caller's, whatever it is
            answered.set_exception(error)

    threading.Thread(target=copy_context().run, args=(receive,), name="mn-send", daemon=True).start()
    return answered.result(timeout=exchange.left)


def _in_time(
    exchange: Exchange, response: Any, read: Callable[..., Iterator[bytes]], *args: Any, **options: Any
) -> Iterator[bytes]:
    """The pieces of a body that come before the exchange's limit. Raises TimeoutError at the first one that does
    not."""
    try:
        for piece in read(*args, **options):
            if not exchange.left:
                raise TimeoutError("the answer was not complete within the call's time limit")
            yield piece
    except BaseException:
        response.close()
        raise


def _async(send: Any) -> Any:
    @functools.wraps(send)
    async def tapped(client: Any, request: Any, **options: Any) -> Any:
        exchange = watched()
        if exchange is None or not exchange.sending(request):
            return await send(client, request, **options)
        import asyncio  # whoever sends this way has loaded it

        try:
            async with asyncio.timeout(exchange.left):
                response = await send(client, request, **{**options, "follow_redirects": False})
        except BaseException as error:
            exchange.failure = error
            raise
        response.aiter_bytes = functools.partial(_ain_time, exchange, response, response.aiter_bytes)
        exchange.received(response, streamed=bool(options.get("stream")))
        return response

    return tapped


async def _ain_time(
    exchange: Exchange, response: Any, read: Callable[..., AsyncIterator[bytes]], *args: Any, **options: Any
) -> AsyncIterator[bytes]:
    """As `_in_time`, and without waiting for the next piece."""
    import asyncio

    pieces = read(*args, **options)
    try:
        while True:
            async with asyncio.timeout(exchange.left):
                try:
                    piece = await anext(pieces)
                except StopAsyncIteration:
                    return
            yield piece
    except BaseException:
        await response.aclose()
        raise
