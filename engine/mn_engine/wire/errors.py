"""Errors as google.rpc.Status: one ErrorInfo with our reason, and the standard detail that helps a client act.

A client that has no room for a large detail (trailers are small in most) gets a shortened one that says so; see
`detail_json`.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from mn_contract.canonical import encoded
from mn_contract.errors import DOMAIN, ContextBudgetExceeded, ContextError, InvalidInput, NeedsPartition

_MESSAGE_BYTES_MAX: Final = 1024
INTERNAL_MESSAGE: Final = "the engine failed; its log has the type and place of the failure"


def status_of(error: ContextError, *, detail_bytes_max: int) -> status_pb2.Status:
    """The status of `error`, its detail within `detail_bytes_max`."""
    info = error_details_pb2.ErrorInfo(
        reason=error.reason,
        domain=DOMAIN,
        metadata={"detail": detail_json(error.detail, detail_bytes_max).decode("utf-8")},
    )
    details: list[Message] = [info, *_standard_details(error)]
    return status_pb2.Status(
        code=code_pb2.Code.Value(error.status.grpc),
        message=message_of(error),
        details=[_packed(detail) for detail in details],
    )


def message_of(error: ContextError) -> str:
    """The message, within what every face has room for."""
    return error.message.encode("utf-8", "replace")[:_MESSAGE_BYTES_MAX].decode("utf-8", "ignore")


def detail_json(detail: dict[str, Any], bytes_max: int) -> bytes:
    """`detail` as canonical JSON; where it is too large, its lists are cut and `cut` says how long each was."""
    whole = encoded(detail)
    if len(whole) <= bytes_max:
        return whole
    keep = _longest(detail) // 2
    while keep:
        cut: dict[str, int] = {}
        shortened = _shortened(detail, keep, cut, "")
        short = encoded({**shortened, "cut": cut})
        if len(short) <= bytes_max:
            return short
        keep //= 2
    return encoded({"cut": {"detail": len(whole)}, **{k: v for k, v in detail.items() if isinstance(v, int | float)}})


def _longest(value: Any) -> int:
    """How long the longest list in `value` is."""
    if isinstance(value, dict):
        return max((_longest(inner) for inner in value.values()), default=0)
    return max(len(value), *(_longest(inner) for inner in value)) if isinstance(value, list) and value else 0


def _shortened(value: Any, keep: int, cut: dict[str, int], path: str) -> Any:
    """`value` with at most `keep` items in each list; `cut` is told how long the longer ones were."""
    if isinstance(value, dict):
        return {name: _shortened(inner, keep, cut, f"{path}.{name}" if path else name) for name, inner in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) > keep:
        cut[path] = len(value)
    return [_shortened(inner, keep, cut, f"{path}[]") for inner in value[:keep]]


def _standard_details(error: ContextError) -> list[Message]:
    details: list[Message] = []
    if isinstance(error, InvalidInput):
        violation = error_details_pb2.BadRequest.FieldViolation(field=error.field, description=error.message)
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if isinstance(error, ContextBudgetExceeded):
        quota = error_details_pb2.QuotaFailure.Violation(
            subject=str(error.detail.get("budget", "")), description=error.message
        )
        details.append(error_details_pb2.QuotaFailure(violations=[quota]))
    if isinstance(error, NeedsPartition):
        condition = error_details_pb2.PreconditionFailure.Violation(
            type=error.reason, subject=str(error.detail.get("reason", "")), description=error.message
        )
        details.append(error_details_pb2.PreconditionFailure(violations=[condition]))
    retry_after_ms = error.detail.get("retry_after_ms")
    if isinstance(retry_after_ms, int):
        delay = Duration(seconds=retry_after_ms // 1000, nanos=retry_after_ms % 1000 * 1_000_000)
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    return details


def _packed(message: Message) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(message)
    return packed
