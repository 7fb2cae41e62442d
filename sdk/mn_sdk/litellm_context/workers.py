"""Threads for what blocks, beside those of the loop: an engine that hangs must hold up nothing that does not need it.

The loop's own threads are everybody's in the proxy, name look-ups included. So each kind of work has a bounded number
of its own, and what would wait for one without end is refused instead.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from mn_contract.errors import DependencyUnavailable
from mn_sdk.context_session.threads import in_thread

T = TypeVar("T")
_RETRY_AFTER_MS: Final = 1000


class Workers:
    """Threads for one kind of work. Use from one event loop."""

    def __init__(self, name: str, threads: int, *, waiting_max: int | None = None) -> None:
        """`waiting_max` is how much may wait for a thread; None for what must not be refused."""
        self._name = name
        self._max = None if waiting_max is None else threads + waiting_max
        self._under_way = 0
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"membrane-{name}")

    async def run(self, function: Callable[..., T], *args: Any, undo: Callable[[T], None] | None = None) -> T:
        """See in_thread. Raises DependencyUnavailable where too much waits already."""
        if self._max is not None and self._under_way >= self._max:
            raise DependencyUnavailable(
                f"{self._under_way} requests wait for {self._name} already; try again later",
                dependency=self._name,
                retry_after_ms=_RETRY_AFTER_MS,
            )
        self._under_way += 1
        try:
            return await in_thread(function, *args, undo=undo, executor=self._threads)
        finally:
            self._under_way -= 1

    def close(self) -> None:
        """Lets the threads end with what they do. Idempotent."""
        self._threads.shutdown(wait=False)
