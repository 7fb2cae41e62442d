"""A session over a real embedded engine, and a model that is a server on loopback."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mn_sdk.context_session import ContextPolicy, ContextSession, provider
from tests.scenario.session.upstream import Upstream

Opener = Callable[..., ContextSession]


@pytest.fixture(autouse=True)
def embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MN_CONTEXT_ADDR", raising=False)


@pytest.fixture(autouse=True)
def loop_for_litellm() -> Iterator[None]:
    """litellm's completion asks for the thread's event loop; without one it makes one and never closes it."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture(autouse=True, scope="session")
def connections_of_litellm() -> Iterator[None]:
    """litellm lets go of HTTP clients that are ten minutes old, or too many, with their sockets open. Here it keeps all
    of them, and their sockets are closed at the end."""
    clients = provider.load().in_memory_llm_clients_cache
    clients.default_ttl, clients.max_size_in_memory = 86_400, 10_000
    yield
    for client in clients.cache_dict.values():
        if not inspect.iscoroutinefunction(client.close):
            client.close()


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.close()


@pytest.fixture
def open_session(tmp_path: Path) -> Iterator[Opener]:
    opened: list[ContextSession] = []

    def open_one(principal: str = "alice", *, root: Path | None = None, **options: Any) -> ContextSession:
        policy = ContextPolicy(**options.pop("policy", {}))
        session = ContextSession(
            root or tmp_path / "run", job_id="job", run_id="run", principal=principal, policy=policy, **options
        )
        opened.append(session)
        return session

    yield open_one
    for session in opened:
        session.close()


@pytest.fixture
def session(open_session: Opener) -> ContextSession:
    return open_session()
