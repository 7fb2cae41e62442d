"""What a model saw in a turn: the complete request and its report, kept before the request leaves, and found again.

A request is kept under the SHA-256 of its canonical JSON, which the journal has with the attempt that sent it: what is
found is what was sent, or nothing.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mn_contract.canonical import digest
from mn_contract.errors import NotFound, SourceMismatch
from mn_contract.invocations import Attempt, State
from mn_sdk.context_session.journal.notes import Note, Notes
from mn_sdk.context_session.provider import usage_of
from mn_sdk.context_session.report import TurnReport

_REPORT: Final = "report"
_REQUEST: Final = "request"
_OUTSTANDING: Final = "outstanding"
"""What kept a response out of the record is known to the turn that tried; afterwards, that it is not in yet."""
_FAST: Final = 1
"""zlib's level: packets shrink to a fifth at any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One attempt of a turn: how it stands, what it did, the request as litellm was given it,
    and the response as it is stored (None where there is none)."""

    attempt: int
    state: State
    report: TurnReport
    request: Mapping[str, Any]
    response: bytes | None


def report_note(attempt: Attempt, report: TurnReport) -> Note:
    """An attempt's report."""
    return _REPORT, _name(attempt), report.encoded()


def request_note(request: Mapping[str, Any], sha256: str) -> Note:
    """A complete request of this digest, its keys in their order: a model is shown them in it."""
    return _REQUEST, sha256, zlib.compress(json.dumps(dict(request), separators=(",", ":")).encode(), _FAST)


def report_of(notes: Notes, attempt: Attempt) -> TurnReport:
    """What was kept when the attempt was admitted; its name alone where it was admitted under another root."""
    kept = notes.get(_REPORT, _name(attempt))
    return TurnReport(name=attempt.name, attempt=attempt.attempt) if kept is None else TurnReport.decode(kept)


def seen(notes: Notes, attempt: Attempt) -> Seen:
    """What the model saw in an attempt. Raises NotFound where nothing of it was kept under this root, SourceMismatch
    where what was kept is not what was sent."""
    kept = notes.get(_REQUEST, attempt.request_sha256)
    if kept is None:
        raise NotFound("nothing is kept of this call's request under this root; was it made under another one?")
    request = json.loads(zlib.decompress(kept))
    if digest(request) != attempt.request_sha256:
        raise SourceMismatch("the kept request is not what was sent; it was not used", name=attempt.name)
    return Seen(
        attempt=attempt.attempt,
        state=attempt.state,
        report=report_of(notes, attempt).answered(
            usage=usage_of(attempt.response) if attempt.response is not None and attempt.usable else {},
            written_back=_OUTSTANDING if attempt.state is State.RESPONDED else "",
        ),
        request=request,
        response=attempt.response,
    )


def _name(attempt: Attempt) -> str:
    # Another worker may claim the same attempt for another request before either has dispatched it.
    return f"{attempt.name}/{attempt.attempt}/{attempt.fingerprint}"
