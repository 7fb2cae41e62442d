"""Running what may block beside an event loop, so that nothing durable is left in the middle."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Executor

T = TypeVar("T")


async def in_thread(
    function: Callable[..., T],
    *args: Any,
    undo: Callable[[T], None] | None = None,
    executor: Executor | None = None,
) -> T:
    """Runs what may block, by the loop's own threads where no `executor` is given. A cancelled task still waits for it,
    and for `undo` of its result, however often it is cancelled meanwhile, so that the journal is never left in the
    middle."""
    import asyncio  # it takes longer to load than all of the session, and most sessions do without

    def start(function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        # No task of its own: a loop that ends cancels every task, and what the thread did would be lost.
        return asyncio.get_running_loop().run_in_executor(executor, partial(copy_context().run, function, *args))

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
