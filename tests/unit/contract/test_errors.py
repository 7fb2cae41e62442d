"""The error table and its classes."""

from __future__ import annotations

import grpc
import pytest

from mn_contract import errors

DESIGN = {
    "NEEDS_PARTITION": ("NeedsPartition", "FAILED_PRECONDITION", 413, -32010),
    "BUDGET_EXCEEDED": ("ContextBudgetExceeded", "RESOURCE_EXHAUSTED", 429, -32011),
    "SOURCE_MISMATCH": ("SourceMismatch", "DATA_LOSS", 422, -32012),
    "STALE_REVISION": ("StaleRevision", "ABORTED", 409, -32013),
    "IDEMPOTENCY_CONFLICT": ("IdempotencyConflict", "ALREADY_EXISTS", 409, -32014),
    "RUN_CANCELLED": ("RunClosed", "FAILED_PRECONDITION", 410, -32015),
    "RUN_CLEARED": ("RunClosed", "FAILED_PRECONDITION", 410, -32015),
    "AMBIGUOUS_INVOCATION": ("AmbiguousInvocation", "FAILED_PRECONDITION", 409, -32016),
    "IN_FLIGHT": ("InvocationInFlight", "ABORTED", 409, -32017),
    "RECORD_IN_USE": ("RecordInUse", "FAILED_PRECONDITION", 503, -32018),
    "UNMANAGED_CALL": ("UnmanagedCall", "FAILED_PRECONDITION", 409, -32019),
    "UNUSABLE_RESPONSE": ("UnusableResponse", "DATA_LOSS", 502, -32020),
    "NOT_FOUND": ("NotFound", "NOT_FOUND", 404, -32004),
    "INVALID_ARGUMENT": ("InvalidInput", "INVALID_ARGUMENT", 422, -32602),
    "UNAUTHENTICATED": ("Unauthenticated", "UNAUTHENTICATED", 401, -32001),
    "PERMISSION_DENIED": ("PermissionDenied", "PERMISSION_DENIED", 403, -32003),
    "UNAVAILABLE": ("DependencyUnavailable", "UNAVAILABLE", 503, -32005),
    "STORAGE_FULL": ("StorageFull", "RESOURCE_EXHAUSTED", 507, -32006),
}
"""The published table: programs switch on these."""


def test_the_table_is_the_published_one() -> None:
    table = {
        reason: (errors.BY_REASON[reason].__name__, status.grpc, status.http, status.json_rpc)
        for reason, status in errors.TABLE.items()
    }
    assert table == DESIGN


@pytest.mark.parametrize("reason", errors.TABLE)
def test_every_reason_names_a_grpc_code_and_survives_a_journey(reason: str) -> None:
    assert hasattr(grpc.StatusCode, errors.TABLE[reason].grpc)
    error = errors.from_reason(reason, "what happened", {"field": "f", "n": 1})
    assert (error.reason, error.message, error.detail) == (reason, "what happened", {"field": "f", "n": 1})


def test_an_error_cannot_have_another_classes_reason() -> None:
    with pytest.raises(ValueError):
        errors.NotFound("x", reason="STORAGE_FULL")
