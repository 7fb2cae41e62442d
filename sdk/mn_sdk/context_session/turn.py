"""A turn: the span in which one model call is managed. The call is made through litellm, as anywhere else.

The turn is ambient in its context (thread or task) and in what copies that context. It is one dispatch: a second call
is refused, whether the first was answered, failed or replayed; the same call again ends in the error that the first one
ended in. A call that was refused before anything left does not count. A turn may end without one; the log says why,
because a call that escaped it looks the same.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final

from mn_contract.errors import ContextError, InvalidInput, UnmanagedCall
from mn_sdk.context_session import provider
from mn_sdk.context_session.call import ModelCall, read_call
from mn_sdk.context_session.decision import Turning
from mn_sdk.context_session.dispatch import Dispatcher, Ready, Settled
from mn_sdk.context_session.journal.holder import going_on, work
from mn_sdk.context_session.outcome import Outcome
from mn_sdk.context_session.report import TurnReport
from mn_sdk.context_session.streams import Replay, Stream
from mn_sdk.context_session.threads import in_thread

_ambient: Final[ContextVar[Turn | None]] = ContextVar("mn_turn", default=None)


def ambient() -> Turn | None:
    """The turn that a model call made here belongs to, while it is under way: a task that was begun in it may outlive
    it, and is then nobody's."""
    turn = _ambient.get()
    return turn if turn is not None and turn.under_way else None


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
        self._streamed = False
        self._stream: Stream | None = None
        self._call: ModelCall | None = None
        self._failure: Exception | None = None

    @property
    def name(self) -> str:
        """The call's name."""
        return self._turning.name

    @property
    def under_way(self) -> bool:
        """Whether it has been entered and not been left."""
        return self._token is not None

    @property
    def replayed(self) -> bool:
        """Whether the response came from the journal."""
        return self._settled is not None and self._settled.replayed

    @property
    def report(self) -> TurnReport | None:
        """What the turn did; None before its call was answered, a stream to its end."""
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
        try:
            if self._stream is not None and self._stream.asynchronous:
                self._stream.give_up(
                    "because a turn without `async with` cannot read the rest of litellm.acompletion's"
                )
            elif self._stream is not None:
                self._finish(self._stream, error)
        finally:
            self._leave(kind)

    async def afinish(self, error: BaseException | None) -> None:
        """Ends the turn's stream as leaving the turn does, without blocking the loop."""
        if self._stream is None:
            return
        if not self._stream.asynchronous:
            await in_thread(self._finish, self._stream, error)
        elif isinstance(error, Exception | None):
            with _beside(error):
                await self._stream.afinish()
        else:
            await self._stream.aclose()

    def _finish(self, stream: Stream, error: BaseException | None) -> None:
        """Reads what is left of a stream, for it is paid for; an interrupt does not wait for it."""
        if isinstance(error, Exception | None):
            with _beside(error):
                stream.finish()
        else:
            stream.close()

    def _leave(self, kind: type[BaseException] | None) -> None:
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

            why = "calls by other clients, or from threads that were there before, are not managed"
            if self._refused:
                why = f"its call was refused ({self._refused}), and the error did not leave the turn"
            logging.getLogger("mn_sdk.context_session").warning(
                "turn %s ended without a managed model call, so nothing was sent, counted or journaled in it: %s",
                self.name,
                why,
            )

    def call(self, arguments: Mapping[str, Any]) -> Any:
        """The managed call; `arguments` are those of litellm.completion."""
        with self._working() as held:
            step = self._prepare(arguments)
            while isinstance(step, Ready):
                with unmanaged():
                    outcome = provider.send(step.arguments, step.leaving.check)
                if isinstance(outcome, provider.Flowing):
                    return self._flowing(step, outcome, held, asynchronous=False)
                step = self._next(step, outcome)
            return self._answer(step, asynchronous=False)

    async def acall(self, arguments: Mapping[str, Any]) -> Any:
        """The managed call; `arguments` are those of litellm.acompletion."""
        with self._working() as held:
            step = await in_thread(self._prepare, arguments, undo=self._dispatcher.withdraw)
            while isinstance(step, Ready):
                with unmanaged():
                    outcome = await provider.asend(step.arguments, step.leaving.check)
                if isinstance(outcome, provider.Flowing):
                    return self._flowing(step, outcome, held, asynchronous=True)
                step = await in_thread(self._next, step, outcome, undo=self._dispatcher.withdraw)
            return self._answer(step, asynchronous=True)

    @contextmanager
    def _working(self) -> Iterator[ExitStack]:
        """A piece of work, which goes on for as long as somebody holds what is yielded."""
        with work() as name, ExitStack() as held:
            held.enter_context(going_on(name))
            held.enter_context(self._dispatcher.closing.under_way())
            yield held

    def _flowing(self, step: Ready, flow: provider.Flowing, held: ExitStack, *, asynchronous: bool) -> Stream:
        def settle(error: BaseException) -> None:
            self._settled = self._settle(step, flow.outcome(error))

        self._stream = Stream(flow, settle, held.pop_all(), asynchronous=asynchronous)
        return self._stream

    def _next(self, step: Ready, outcome: Outcome) -> Ready | Settled:
        """The call settled, or a smaller form of it that may leave in place of one that did not."""
        try:
            return self._dispatcher.smaller(step, outcome) or self._dispatcher.settle(step, outcome)
        except Exception as error:
            self._failure = error
            raise

    def _settle(self, step: Ready, outcome: Outcome) -> Settled:
        try:
            return self._dispatcher.settle(step, outcome)
        except Exception as error:
            self._failure = error
            raise

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
        call = read_arguments(arguments)
        with self._lock:
            if self._taken:
                if self._failure is not None and self._call is not None and self._call.encoded() == call.encoded():
                    raise self._failure  # whoever retries, such as a Router, ends in what went wrong
                raise UnmanagedCall(
                    f"turn {self.name!r} has made its model call; one turn is one dispatch. Begin another turn",
                    name=self.name,
                )
            self._taken = True
            self._streamed = call.streamed
            self._call = call
        try:
            return self._dispatcher.prepare(self._turning, call)
        except BaseException:
            self._taken = False
            raise

    def _answer(self, settled: Settled, *, asynchronous: bool) -> Any:
        self._settled = settled
        if not self._streamed:
            return settled.response
        replay = Replay(provider.chunks_of(settled.response))
        return Stream(replay, lambda _: None, ExitStack(), asynchronous=asynchronous)


@contextmanager
def _beside(error: BaseException | None) -> Iterator[None]:
    """What fails beside an error that is on its way does not take its place."""
    try:
        yield
    except ContextError:
        if error is None:
            raise


@contextmanager
def unmanaged() -> Iterator[None]:
    """Within a dispatch litellm is itself again: what it calls in turn is part of this call."""
    token = _ambient.set(None)
    try:
        yield
    finally:
        _ambient.reset(token)


def read_arguments(arguments: Mapping[str, Any]) -> ModelCall:
    """A call from litellm's arguments. Raises InvalidInput, also where litellm is set to send something else."""
    if not isinstance(arguments, Mapping):
        raise InvalidInput("a call is its arguments by name: model, messages and more", field="request")
    provider.check_settings()
    call = read_call(arguments, response_format=provider.response_schema(arguments.get("response_format")))
    beyond_text = [name for name in ("tools", "functions", "response_format") if call.asked.get(name)]
    if beyond_text:
        provider.check_taken(call.model, beyond_text)
    return call
