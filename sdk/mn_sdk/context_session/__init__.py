"""Bounded, verified, journaled model calls over a durable record: the session that a workflow author uses."""

from typing import TYPE_CHECKING, Any

from mn_contract.errors import (
    AmbiguousInvocation,
    ContextBudgetExceeded,
    ContextError,
    DependencyUnavailable,
    IdempotencyConflict,
    InvalidInput,
    InvocationInFlight,
    NeedsPartition,
    NotFound,
    RecordInUse,
    RunClosed,
    SourceMismatch,
    StorageFull,
    UnmanagedCall,
    UnusableResponse,
)
from mn_sdk.context_session.capacity import available_text_bytes
from mn_sdk.context_session.policy import ContextPolicy
from mn_sdk.context_session.session import ContextSession
from mn_sdk.scope import SessionScope

if TYPE_CHECKING:
    from mn_sdk.context_session.asynchronous import AsyncContextSession

__all__ = [
    "AmbiguousInvocation",
    "AsyncContextSession",
    "ContextBudgetExceeded",
    "ContextError",
    "ContextPolicy",
    "ContextSession",
    "DependencyUnavailable",
    "IdempotencyConflict",
    "InvalidInput",
    "InvocationInFlight",
    "NeedsPartition",
    "NotFound",
    "RecordInUse",
    "RunClosed",
    "SessionScope",
    "SourceMismatch",
    "StorageFull",
    "UnmanagedCall",
    "UnusableResponse",
    "available_text_bytes",
]


def __getattr__(name: str) -> Any:
    # asyncio is loaded by those who ask for it.
    if name == "AsyncContextSession":
        from mn_sdk.context_session.asynchronous import AsyncContextSession

        return AsyncContextSession
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
