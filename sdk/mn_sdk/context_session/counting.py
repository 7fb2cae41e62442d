"""What a session counts its requests by, and what it learns of that from what providers bill.

The counter is ours, or the one that MN_CONTEXT_TOKEN_COUNTER_FACTORY makes. Where a model bills more than count and
margin, its margin is wider from then on, in this session and in later ones under the same root; the turn's report and
the log say so. Usage that nobody reported, as of a stream that was cut, teaches nothing; `forget` undoes it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any, Final, Protocol

from mn_contract.canonical import encoded
from mn_contract.errors import InvalidInput
from mn_sdk.context_session.journal.notes import Notes
from mn_sdk.environment import COUNTER_FACTORY, token_counter_factory
from mn_sdk.scope import SessionScope
from mn_tokens import Calibration, Count, Counter, ExactCounter, calibration_of
from mn_tokens.exact import loaded

_KIND: Final = "calibration"
_NAME: Final = "models"


class _Counts(Protocol):
    def count(self, request: Mapping[str, Any], *, model: str) -> Count:
        """The tokens of a complete request."""


def counting(notes: Notes, scope: SessionScope) -> Counting:
    """The session's counting, with what was learned under its root. Raises InvalidInput where a counter is configured
    that cannot be made."""
    kept = notes.get(_KIND, _NAME)
    calibration = Calibration() if kept is None else calibration_of(json.loads(kept))
    return Counting(_counter(scope), calibration, notes)


class Counting:
    """Counts requests, and learns. Thread-safe."""

    def __init__(self, counter: _Counts, calibration: Calibration, notes: Notes) -> None:
        self._counter = counter
        self._calibration = calibration
        self._notes = notes
        self._lock = threading.Lock()

    def count(self, request: Mapping[str, Any], model: str) -> Count:
        """The tokens of a complete request, with the margin that the model has shown to need."""
        return self._calibration.applied(self._counter.count(request, model=model), model=model)

    def forget(self, model: str) -> None:
        """Forgets what was learned of a model, here and in what is kept. Raises InvalidInput where none is named."""
        if not isinstance(model, str) or not model:
            raise InvalidInput("name the model, as the call named it", field="model")
        with self._lock:
            self._calibration = self._calibration.forgotten(model)
            self._notes.put(_KIND, _NAME, encoded(self._calibration.document()))

    def observed(self, count: Count, model: str, usage: Mapping[str, Any]) -> str:
        """Learns from what was billed for a request that was counted as `count`: how the model drifted, or nothing."""
        with self._lock:
            self._calibration, drift = self._calibration.observed(count, model=model, billed=usage.get("prompt_tokens"))
            if drift is None:
                return ""
            self._notes.put(_KIND, _NAME, encoded(self._calibration.document()))
        import logging

        logging.getLogger("mn_sdk.context_session").warning("%s", drift)
        return str(drift)


def _counter(scope: SessionScope) -> _Counts:
    factory = token_counter_factory()
    if factory is None:
        return Counter()
    return ExactCounter(
        counter=loaded(factory, COUNTER_FACTORY),
        scope={"job_id": scope.job_id, "run_id": scope.run_id},
        principal=scope.principal,
        name=factory,
    )
