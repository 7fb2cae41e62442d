"""Bounded, verified, journaled model calls over a durable record: the session that a workflow author uses."""

from typing import TYPE_CHECKING, Any

from mn_contract.errors import AmbiguousInvocation, ContextBudgetExceeded, ContextError, NeedsPartition
from mn_sdk.context_session.capacity import available_text_bytes
from mn_sdk.context_session.policy import ContextPolicy
from mn_sdk.context_session.session import ContextSession

if TYPE_CHECKING:
    from mn_sdk.context_session.asynchronous import AsyncContextSession

__all__ = [
    "AmbiguousInvocation",
    "AsyncContextSession",
    "ContextBudgetExceeded",
    "ContextError",
    "ContextPolicy",
    "ContextSession",
    "NeedsPartition",
    "available_text_bytes",
]


def __getattr__(name: str) -> Any:
    # asyncio is loaded by those who ask for it.
    if name == "AsyncContextSession":
        from mn_sdk.context_session.asynchronous import AsyncContextSession

        return AsyncContextSession
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
