"""What became of a call, as it can be shown: its state, what it was made of, and what it is known to have cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mn_contract.errors import NotFound
from mn_contract.invocations import Attempt, State
from mn_sdk.context_session.journal import Journal
from mn_sdk.context_session.provider import usage_of
from mn_sdk.context_session.report import TurnReport
from mn_sdk.context_session.seen import report_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The newest attempt of a call.

    `usage` is in tokens. `usage_source` says whether the provider has reported it or, where it did not, what was sent
    is our count (the margin of an inexact one left out); what was then written nobody knows. `evidence` says what a
    state that no response proves rests on.
    """

    name: str
    attempt: int
    state: State
    usage: Mapping[str, int]
    usage_source: Literal["reported", "estimated"]
    evidence: str
    report: TurnReport


def receipt_of(journal: Journal, name: str) -> Receipt:
    """The receipt of a call's newest attempt. Raises NotFound."""
    attempt = journal.invocations.newest(name)
    if attempt is None:
        raise NotFound("there is no call of this name; a turn that was refused before it was claimed leaves none")
    report = report_of(journal.notes, attempt)
    reported = usage_of(attempt.response) if attempt.response is not None and attempt.usable else {}
    return Receipt(
        name=name,
        attempt=attempt.attempt,
        state=attempt.state,
        usage=reported or _estimated(attempt, report),
        usage_source="reported" if reported else "estimated",
        evidence=attempt.evidence,
        report=report,
    )


def _estimated(attempt: Attempt, report: TurnReport) -> Mapping[str, int]:
    """What may have been billed: nothing where nothing was executed."""
    if attempt.state is State.FAILED_DEFINITE:
        return {"prompt_tokens": 0}
    return {"prompt_tokens": report.tokens} if report.tokens else {}
