"""Closing a session while something is under way in it: nothing new begins, and what ends last lets go.

A call that is out is paid for. Its response must find the journal and the record still open, whoever closes the session
meanwhile (invariant 10); and `close` need not wait for as long as a model takes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from mn_contract.errors import DependencyUnavailable


class Closing:
    """Runs `let_go` once, as soon as `close` was called and nothing is under way. Thread-safe."""

    def __init__(self, let_go: Callable[[], None]) -> None:
        self._let_go = let_go
        self._lock = threading.Lock()
        self._under_way = 0
        self._closed = False

    def check(self) -> None:
        """Raises DependencyUnavailable where the session is closed."""
        if self._closed:
            raise DependencyUnavailable("the session is closed; open another one", dependency="session")

    def under_way(self) -> Span:
        """A span in which nothing is let go: to be entered, which raises DependencyUnavailable where the session is
        closed."""
        return Span(self)

    def begin(self) -> None:
        """Something is under way. Raises DependencyUnavailable where the session is closed."""
        with self._lock:
            self.check()
            self._under_way += 1

    def end(self) -> None:
        """It is no more."""
        with self._lock:
            self._under_way -= 1
            last = self._closed and not self._under_way
        if last:
            self._let_go()

    def close(self) -> None:
        """Idempotent."""
        with self._lock:
            last = not self._closed and not self._under_way
            self._closed = True
        if last:
            self._let_go()


class Span:
    """See Closing.under_way. No generator: a collector ends those in a cycle before it tells whoever holds them."""

    __slots__ = ("_closing",)

    def __init__(self, closing: Closing) -> None:
        self._closing = closing

    def __enter__(self) -> None:
        self._closing.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing.end()
