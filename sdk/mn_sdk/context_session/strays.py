"""Calls that stray from their turn: made in a thread that was started in it, or by an executor's worker on its behalf,
without its context.

Nobody would count and journal such a call; it is refused while the turn lasts. A thread learns at its start, and work
when it is submitted, what turn it comes from; other threads are untouched; what carries the context is managed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from mn_sdk.context_session.wiretap import dispatching

if TYPE_CHECKING:
    from mn_sdk.context_session.turn import Turn

_ATTRIBUTE: Final = "_mn_turn"
_strayed: Final[ContextVar[Turn | None]] = ContextVar("mn_strayed", default=None)


def install() -> None:
    """Has threads and executors remember; once a process."""
    threading.Thread.start = _remembering(threading.Thread.start)  # type: ignore[method-assign, assignment]
    ThreadPoolExecutor.submit = _carrying(ThreadPoolExecutor.submit)  # type: ignore[method-assign]


def strayed_from() -> Turn | None:
    """The turn, still under way, that whoever runs here comes from without its context."""
    if dispatching():
        return None
    turn: Turn | None = _strayed.get() or getattr(threading.current_thread(), _ATTRIBUTE, None)
    return turn if turn is not None and turn.under_way else None


def _remembering(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    @wraps(start)
    def remembering(thread: threading.Thread) -> None:
        from mn_sdk.context_session.turn import ambient

        turn = ambient()
        if turn is not None:
            setattr(thread, _ATTRIBUTE, turn)
        start(thread)

    return remembering


def _carrying(submit: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
    @wraps(submit)
    def carrying(executor: ThreadPoolExecutor, function: Callable[..., Any], /, *args: Any, **arguments: Any) -> Any:
        from mn_sdk.context_session.turn import ambient, unmanaged

        turn = ambient()
        if turn is None:
            return submit(executor, function, *args, **arguments)

        def straying() -> Any:
            token = _strayed.set(turn)
            try:
                return function(*args, **arguments)
            finally:
                _strayed.reset(token)

        with unmanaged():  # a worker that is started for it serves others, too
            return submit(executor, straying)

    return carrying
