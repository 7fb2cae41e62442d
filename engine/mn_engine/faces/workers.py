"""Threads for the faces that run in an event loop: the engine's calls block, and a loop must not.

So many calls are worked on at once, so many wait, and what is too much is refused at once. A call whose caller has gone
or waits no longer is not begun; one that is under way is told, and its thread is given back when it ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from mn_contract.errors import ContextBudgetExceeded, DependencyUnavailable
from mn_contract.limits import BUSY_RETRY_MS, OVERTIME_SECONDS, TOOL_CALLS_MAX, TOOL_THREADS
from mn_engine.domain.deadlines import Remaining
from mn_engine.service.engine import Call

Result = TypeVar("Result")


class Workers:
    """The threads of one server. To be used in one event loop."""

    def __init__(self, *, threads: int = TOOL_THREADS, calls_max: int = TOOL_CALLS_MAX) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="mn-tool")
        self._calls_max = calls_max
        self._places = threading.BoundedSemaphore(calls_max)

    async def run(self, work: Callable[[Call], Result], remaining: Remaining) -> Result:
        """What `work` returns or raises, done in a thread. Raises ContextBudgetExceeded where too many calls are under
        way, DependencyUnavailable where the engine does not come back in time; a write may then be done all the same.
        """
        if not self._places.acquire(blocking=False):
            raise ContextBudgetExceeded(
                f"{self._calls_max} calls are under way, which is the most; retry when one has ended",
                budget="calls",
                limit=self._calls_max,
                retry_after_ms=BUSY_RETRY_MS,
            )
        gone = threading.Event()
        call = Call(remaining=lambda: 0.0 if gone.is_set() else remaining())
        try:
            begun = self._pool.submit(_begin, work, call)
        except RuntimeError as error:
            self._places.release()
            raise DependencyUnavailable("the engine is being closed", dependency="engine") from error
        begun.add_done_callback(lambda _: self._places.release())
        try:
            # Time for the engine to see the deadline itself, and say that nothing was written.
            async with asyncio.timeout(max(remaining(), 0.0) + OVERTIME_SECONDS):
                return await asyncio.wrap_future(begun)
        except TimeoutError as error:
            if begun.done() and not begun.cancelled():  # the work's own
                raise
            raise DependencyUnavailable(
                "the engine did not answer in time; what was asked may still be done", dependency="engine"
            ) from error
        finally:
            gone.set()

    def shutdown(self) -> None:
        """Lets the threads end once their calls have; calls that wait are not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _begin(work: Callable[[Call], Result], call: Call) -> Result:
    call.check()
    return work(call)
