"""A turn: the span in which one model call is managed. The call is made through litellm, as anywhere else.

The turn is ambient in its context (thread or task) and in what copies that context. It is one dispatch: a second call
is refused, whether the first was answered, failed or replayed. A call that was refused before anything left does not
count. A turn may end without one; the log says why, because a call that escaped it looks the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token, copy_context
from functools import partial
from types import TracebackType
from typing import Any, Final, TypeVar, cast

from mn_contract.errors import ContextError, UnmanagedCall
from mn_sdk.context_session import provider
from mn_sdk.context_session.call import ModelCall, read_call
from mn_sdk.context_session.decision import Turning
from mn_sdk.context_session.dispatch import Dispatcher, Ready, Settled
from mn_sdk.context_session.journal.holder import work
from mn_sdk.context_session.report import TurnReport

T = TypeVar("T")

_ambient: Final[ContextVar[Turn | None]] = ContextVar("mn_turn", default=None)


def ambient() -> Turn | None:
    """The turn that a model call made here belongs to."""
    return _ambient.get()


class Turn:
    """One managed model call. Use as a context manager, from one thread or task."""

    def __init__(self, dispatcher: Dispatcher, turning: Turning) -> None:
        self._dispatcher = dispatcher
        self._turning = turning
        self._token: Token[Turn | None] | None = None
        self._lock = threading.Lock()
        self._taken = False
        self._refused = ""
        self._settled: Settled | None = None

    @property
    def name(self) -> str:
        """The call's name."""
        return self._turning.name

    @property
    def replayed(self) -> bool:
        """Whether the response came from the journal."""
        return self._settled is not None and self._settled.replayed

    @property
    def report(self) -> TurnReport | None:
        """What the turn did; None before its call was answered."""
        return None if self._settled is None else self._settled.report

    def __enter__(self) -> Turn:
        if ambient() is not None:
            raise UnmanagedCall("a turn stands within a turn; end the outer one first", name=self.name)
        self._dispatcher.lifetime.check()
        provider.load()
        with self._lock:
            if self._token is not None:
                raise UnmanagedCall(
                    f"turn {self.name!r} is entered already; begin one of its own in each thread or task",
                    name=self.name,
                )
            self._token = _ambient.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:
            try:
                _ambient.reset(self._token)
            except ValueError as elsewhere:  # where it is ambient can only be left from there
                raise UnmanagedCall(
                    f"turn {self.name!r} was entered in another thread or task; leave it where it was entered",
                    name=self.name,
                ) from elsewhere
            self._token = None
        if kind is None and not self._taken:
            import logging

            why = "calls by other clients or from other threads are not managed"
            if self._refused:
                why = f"its call was refused ({self._refused}), and the error did not leave the turn"
            logging.getLogger("mn_sdk.context_session").warning(
                "turn %s ended without a managed model call, so nothing was sent, counted or journaled in it: %s",
                self.name,
                why,
            )

    def call(self, arguments: Mapping[str, Any]) -> Any:
        """The managed call; `arguments` are those of litellm.completion."""
        with work(), self._dispatcher.closing.under_way():
            step = self._prepare(arguments)
            if isinstance(step, Settled):
                return self._answer(step)
            with _unmanaged():
                outcome = provider.send(step.arguments)
            return self._answer(self._dispatcher.settle(step, outcome))

    async def acall(self, arguments: Mapping[str, Any]) -> Any:
        """The managed call; `arguments` are those of litellm.acompletion."""
        with work(), self._dispatcher.closing.under_way():
            step = await _in_thread(self._prepare, arguments, undo=self._dispatcher.withdraw)
            if isinstance(step, Settled):
                return self._answer(step)
            with _unmanaged():
                outcome = await provider.asend(step.arguments)
            return self._answer(await _in_thread(self._dispatcher.settle, step, outcome))

    def refused(self, error: ContextError) -> None:
        """Told of a call in the turn that was refused before anything left."""
        self._refused = error.reason

    def _prepare(self, arguments: Mapping[str, Any]) -> Ready | Settled:
        try:
            return self._prepared(arguments)
        except ContextError as error:
            self.refused(error)
            raise

    def _prepared(self, arguments: Mapping[str, Any]) -> Ready | Settled:
        call = _read(arguments)
        with self._lock:
            if self._taken:
                raise UnmanagedCall(
                    f"turn {self.name!r} has made its model call; one turn is one dispatch. Begin another turn",
                    name=self.name,
                )
            self._taken = True
        try:
            return self._dispatcher.prepare(self._turning, call)
        except BaseException:
            self._taken = False
            raise

    def _answer(self, settled: Settled) -> Any:
        self._settled = settled
        return settled.response


@contextmanager
def _unmanaged() -> Iterator[None]:
    """Within a dispatch litellm is itself again: what it calls in turn is part of this call."""
    token = _ambient.set(None)
    try:
        yield
    finally:
        _ambient.reset(token)


def _read(arguments: Mapping[str, Any]) -> ModelCall:
    provider.check_settings()
    return read_call(arguments, response_format=provider.response_schema(arguments.get("response_format")))


async def _in_thread(function: Callable[..., T], *args: Any, undo: Callable[[T], None] | None = None) -> T:
    """Runs what may block. A cancelled task still waits for it, and for `undo` of its result, however often it is
    cancelled meanwhile, so that the journal is never left in the middle."""
    import asyncio  # it takes longer to load than all of the session, and most sessions do without

    def start(function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        # No task of its own: a loop that ends cancels every task, and what the thread did would be lost.
        return asyncio.get_running_loop().run_in_executor(None, partial(copy_context().run, function, *args))

    async def finish(running: asyncio.Future[Any]) -> None:
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])

    running = start(function, *args)
    try:
        return cast(T, await asyncio.shield(running))
    except asyncio.CancelledError:
        await finish(running)
        if undo is not None and running.exception() is None:
            await finish(start(undo, running.result()))
        raise
