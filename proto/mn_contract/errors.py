"""The errors of every face: one class for each thing a caller can do about it.

    ContextError
    ├── NeedsPartition          split the decision; `detail` names every item, its size and a plan
    ├── ContextBudgetExceeded   a storage, call, deadline or token budget is used up; `detail` has the numbers
    ├── SourceMismatch          bytes are not what their hash says; the evidence was not used
    ├── StaleRevision           the run has moved on; read again and retry
    ├── IdempotencyConflict     the same key was used for other content
    ├── RunClosed               the run was cancelled or cleared
    ├── AmbiguousInvocation     a call may have been billed; reconcile it or name a retry
    ├── InvocationInFlight      another worker holds the call; wait or retry later
    ├── RecordInUse             another process holds the record
    ├── UnmanagedCall           a model call that would escape admission, or a second one in a turn
    ├── UnusableResponse        the paid response is stored, but cannot be used
    ├── NotFound                absent, or not visible to the asker: the same answer
    ├── InvalidInput            the request itself is wrong; `field` says where
    ├── Unauthenticated         no or an unknown token
    ├── PermissionDenied        the token is not for this scope
    ├── DependencyUnavailable   the engine, the store or the provider cannot be reached
    └── StorageFull             the disk is at its floor; nothing was written

`TABLE` maps each reason to its status on every face; a reason that is not in it cannot be raised. Messages say what
happened and what to do next, and never quote content or name what the asker cannot see (invariant 7).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

DOMAIN: Final = "mn.context"
"""ErrorInfo.domain of every error."""


@dataclass(frozen=True, slots=True)
class FaceStatus:
    """What a reason is called on each face: a grpc.StatusCode name, an HTTP status, a JSON-RPC code."""

    grpc: str
    http: int
    json_rpc: int


TABLE: Final[Mapping[str, FaceStatus]] = {
    "NEEDS_PARTITION": FaceStatus("FAILED_PRECONDITION", 413, -32010),
    "BUDGET_EXCEEDED": FaceStatus("RESOURCE_EXHAUSTED", 429, -32011),
    "SOURCE_MISMATCH": FaceStatus("DATA_LOSS", 422, -32012),
    "STALE_REVISION": FaceStatus("ABORTED", 409, -32013),
    "IDEMPOTENCY_CONFLICT": FaceStatus("ALREADY_EXISTS", 409, -32014),
    "RUN_CANCELLED": FaceStatus("FAILED_PRECONDITION", 410, -32015),
    "RUN_CLEARED": FaceStatus("FAILED_PRECONDITION", 410, -32015),
    "AMBIGUOUS_INVOCATION": FaceStatus("FAILED_PRECONDITION", 409, -32016),
    "IN_FLIGHT": FaceStatus("ABORTED", 409, -32017),
    "RECORD_IN_USE": FaceStatus("FAILED_PRECONDITION", 503, -32018),
    "UNMANAGED_CALL": FaceStatus("FAILED_PRECONDITION", 409, -32019),
    "UNUSABLE_RESPONSE": FaceStatus("DATA_LOSS", 502, -32020),
    "NOT_FOUND": FaceStatus("NOT_FOUND", 404, -32004),
    "INVALID_ARGUMENT": FaceStatus("INVALID_ARGUMENT", 422, -32602),
    "UNAUTHENTICATED": FaceStatus("UNAUTHENTICATED", 401, -32001),
    "PERMISSION_DENIED": FaceStatus("PERMISSION_DENIED", 403, -32003),
    "UNAVAILABLE": FaceStatus("UNAVAILABLE", 503, -32005),
    "STORAGE_FULL": FaceStatus("RESOURCE_EXHAUSTED", 507, -32006),
}


class ContextError(Exception):
    """Root of the tree. `reason` is a key of TABLE; `detail` is JSON and safe to show to the asker."""

    REASONS: ClassVar[tuple[str, ...]] = ()

    def __init__(self, message: str, *, reason: str | None = None, **detail: Any) -> None:
        super().__init__(message)
        self.message = message
        self.reason = self.REASONS[0] if reason is None else reason
        if self.reason not in self.REASONS:
            raise ValueError(f"{type(self).__name__} cannot have reason {self.reason!r}")
        self.detail: dict[str, Any] = detail

    @property
    def status(self) -> FaceStatus:
        """What this error is on each face."""
        return TABLE[self.reason]


class NeedsPartition(ContextError):
    """What must be in cannot fit. `detail`: reason, budget, size, items (each with its size), plan."""

    REASONS = ("NEEDS_PARTITION",)

    def __init__(self, message: str | dict[str, Any], *, detail: dict[str, Any] | None = None) -> None:
        # `reason` is also a key of the detail, so it is no keyword. Programs raise it with the detail alone.
        told = message if detail is None and isinstance(message, dict) else detail or {}
        super().__init__(
            message if isinstance(message, str) else f"the decision needs to be split ({told.get('reason')})"
        )
        self.detail = told


class ContextBudgetExceeded(ContextError):
    """A budget is used up; nothing was written. `detail`: budget (storage, calls, deadline, tokens), limit, used,
    needed."""

    REASONS = ("BUDGET_EXCEEDED",)


class SourceMismatch(ContextError):
    """Bytes are not what their hash or range says; the evidence was not used."""

    REASONS = ("SOURCE_MISMATCH",)


class StaleRevision(ContextError):
    """The run is not at the expected revision. `detail`: expected, newest."""

    REASONS = ("STALE_REVISION",)


class IdempotencyConflict(ContextError):
    """The same key was used for other content. `detail`: key."""

    REASONS = ("IDEMPOTENCY_CONFLICT",)


class RunClosed(ContextError):
    """The run takes no more of this. `detail`: state."""

    REASONS = ("RUN_CANCELLED", "RUN_CLEARED")


class AmbiguousInvocation(ContextError):
    """A dispatched call has no proved outcome. `detail`: name, attempt."""

    REASONS = ("AMBIGUOUS_INVOCATION",)


class InvocationInFlight(ContextError):
    """Another worker holds the call. `detail`: name, retry_after_ms."""

    REASONS = ("IN_FLIGHT",)


class RecordInUse(ContextError):
    """Another process holds the record. `detail`: holder."""

    REASONS = ("RECORD_IN_USE",)


class UnmanagedCall(ContextError):
    """A model call that would escape admission."""

    REASONS = ("UNMANAGED_CALL",)


class UnusableResponse(ContextError):
    """A paid response is stored but cannot be used. `detail`: name, attempt."""

    REASONS = ("UNUSABLE_RESPONSE",)


class NotFound(ContextError):
    """Absent, or not visible to the asker."""

    REASONS = ("NOT_FOUND",)


class InvalidInput(ContextError):
    """The request is wrong. `detail`: field."""

    REASONS = ("INVALID_ARGUMENT",)

    def __init__(self, message: str, *, field: str, **detail: Any) -> None:
        super().__init__(message, field=field, **detail)
        self.field = field


class Unauthenticated(ContextError):
    """No token, or one that is not known."""

    REASONS = ("UNAUTHENTICATED",)


class PermissionDenied(ContextError):
    """The token is not for this scope."""

    REASONS = ("PERMISSION_DENIED",)


class DependencyUnavailable(ContextError):
    """Something this needs cannot be reached. `detail`: dependency, retry_after_ms where a retry can help."""

    REASONS = ("UNAVAILABLE",)


class StorageFull(ContextError):
    """The disk is at its floor; nothing was written. `detail`: free_bytes, floor_bytes."""

    REASONS = ("STORAGE_FULL",)


def _leaves(root: type[ContextError]) -> list[type[ContextError]]:
    return [leaf for sub in root.__subclasses__() for leaf in [sub, *_leaves(sub)]]


BY_REASON: Final[Mapping[str, type[ContextError]]] = {
    reason: cls for cls in _leaves(ContextError) for reason in cls.REASONS
}
if set(BY_REASON) != set(TABLE):
    raise AssertionError("the error table and the classes differ")


def from_reason(reason: str, message: str, detail: dict[str, Any]) -> ContextError:
    """Rebuilds an error that travelled over a face. Raises KeyError where the reason is not ours."""
    cls = BY_REASON[reason]
    error = cls.__new__(cls)
    ContextError.__init__(error, message, reason=reason)
    error.detail = detail
    if isinstance(error, InvalidInput):
        error.field = str(detail.get("field", ""))
    return error
