"""Uploads under way: so many at once, none of them silent for long.

An upload holds a thread until its client has sent everything. What is too much is refused at once, and a client that
stops sending is not waited for.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from mn_contract.errors import ContextBudgetExceeded
from mn_contract.limits import BUSY_RETRY_MS, UPLOAD_IDLE_SECONDS, UPLOADS_MAX


class Uploads:
    """The uploads of one server. Thread-safe."""

    def __init__(self, *, uploads_max: int = UPLOADS_MAX, idle_seconds: float = UPLOAD_IDLE_SECONDS) -> None:
        self._uploads_max = uploads_max
        self._idle_seconds = idle_seconds
        self._places = threading.BoundedSemaphore(uploads_max)
        # grpc's iterator of requests waits for ever, so another thread waits for it.
        self._receiving = ThreadPoolExecutor(uploads_max, thread_name_prefix="mn-receive")

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place for one upload. Raises ContextBudgetExceeded where all are taken."""
        if not self._places.acquire(blocking=False):
            raise ContextBudgetExceeded(
                f"{self._uploads_max} uploads are under way, which is the most; retry when one has ended",
                budget="uploads",
                limit=self._uploads_max,
                retry_after_ms=BUSY_RETRY_MS,
            )
        try:
            yield
        finally:
            self._places.release()

    def received(self, requests: Iterator[bytes]) -> Iterator[bytes]:
        """`requests` as they come. Raises ContextBudgetExceeded where the next one does not come in time; the caller
        then ends the call, which ends the wait for it, too."""
        while True:
            coming = self._receiving.submit(next, requests, None)
            try:
                request = coming.result(self._idle_seconds)
            except TimeoutError as error:
                raise ContextBudgetExceeded(
                    f"the upload sent nothing for {self._idle_seconds:g} seconds; nothing was kept. Put it again",
                    budget="deadline",
                    limit=self._idle_seconds,
                ) from error
            if request is None:
                return
            yield request

    def shutdown(self) -> None:
        """Lets the threads end once the uploads have."""
        self._receiving.shutdown(wait=False)
