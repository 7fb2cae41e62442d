"""An optional model that may reorder what a packet chooses from, behind a port; off unless it is configured.

It sees the best optional candidates, bodies checked, and says which of them should be offered first. It cannot bring a
card in that was not ranked, leave a required one out, or move the shares: only the order in which optional cards are
offered is its own. Whatever goes wrong, the deterministic order stands, and the packet says so.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

_log = logging.getLogger(__name__)

OFFERED_MAX: Final = 50
"""Candidates that a model is shown."""
SECONDS_MAX: Final = 10.0
_WAITED_FOR_MAX: Final = 8
"""Answers that may be outstanding at once; a model that hangs is not asked for ever more threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A candidate as a model is shown it."""

    ref: str
    kind: str
    stance: str
    text: str


class Selector(Protocol):
    """Puts candidates in order."""

    def order(self, question: str, offers: Sequence[Offer]) -> Sequence[str]:
        """References of the candidates to offer first, best first; those that it leaves out keep their order behind
        them."""


class Consulted(Enum):
    """What came of asking. Values are those of the wire."""

    NOT = ""
    APPLIED = "applied"
    FAILED = "failed"
    TIMEOUT = "timeout"
    NONSENSE = "nonsense"


class Consultant:
    """Asks a selector and believes nothing of what it says. Thread-safe."""

    def __init__(self, selector: Selector, *, seconds: float = SECONDS_MAX) -> None:
        self._selector = selector
        self._seconds = seconds
        self._free = threading.BoundedSemaphore(_WAITED_FOR_MAX)

    def ask(
        self, question: str, offers: Sequence[Offer], *, remaining: float = math.inf
    ) -> tuple[tuple[str, ...], Consulted]:
        """(references to offer first, APPLIED), or none and why not. Half of what `remaining` seconds the caller waits
        is kept for the deterministic answer."""
        told = self._answer(question, offers, min(self._seconds, remaining / 2))
        if told[1] in (Consulted.TIMEOUT, Consulted.NONSENSE):
            _log.warning("the model selector's answer was not used: %s", told[1].value)
        return told

    def _answer(self, question: str, offers: Sequence[Offer], seconds: float) -> tuple[tuple[str, ...], Consulted]:
        if not self._free.acquire(blocking=False):
            return (), Consulted.TIMEOUT
        answer: Future[tuple[tuple[str, ...], Consulted]] = Future()
        threading.Thread(target=self._run, args=(answer, question, offers), name="mn-selector", daemon=True).start()
        try:
            return answer.result(seconds)
        except TimeoutError:
            return (), Consulted.TIMEOUT

    def _run(self, answer: Future[tuple[tuple[str, ...], Consulted]], question: str, offers: Sequence[Offer]) -> None:
        try:
            answer.set_result(_read(self._selector.order(question, offers), offers))
        except BaseException as error:  # noqa: BLE001 - whatever a model's adapter raises ends here, in its own thread
            _log.warning("the model selector failed: %s", type(error).__name__)
            answer.set_result(((), Consulted.FAILED))
        finally:
            self._free.release()


def _read(said: object, offers: Sequence[Offer]) -> tuple[tuple[str, ...], Consulted]:
    """What a selector said, where it names offers, each once."""
    if isinstance(said, str) or not isinstance(said, Sequence):
        return (), Consulted.NONSENSE
    refs = tuple(said)
    known = {offer.ref for offer in offers}
    if not all(type(ref) is str for ref in refs) or len(set(refs)) != len(refs) or not known.issuperset(refs):
        return (), Consulted.NONSENSE
    return refs, Consulted.APPLIED
