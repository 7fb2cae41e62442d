"""Where workers are killed: every point that has a name, in one table.

A point of PATH is on the way of a worker that makes a call, and says what the journal holds when it has died there and
whether the provider has the request. A point of RECOVERY is on the way of one that takes over from a dead worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mn_contract.invocations import REPLAYABLE, State
from mn_contract.limits import ARTIFACT_INLINE_BYTES_MAX

_SESSION: Final = "mn_sdk.context_session"
_JOURNAL: Final = f"{_SESSION}.journal.keeping:KeepingInvocations"
_NOTES: Final = f"{_SESSION}.journal.notes:Notes"
_RECORD: Final = f"{_SESSION}.recording:Recorder.record"


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """Dies when `called` (module:Class.method) is called, with `given` among the arguments where that is said."""

    called: str
    given: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class After:
    """As Before, once the call has ended, whether it answers or raises."""

    called: str
    given: str = ""


@dataclass(frozen=True, slots=True)
class Killed:
    """The provider kills it: see FATE in `provider`."""

    fate: str


Death = Before | After | Killed


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """`state` is that of the newest attempt when the worker has died, None where there is none. `answer_bytes` is how
    long an answer has to be for the way to lead there; `kept`: the journal takes no response from this worker, which
    keeps it beside, under its root."""

    label: str
    death: Death
    state: State | None
    sent: bool = True
    answer_bytes: int = 0
    kept: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """`found` are the states that a worker takes over from where its way leads there, `sent` whether the provider must
    have the request for that, `kept` whether the response must have been kept beside the journal, `opening` whether it
    dies while its session opens.

    Where `settling` is given, it is what the worker does about an unknown outcome, and it dies in doing so: `retry`
    (the call again, under a retry identity) or `log` (reconcile, with what the provider's log says).
    """

    label: str
    death: Death
    found: frozenset[State | None]
    settling: str = ""
    sent: bool = False
    kept: bool = False
    opening: bool = False


PATH: Final = (
    Point(label="before the claim", death=Before(called=f"{_JOURNAL}.begin"), state=None, sent=False),
    Point(label="after the claim", death=After(called=f"{_JOURNAL}.begin"), state=State.PREPARED, sent=False),
    Point(
        label="before the report",
        death=Before(called=f"{_NOTES}.put_all"),
        state=State.PREPARED,
        sent=False,
    ),
    Point(label="after the report", death=After(called=f"{_NOTES}.put_all"), state=State.PREPARED, sent=False),
    Point(label="before the dispatch", death=Before(called=f"{_JOURNAL}.dispatch"), state=State.PREPARED, sent=False),
    Point(label="after the dispatch", death=After(called=f"{_JOURNAL}.dispatch"), state=State.DISPATCHED, sent=False),
    Point(
        label="before the send",
        death=Before(called=f"{_SESSION}.wiretap:Exchange.sending"),
        state=State.DISPATCHED,
        sent=False,
    ),
    Point(label="after the send", death=Killed("received"), state=State.DISPATCHED),
    Point(label="in the middle of the answer", death=Killed("middle"), state=State.DISPATCHED),
    Point(label="before the response", death=Before(called=f"{_JOURNAL}.respond"), state=State.DISPATCHED),
    Point(label="after the response", death=After(called=f"{_JOURNAL}.respond"), state=State.RESPONDED),
    Point(
        label="after the response is kept",
        death=After(called=f"{_NOTES}.put", given="response"),
        state=State.RESPONDED,
        kept=True,
    ),
    Point(label="before the write-back", death=Before(called=_RECORD), state=State.RESPONDED),
    Point(
        label="in the middle of the write-back",
        death=After(called="mn_sdk.client:WorkingMemoryClient.put_artifact"),
        state=State.RESPONDED,
        answer_bytes=ARTIFACT_INLINE_BYTES_MAX + 1,
    ),
    Point(label="after the write-back", death=After(called=_RECORD), state=State.RESPONDED),
    Point(label="before the completion", death=Before(called=f"{_JOURNAL}.complete"), state=State.RESPONDED),
    Point(label="after the completion", death=After(called=f"{_JOURNAL}.complete"), state=State.COMPLETED),
)

_ANY: Final = frozenset(point.state for point in PATH)
_UNKNOWN: Final = frozenset({State.DISPATCHED})
_OUTSTANDING: Final = frozenset({State.RESPONDED})

RECOVERY: Final = (
    Recovery(label="recovery, before its claim", death=Before(called=f"{_JOURNAL}.begin"), found=_ANY),
    Recovery(label="recovery, after its claim", death=After(called=f"{_JOURNAL}.begin"), found=_ANY),
    Recovery(
        label="recovery, after what was kept is taken",
        death=Before(called=f"{_NOTES}.remove", given="response"),
        found=_OUTSTANDING,
        kept=True,
        opening=True,
    ),
    Recovery(label="recovery, before the write-back", death=Before(called=_RECORD), found=_OUTSTANDING),
    Recovery(label="recovery, after the write-back", death=After(called=_RECORD), found=_OUTSTANDING),
    Recovery(label="recovery, after the completion", death=After(called=f"{_JOURNAL}.complete"), found=_OUTSTANDING),
    Recovery(
        label="retry, after the claim that supersedes",
        death=After(called=f"{_JOURNAL}.begin"),
        found=_UNKNOWN,
        settling="retry",
    ),
    Recovery(
        label="retry, after its dispatch", death=After(called=f"{_JOURNAL}.dispatch"), found=_UNKNOWN, settling="retry"
    ),
    Recovery(label="retry, after its send", death=Killed("received"), found=_UNKNOWN, settling="retry"),
    Recovery(
        label="retry, after its response", death=After(called=f"{_JOURNAL}.respond"), found=_UNKNOWN, settling="retry"
    ),
    Recovery(
        label="before the reconciliation", death=Before(called=f"{_JOURNAL}.reconcile"), found=_UNKNOWN, settling="log"
    ),
    Recovery(
        label="after the reconciliation", death=After(called=f"{_JOURNAL}.reconcile"), found=_UNKNOWN, settling="log"
    ),
    Recovery(
        label="reconciled, before the write-back",
        death=Before(called=_RECORD),
        found=_UNKNOWN,
        settling="log",
        sent=True,
    ),
)

POINTS: Final[Mapping[str, Point | Recovery]] = {point.label: point for point in (*PATH, *RECOVERY)}


def is_paid(point: Point) -> bool:
    """Whether the response is durable at this point: it is replayed for ever."""
    return point.state in REPLAYABLE
