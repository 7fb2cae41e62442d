"""Errors as the proxy answers them: an HTTP status, a message, and the whole detail at one place of the body.

The proxy writes `error.code` and `error.type` itself; what an HTTPException's detail holds it hands on under
`error.provider_specific_fields`. There stands `membrane`: {reason, detail}.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from fastapi import HTTPException

from mn_contract.errors import ContextError, DependencyUnavailable

_WORTH_A_RETRY: Final = frozenset({"UNAVAILABLE", "IN_FLIGHT", "RECORD_IN_USE"})


def refusal(error: ContextError, *, sent: bool = False) -> HTTPException:
    """The answer for an error. Clients that retry by themselves, as openai's do after 409, 429 and 503, are told when
    to: not what would be refused again, and nothing once it was `sent`, for it would be paid for twice."""
    again = error.reason in _WORTH_A_RETRY and not sent
    headers = {"x-should-retry": "true" if again else "false"}
    if again and isinstance(error, DependencyUnavailable) and "retry_after_ms" in error.detail:
        headers["retry-after"] = str(math.ceil(error.detail["retry_after_ms"] / 1000))
    return HTTPException(
        status_code=error.status.http,
        detail=_fields(error),
        headers=headers,
    )


def _fields(error: ContextError) -> dict[str, Any]:
    return {"message": error.message, "membrane": {"reason": error.reason, "detail": error.detail}}


@contextmanager
def refusing(*, sent: bool = False) -> Iterator[None]:
    """Answers the contract's errors that are raised inside."""
    try:
        yield
    except ContextError as error:
        raise refusal(error, sent=sent) from error


@contextmanager
def refusing_a_route() -> Iterator[None]:
    """As `refusing`, before anything of a chat completion is known: on other routes, `/v1/completions` among them, the
    proxy writes an HTTPException as its text, and hands on the body of its own exception as it is."""
    from litellm.proxy._types import ProxyException

    try:
        yield
    except ContextError as error:
        refused = refusal(error)
        raise ProxyException(
            message=error.message,
            type="invalid_request_error",
            param=None,
            code=refused.status_code,
            headers=dict(refused.headers or {}),
            provider_specific_fields=dict(_fields(error)),
        ) from error
