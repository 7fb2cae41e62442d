"""ContextSession for asyncio: the same session, its blocking parts in threads. There is no second implementation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from mn.context.working.v1 import run_pb2
from mn_contract.invocations import Attempt
from mn_sdk.client import ArtifactRef
from mn_sdk.context_session import provider
from mn_sdk.context_session.capacity import Capacity
from mn_sdk.context_session.policy import ContextPolicy
from mn_sdk.context_session.receipt import Receipt
from mn_sdk.context_session.seen import Seen
from mn_sdk.context_session.session import ContextSession
from mn_sdk.context_session.turn import Turn


class AsyncTurn:
    """`async with session.turn(...) as turn`: a Turn whose model call is made with litellm.acompletion."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    async def __aenter__(self) -> Turn:
        await asyncio.to_thread(provider.load)
        return self._turn.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._turn.afinish(error)
        finally:
            self._turn.__exit__(kind, error, traceback)


class AsyncContextSession:
    """See ContextSession: same arguments, same errors. Making one blocks; awaiting `open` does not."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.session = ContextSession(*args, **kwargs)

    @classmethod
    async def open(cls, *args: Any, **kwargs: Any) -> AsyncContextSession:
        """The session, opened in a thread."""
        return await asyncio.to_thread(cls, *args, **kwargs)

    @property
    def policy(self) -> ContextPolicy:
        """The session's policy."""
        return self.session.policy

    async def put_artifact(self, *args: Any, **kwargs: Any) -> ArtifactRef:
        """See ContextSession.put_artifact."""
        return await asyncio.to_thread(self.session.put_artifact, *args, **kwargs)

    async def observe(self, record: Any, **kwargs: Any) -> tuple[str, ...]:
        """See ContextSession.observe."""
        return await asyncio.to_thread(self.session.observe, record, **kwargs)

    def turn(self, name: str, **kwargs: Any) -> AsyncTurn:
        """See ContextSession.turn."""
        return AsyncTurn(self.session.turn(name, **kwargs))

    async def complete(self, name: str, *, model: str, messages: Sequence[Any], **arguments: Any) -> Any:
        """See ContextSession.complete."""
        return await self.session.acomplete(name, model=model, messages=messages, **arguments)

    async def capacity(self, request: Mapping[str, Any], **kwargs: Any) -> Capacity:
        """See ContextSession.capacity."""
        return await asyncio.to_thread(self.session.capacity, request, **kwargs)

    async def forget_drift(self, model: str) -> None:
        """See ContextSession.forget_drift."""
        await asyncio.to_thread(self.session.forget_drift, model)

    async def reconcile(self, name: str, **kwargs: Any) -> Attempt:
        """See ContextSession.reconcile."""
        return await asyncio.to_thread(self.session.reconcile, name, **kwargs)

    async def has_durable_response(self, name: str) -> bool:
        """See ContextSession.has_durable_response."""
        return await asyncio.to_thread(self.session.has_durable_response, name)

    async def seen(self, name: str, attempt: int | None = None) -> Seen:
        """See ContextSession.seen."""
        return await asyncio.to_thread(self.session.seen, name, attempt)

    async def attempts(self, name: str) -> tuple[Attempt, ...]:
        """See ContextSession.attempts."""
        return await asyncio.to_thread(self.session.attempts, name)

    async def receipt(self, name: str) -> Receipt:
        """See ContextSession.receipt."""
        return await asyncio.to_thread(self.session.receipt, name)

    async def memory_action(self, action: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """See ContextSession.memory_action."""
        return await asyncio.to_thread(self.session.memory_action, action, arguments)

    async def envelope(self, task: str = "", **arguments: Any) -> Any:
        """See ContextSession.envelope."""
        return await asyncio.to_thread(self.session.envelope, task, **arguments)

    async def query_memory(self, **arguments: Any) -> dict[str, Any]:
        """See ContextSession.query_memory."""
        return await asyncio.to_thread(self.session.query_memory, **arguments)

    async def expand(self, ref: str, direction: str = "document", *, cursor: str | None = None) -> dict[str, Any]:
        """See ContextSession.expand."""
        return await asyncio.to_thread(self.session.expand, ref, direction, cursor=cursor)

    async def facts(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """A method of ContextSession.facts, by its name: `await session.facts("upsert", "Ada", "works_at", "Acme")`."""
        return await asyncio.to_thread(getattr(self.session.facts, method), *args, **kwargs)

    async def explain(self, packet_digest: str, card_id: str) -> dict[str, Any]:
        """See ContextSession.explain."""
        return await asyncio.to_thread(self.session.explain, packet_digest, card_id)

    async def clear(self, reason: str) -> run_pb2.Tombstone:
        """See ContextSession.clear."""
        return await asyncio.to_thread(self.session.clear, reason)

    async def close(self) -> None:
        """See ContextSession.close."""
        await asyncio.to_thread(self.session.close)

    async def __aenter__(self) -> AsyncContextSession:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
