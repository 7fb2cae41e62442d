"""Calls in threads: bounded, told when nobody waits any more, and never begun for nobody."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from mn_contract.errors import ContextBudgetExceeded, DependencyUnavailable, NotFound
from mn_engine.domain.deadlines import endless
from mn_engine.faces.asking import waiting
from mn_engine.faces.http.requests import unless_gone
from mn_engine.faces.workers import Workers
from mn_engine.service.engine import Call

WAIT = 30.0


class Holding:
    """Work that goes on until it is let go, and says whether its caller still waited then."""

    def __init__(self) -> None:
        self.begun, self.over, self.done = threading.Semaphore(0), threading.Event(), threading.Event()
        self.expired: bool | None = None

    def __call__(self, call: Call) -> str:
        self.begun.release()
        assert self.over.wait(WAIT)
        self.expired = call.expired()
        self.done.set()
        return "held"


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    workers = Workers(threads=1, calls_max=2)
    yield workers
    workers.shutdown()


async def test_what_work_returns_and_raises_comes_back(workers: Workers) -> None:
    def fail(call: Call) -> None:
        raise NotFound("not there")

    assert await workers.run(lambda call: call.expired(), endless) is False
    with pytest.raises(NotFound):
        await workers.run(fail, endless)


async def test_what_is_too_much_is_refused_at_once_and_places_come_back(workers: Workers) -> None:
    holding = Holding()
    under_way = asyncio.ensure_future(workers.run(holding, endless))
    await asyncio.to_thread(holding.begun.acquire)
    waiting_one = asyncio.ensure_future(workers.run(lambda call: "waited", endless))
    await asyncio.sleep(0)
    with pytest.raises(ContextBudgetExceeded) as caught:
        await workers.run(lambda call: None, endless)
    assert caught.value.detail["budget"] == "calls"
    holding.over.set()
    assert await asyncio.gather(under_way, waiting_one) == ["held", "waited"]
    assert await workers.run(lambda call: "again", endless) == "again"


async def test_a_caller_that_gives_up_is_known_to_its_work_and_one_that_waits_is_not_begun(workers: Workers) -> None:
    holding, begun = Holding(), threading.Event()
    under_way = asyncio.ensure_future(workers.run(holding, endless))
    await asyncio.to_thread(holding.begun.acquire)
    queued = asyncio.ensure_future(workers.run(lambda call: begun.set(), endless))
    await asyncio.sleep(0)
    for one in (under_way, queued):
        one.cancel()
    await asyncio.wait({under_way, queued})
    assert under_way.cancelled()
    holding.over.set()
    assert await asyncio.to_thread(holding.done.wait, WAIT)
    assert holding.expired
    assert await workers.run(lambda call: "after", endless) == "after"
    assert not begun.is_set()


async def test_a_deadline_that_has_passed_begins_nothing(workers: Workers) -> None:
    begun: list[Call] = []
    with pytest.raises(ContextBudgetExceeded) as caught:
        await workers.run(begun.append, waiting(0))
    assert (caught.value.detail["budget"], begun) == ("deadline", [])


async def test_work_that_does_not_come_back_is_not_waited_for(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mn_engine.faces.workers.OVERTIME_SECONDS", 0.05)
    holding = Holding()
    with pytest.raises(DependencyUnavailable, match="may still be done"):
        await workers.run(holding, waiting(10))
    holding.over.set()


async def test_after_the_end_calls_are_refused(workers: Workers) -> None:
    workers.shutdown()
    with pytest.raises(DependencyUnavailable):
        await workers.run(lambda call: None, endless)


async def test_work_for_a_client_that_goes_is_cancelled(workers: Workers) -> None:
    holding, messages = Holding(), asyncio.Queue[dict[str, Any]]()
    attended = asyncio.ensure_future(unless_gone(messages.get, workers.run(holding, endless)))
    await asyncio.to_thread(holding.begun.acquire)
    for kind in ("http.request", "http.disconnect"):
        messages.put_nowait({"type": kind})
    with pytest.raises(ClientDisconnect):
        await attended
    holding.over.set()
    assert await asyncio.to_thread(holding.done.wait, WAIT)
    assert holding.expired
