"""The one seam between the SDK and an engine: call an operation by its RPC's name.

`grpc` reaches a server, `embedded` an engine in this process, tests a fake. Requests and answers are the wire's messages;
only the contract's errors come out.
"""

from __future__ import annotations

from typing import Any, Protocol


class Transport(Protocol):
    """Calls operations of one scope."""

    def call(self, method: str, request: Any, *, timeout: float | None = None) -> Any:
        """Runs `method` of WorkingMemory. `request` is a message, or an iterator of them for PutArtifact; the answer is a
        message, or an iterator for ReadArtifact and WatchRevisions. `timeout` is in seconds; None means the default."""

    def close(self) -> None:
        """Lets go of the engine. Idempotent."""


def scope_metadata(job_id: str, run_id: str, principal: str, roles: tuple[str, ...]) -> dict[str, str]:
    """The scope as every face reads it."""
    metadata = {"mn-job-id": job_id, "mn-run-id": run_id, "mn-principal": principal}
    if roles:
        metadata["mn-roles"] = ",".join(roles)
    return metadata
