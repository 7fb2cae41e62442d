"""The seam between the SDK and an engine: one method, whatever carries it.

`method` is the name of an RPC of WorkingMemory or Memory. Requests and answers are its messages; PutArtifact takes an
iterator of messages, ReadArtifact and WatchRevisions answer iterators. A transport is bound to one scope, bounds every
call by a deadline, and raises the contract's errors only. Implementations: `grpc` (an address) and `embedded` (a
folder); `bounded` and `closing` stand before either.
"""

from __future__ import annotations

from typing import Any, Protocol


class Transport(Protocol):
    """Carries calls to an engine, for one scope. Thread-safe."""

    def call(self, method: str, request: Any, *, timeout: float | None = None) -> Any:
        """The answer to `request`; `timeout` is in seconds and cuts the transport's own limit. Raises the contract's
        errors; for a stream some may come while it is read."""

    def close(self) -> None:
        """Lets go of what carries the calls. Idempotent."""
