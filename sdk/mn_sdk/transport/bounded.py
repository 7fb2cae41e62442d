"""A transport that waits no longer than its session lasts: every call gets what is left until the deadline, at most."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from mn_contract.errors import ContextBudgetExceeded, ContextError, DependencyUnavailable
from mn_sdk.transport import Transport

SETTLING_SECONDS: Final = 2.0
"""What a call that tells of an invocation's outcome may take after the deadline: a response that was paid for must not
be lost because it came at the last moment (invariant 10). The journal under the root asks for the run before it takes
one."""
_SETTLING: Final = ("RespondInvocation", "CompleteInvocation", "GetInvocation", "ReconcileInvocation", "GetRun")
_CLOCKS_APART_SECONDS: Final = 0.1
"""By how much a transport may end a call before the deadline that it was given, by its own clock."""


class BoundedTransport:
    """See Transport. `deadline` is in epoch seconds by `clock`; from then on a call is ContextBudgetExceeded."""

    def __init__(self, inner: Transport, deadline: float, *, clock: Callable[[], float] = time.time) -> None:
        self._inner = inner
        self._deadline = deadline
        self._clock = clock

    def call(self, method: str, request: Any, *, timeout: float | None = None) -> Any:
        """See Transport."""
        left = self._deadline - self._clock()
        if method in _SETTLING:
            left = max(left, SETTLING_SECONDS)
        if left <= 0:
            raise self._passed(f"{method} was not asked for")
        try:
            answer = self._inner.call(method, request, timeout=left if timeout is None else min(left, timeout))
        except DependencyUnavailable as error:
            raise self._told(error, method) from error
        return self._read(answer, method) if isinstance(answer, Iterator) else answer

    def close(self) -> None:
        """See Transport."""
        self._inner.close()

    def _read(self, answers: Iterator[Any], method: str) -> Iterator[Any]:
        try:
            yield from answers
        except DependencyUnavailable as error:
            raise self._told(error, method) from error

    def _told(self, error: DependencyUnavailable, method: str) -> ContextError:
        """What ended a call at the deadline is the deadline, whatever it was told to be."""
        if self._clock() < self._deadline - _CLOCKS_APART_SECONDS:
            return error
        return self._passed(
            f"{method} was not answered by then. If it writes, it may have been done: repeat it to tell"
        )

    def _passed(self, what: str) -> ContextBudgetExceeded:
        return ContextBudgetExceeded(
            f"the session's deadline has passed; {what}. Open another session, with a later deadline",
            budget="deadline",
            limit=self._deadline,
            used=self._clock(),
        )
