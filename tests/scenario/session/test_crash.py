"""A worker that is killed at any step leaves a call that is answered once, or known to be unknown (invariant 10)."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mn_contract.errors import AmbiguousInvocation
from mn_contract.invocations import State
from mn_sdk.context_session import ContextSession
from tests.scenario.session.upstream import Upstream
from tests.scenario.session.worker import MESSAGES, Nursery

Opener = Callable[..., ContextSession]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


def call(session: ContextSession, upstream: Upstream, **more: Any) -> str:
    answer = session.complete("d", messages=MESSAGES, **{**upstream.arguments, **more})
    return str(answer.choices[0].message.content)


def test_a_worker_that_is_killed_while_the_provider_works_leaves_an_unknown_call(
    open_session: Opener, upstream: Upstream, nursery: Nursery, tmp_path: Path
) -> None:
    pids: list[int] = []
    known = threading.Event()

    def started(pid: int) -> None:
        pids.append(pid)
        known.set()

    def kill() -> None:
        assert known.wait(30)
        os.kill(pids[0], signal.SIGKILL)

    upstream.hold = kill
    assert nursery.run(tmp_path / "run", upstream.base, started=started) == -signal.SIGKILL
    upstream.hold = lambda: None
    session = open_session()
    for _ in range(2):
        with pytest.raises(AmbiguousInvocation):
            call(session, upstream)
    assert len(upstream.requests) == 1
    assert call(session, upstream, retry="second") == "yes"
    assert len(upstream.requests) == 2


@pytest.mark.parametrize(
    ("point", "sent", "free"),
    [
        ("before the dispatch is durable", 0, True),
        ("before the request leaves", 0, False),
        ("before the response is durable", 1, False),
        ("before the write-back", 1, True),
    ],
)
def test_death_at_each_step_repeats_no_call_that_may_have_been_billed(
    open_session: Opener, upstream: Upstream, nursery: Nursery, tmp_path: Path, point: str, sent: int, free: bool
) -> None:
    """Where nothing can have been billed, or the response is durable, the name simply goes on; else it is ambiguous."""
    assert nursery.run(tmp_path / "run", upstream.base, point) == -signal.SIGKILL
    assert len(upstream.requests) == sent
    session = open_session()
    if free:
        assert call(session, upstream) == "yes"
        newest = session.journal.invocations.newest("d")
        assert newest is not None
        assert newest.state is State.COMPLETED
        assert len(upstream.requests) == 1
    else:
        with pytest.raises(AmbiguousInvocation):
            call(session, upstream)
        assert len(upstream.requests) == sent


def test_a_response_is_replayed_in_another_process(
    open_session: Opener, upstream: Upstream, nursery: Nursery, tmp_path: Path
) -> None:
    assert nursery.run(tmp_path / "run", upstream.base) == 0
    session = open_session()
    assert call(session, upstream) == "yes"
    assert len(upstream.requests) == 1
