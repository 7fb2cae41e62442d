"""Calls that stray from their turn: made in a thread that was started in it, or by an executor's worker on its behalf,
without its context.

Nobody would count and journal such a call; it is refused while the turn lasts. A thread learns at its start, and work
when it is submitted, what turn it comes from, be it by way of another stray; other threads are untouched; what carries
the context is managed. Where something comes from stands in its context, never in the thread that runs it: a loop's
thread runs coroutines of whoever submits them. A turn is held weakly here: it is over when whoever entered it has left
it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from mn_sdk.context_session.wiretap import dispatching

if TYPE_CHECKING:
    from mn_sdk.context_session.turn import Turn


def _nobody() -> None:
    """The turn of what comes from none."""


_origin: Final[ContextVar[Callable[[], Turn | None]]] = ContextVar("mn_origin", default=_nobody)
"""The turn that this context comes from without carrying it."""


def install() -> None:
    """Has threads and executors remember; once a process."""
    threading.Thread.start = _remembering(threading.Thread.start)  # type: ignore[method-assign, assignment]
    ThreadPoolExecutor.submit = _carrying(ThreadPoolExecutor.submit)  # type: ignore[method-assign]


def strayed_from() -> Turn | None:
    """The turn, still under way, that whoever runs here comes from without its context."""
    if dispatching():
        return None
    turn = _origin.get()()
    return turn if turn is not None and turn.under_way else None


def _coming_from() -> Turn | None:
    """The turn that what is begun here comes from."""
    from mn_sdk.context_session.turn import ambient

    return ambient() or strayed_from()


def _remembering(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    @wraps(start)
    def remembering(thread: threading.Thread) -> None:
        turn = _coming_from()
        if turn is not None:
            thread.run = _straying(ref(turn), thread.run)  # type: ignore[method-assign]
        start(thread)

    return remembering


def _straying(origin: Callable[[], Turn | None], function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, its context marked as one that comes from the turn of `origin`."""

    def straying(*args: Any, **arguments: Any) -> Any:
        with _marked(origin):
            return function(*args, **arguments)

    return straying


def _carrying(submit: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
    @wraps(submit)
    def carrying(*args: Any, **arguments: Any) -> Any:
        from mn_sdk.context_session.turn import unmanaged

        turn = _coming_from()
        if turn is None or len(args) < 2:  # the original says what is missing
            return submit(*args, **arguments)
        executor, function, *rest = args
        with _marked(_nobody), unmanaged():  # a worker that is started for it serves others, too
            return submit(executor, _straying(ref(turn), function), *rest, **arguments)

    return carrying


@contextmanager
def _marked(origin: Callable[[], Turn | None]) -> Iterator[None]:
    """What this context does within comes from the turn of `origin`."""
    token = _origin.set(origin)
    try:
        yield
    finally:
        _origin.reset(token)
