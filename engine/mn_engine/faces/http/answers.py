"""Answers: what a tool said, or problem+json. Nothing is cached but packs that were kept, which never change."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from mn_contract.canonical import encoded
from mn_contract.errors import ContextError, Unauthenticated
from mn_engine.faces.gate import AUTHORIZATION, JOB, PRINCIPAL, ROLES, RUN
from mn_engine.wire.errors import INTERNAL_MESSAGE
from mn_engine.wire.problems import internal_problem, problem_of

_log = logging.getLogger("mn_engine.http")
JSON: Final = "application/json"
MARKDOWN: Final = "text/markdown; charset=utf-8"
PROBLEM: Final = "application/problem+json"
_VARY: Final = ", ".join((JOB, RUN, PRINCIPAL, ROLES, AUTHORIZATION))


class Refused(Exception):
    """A request that HTTP itself has a status for: `error` is told with that one instead of its own."""

    def __init__(self, status: int, error: ContextError, **headers: str) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error
        self.headers = headers


def answered(body: bytes, media_type: str, *, etag: str = "") -> Response:
    """200. With an etag it may be kept by its caller, who asks again whether it still stands."""
    return Response(body, headers={**_kept(etag), "content-type": media_type, "x-content-type-options": "nosniff"})


def not_modified(etag: str) -> Response:
    """304."""
    return Response(status_code=304, headers=_kept(etag))


def problem(error: ContextError, *, status: int = 0, headers: Mapping[str, str] | None = None) -> Response:
    """`error` as problem+json, with its own status unless HTTP has another for it."""
    _log.info("refused reason=%s", error.reason)
    status = status or error.status.http
    told = {**_kept(""), **further(error), **(headers or {})}
    return Response(encoded(problem_of(error, status)), status, told, PROBLEM)


def internal() -> Response:
    """A fault of ours."""
    return Response(encoded(internal_problem(INTERNAL_MESSAGE)), 500, _kept(""), PROBLEM)


def further(error: ContextError) -> dict[str, str]:
    """Headers that help with an error, whatever body it is told in."""
    if isinstance(error, Unauthenticated):
        return {"www-authenticate": "Bearer"}
    retry_after_ms = error.detail.get("retry_after_ms")
    return {"retry-after": str(-(-retry_after_ms // 1000))} if isinstance(retry_after_ms, int) else {}


def _kept(etag: str) -> dict[str, str]:
    if not etag:
        return {"cache-control": "no-store"}
    return {"cache-control": "private, no-cache", "etag": etag, "vary": _VARY}
