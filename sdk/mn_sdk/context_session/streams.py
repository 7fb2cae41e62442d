"""A managed answer that is read as it comes: chunks pass through, and what they add up to is settled at the end.

The whole answer is made durable when its last chunk has come, and written back, exactly as one that came at once. A
stream that breaks, is closed early, or ends without the provider's word that it is complete leaves a call whose outcome
is unknown: something was billed, and nobody holds all of it (invariant 10). A stored answer is replayed as a stream.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol

from mn_contract.errors import ContextError
from mn_sdk.context_session.threads import in_thread

if TYPE_CHECKING:
    import asyncio

_END: Final = object()
_LOOK_SECONDS: Final = 0.01


class Flow(Protocol):
    """A provider's answer while it comes."""

    def read(self) -> Any:
        """The next chunk. Raises StopIteration at the end, and whatever breaks the stream."""

    async def aread(self) -> Any:
        """As `read`; raises StopAsyncIteration at the end."""

    def close(self) -> None:
        """Lets go of the connection."""

    async def aclose(self) -> None:
        """As `close`."""


class StreamClosed(Exception):
    """The reader closed a stream before its end."""


class Stream:
    """A managed stream, for `for` or `async for`: read it to its end, or close it. Chunks are litellm's.

    Reading raises what the call raises: AmbiguousInvocation where the stream breaks, UnusableResponse where what came
    adds up to no answer. Who reads on after that is told again, and so is the end of the turn where nobody was told
    before, as after a read that was cancelled: what was read is not the answer. The end of a turn reads the rest, or
    gives it up where it cannot read it. Several readers share the chunks: each waits for its turn.
    """

    def __init__(
        self, flow: Flow, settle: Callable[[BaseException], None], held: ExitStack, *, asynchronous: bool
    ) -> None:
        """`asynchronous` is whether the flow is read by `aread`, else by `read`. `settle` makes durable what became of
        the call that an error has ended, be it that of the end, and raises what the call raises. `held` is closed with
        it."""
        self._flow = flow
        self._settle = settle
        self._held = held
        self._waiting: deque[Any] = deque()
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._areading: asyncio.Lock | None = None
        self.asynchronous = asynchronous
        self._open = True
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._closed = False
        self._told = False
        self._hidden_params: dict[str, Any] = {}
        """litellm's streams have it: a Router writes there, and wraps what has none for asynchronous readers only."""

    def __iter__(self) -> Stream:
        if self.asynchronous:
            raise TypeError("a stream of litellm.acompletion is read with `async for`")
        return self

    def __next__(self) -> Any:
        iter(self)  # raises for one that is read otherwise
        with self._reading:
            return self._waiting.popleft() if self._waiting else self._read()

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Any:
        if not self.asynchronous:
            chunk = await in_thread(next, self, _END, undo=self._unread)
            if chunk is _END:
                raise StopAsyncIteration
            return chunk
        async with self._in_turn():
            return self._waiting.popleft() if self._waiting else await self._aread()

    def finish(self) -> None:
        """Reads the rest, which stays there to be read. Raises what ended the stream, where no reader was told."""
        with suppress(StopIteration):
            while not self._told:
                with self._reading:
                    self._waiting.append(self._read())

    async def afinish(self) -> None:
        """As `finish`."""
        with suppress(StopAsyncIteration):
            while not self._told:
                async with self._in_turn():
                    self._waiting.append(await self._aread())

    def close(self) -> None:
        """Ends the stream. A call of which something was not read by then is AMBIGUOUS. Idempotent."""
        if self._ends(closed=True):
            try:
                self._flow.close()
            finally:
                self._end_quietly()

    def give_up(self, why: str) -> None:
        """As `close`, and says in the log that the answer is lost, and `why`; who reads on is told as well."""
        if not self._ends():
            return
        try:
            try:
                self._flow.close()
            finally:
                self._end(StreamClosed())
        except ContextError as error:
            import logging

            logging.getLogger("mn_sdk.context_session").warning("a stream was given up, %s: %s", why, error.message)

    async def aclose(self) -> None:
        """As `close`."""
        if self._ends(closed=True):
            try:
                await self._flow.aclose()
            finally:
                await in_thread(self._end_quietly)

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if self._open:  # a collector may run while this very thread holds a lock of the journal's
            with suppress(RuntimeError):  # the interpreter ends, and with it whoever holds the call
                why = "because nobody holds it any more"
                threading.Thread(target=Stream.give_up, args=(self, why), name="mn-stream", daemon=True).start()

    def _in_turn(self) -> asyncio.Lock:
        import asyncio  # litellm has loaded it

        if self._areading is None:
            self._areading = asyncio.Lock()
        return self._areading

    def _unread(self, chunk: Any) -> None:
        """Puts back what a reader that was cancelled did not get."""
        if chunk is not _END:
            self._waiting.appendleft(chunk)

    def _read(self) -> Any:
        if not self._open:
            raise self._after(StopIteration())
        try:
            return self._flow.read()
        except BaseException as error:
            if self._ends():
                self._end(error, told=isinstance(error, Exception))
                raise
            self._ended.wait()
            if self._failure is not None and isinstance(error, Exception):
                raise self._failure from error  # somebody else has ended the stream meanwhile
            raise

    async def _aread(self) -> Any:
        if not self._open:
            raise self._after(StopAsyncIteration())
        try:
            return await self._flow.aread()
        except BaseException as error:
            if self._ends():
                await in_thread(partial(self._end, told=isinstance(error, Exception)), error)
                raise
            import asyncio  # litellm has loaded it

            while isinstance(error, Exception) and not self._ended.is_set():
                await asyncio.sleep(_LOOK_SECONDS)  # no thread is taken that whoever closes it may need
            if self._failure is not None and isinstance(error, Exception):
                raise self._failure from error  # somebody else has ended the stream meanwhile
            raise

    def _after(self, end: Exception) -> BaseException:
        """What reading raises after the stream has ended: `end`, where its provider or its reader ended it."""
        if self._closed or self._failure is None:
            return end
        self._told = True
        return self._failure

    def _ends(self, *, closed: bool = False) -> bool:
        """Whether the stream's end is the caller's to settle: once. `closed` is whether its reader wants it."""
        with self._lock:
            ours, self._open = self._open, False
            self._closed |= ours and closed
        return ours

    def _end_quietly(self) -> None:
        """Settles the call of a stream that its reader has closed, who knows what that means."""
        with suppress(ContextError):
            self._end(StreamClosed())

    def _end(self, error: BaseException, *, told: bool = False) -> None:
        """Settles the call that `error` has ended. Raises what it raises but `error` itself, which is on its way;
        `told` is whether a reader gets that."""
        self._told = told
        try:
            with self._held:
                self._settle(error)
        except BaseException as failure:
            self._failure = failure.__cause__ if failure is error else failure
            if failure is not error:
                raise
        finally:
            self._ended.set()


class Replay:
    """A flow of what is there already."""

    def __init__(self, chunks: Iterable[Any]) -> None:
        self._chunks = iter(chunks)

    def read(self) -> Any:
        """See Flow."""
        return next(self._chunks)

    async def aread(self) -> Any:
        """See Flow."""
        for chunk in self._chunks:
            return chunk
        raise StopAsyncIteration

    def close(self) -> None:
        """See Flow."""

    async def aclose(self) -> None:
        """See Flow."""
