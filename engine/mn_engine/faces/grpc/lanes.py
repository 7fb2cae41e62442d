"""Threads by lane: calls that last as long as their client likes can fill their own lane only.

A synchronous server gives a call a thread from its first byte on. Lanes that refuse what is too much have some threads
more than they keep calls, for the refusals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any, Final

from mn_contract.limits import SERVER_READS, SERVER_RESERVE_THREADS, SERVER_THREADS, UPLOADS_MAX, WATCHES_MAX
from mn_engine.service.operations import Lane

_THREADS: Final[Mapping[Lane, int]] = MappingProxyType(
    {
        Lane.CALL: SERVER_THREADS,
        Lane.URGENT: SERVER_RESERVE_THREADS,
        Lane.UPLOAD: UPLOADS_MAX + SERVER_RESERVE_THREADS,
        Lane.READ: SERVER_READS,
        Lane.WATCH: WATCHES_MAX + SERVER_RESERVE_THREADS,
    }
)


class Lanes:
    """A server's threads. `health` are those of the probes, which no operation uses."""

    def __init__(self) -> None:
        self.health = ThreadPoolExecutor(SERVER_RESERVE_THREADS, thread_name_prefix="mn-health")
        self._pools = {
            lane: ThreadPoolExecutor(threads, thread_name_prefix=f"mn-{lane.value}")
            for lane, threads in _THREADS.items()
        }

    def __getitem__(self, lane: Lane) -> ThreadPoolExecutor:
        return self._pools[lane]

    def shutdown(self) -> None:
        """Lets the threads end once their calls have."""
        for pool in (self.health, *self._pools.values()):
            pool.shutdown(wait=False)


def on(pool: ThreadPoolExecutor, behaviour: Callable[..., Any]) -> Any:
    """`behaviour`, a function made for one server, as grpc runs it on the threads of `pool`."""
    behaviour.experimental_thread_pool = pool  # type: ignore[attr-defined]  # grpc looks for it there
    return behaviour
