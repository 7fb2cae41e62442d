"""What a session counts its requests by, and what it learns of that from what providers bill.

The counter is ours, or the one that MN_CONTEXT_TOKEN_COUNTER_FACTORY makes. Where a model bills more than count and
margin, its margin is wider from then on, in this session and in later ones under the same root; the turn's report and
the log say so. Usage that nobody reported, as of a stream that was cut, teaches nothing; `forget` undoes it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from mn_contract.canonical import encoded
from mn_contract.errors import InvalidInput
from mn_sdk.context_session.admit import Counter as CountRequest
from mn_sdk.context_session.journal.notes import Notes
from mn_sdk.environment import COUNTER_FACTORY, token_counter_factory
from mn_sdk.scope import SessionScope
from mn_tokens import Api, Calibration, Count, Counter, Drift, ExactCounter, Part, calibration_of
from mn_tokens.exact import loaded

_KIND: Final = "calibration"
_NAME: Final = "models"


def counting(notes: Notes, scope: SessionScope) -> Counting:
    """The session's counting, with what was learned under its root. Raises InvalidInput where a counter is configured
    that cannot be made."""
    kept = notes.get(_KIND, _NAME)
    calibration = Calibration() if kept is None else calibration_of(json.loads(kept))
    own = Counter()
    return Counting(_counter(scope, own), own, _Learned(calibration, notes))


class Counting:
    """Counts requests, and learns. `own` is our counter, whichever counts. Thread-safe."""

    def __init__(self, counter: CountRequest, own: Counter, learned: _Learned) -> None:
        self._counter = counter
        self._own = own
        self._learned = learned

    def by(self, counter: CountRequest) -> Counting:
        """What counts by another counter and shares what is learned."""
        return Counting(counter, self._own, self._learned)

    def count(self, request: Mapping[str, Any], model: str) -> Count:
        """The tokens of a complete request, with the margin that the model has shown to need."""
        return self._learned.calibration.applied(self._counter(request, model), model=model)

    def sent(self, count: Count, asked: Mapping[str, Any], sent: Mapping[str, Any], *, model: str, api: Api) -> Count:
        """`count`, which is of `asked`, for what is sent in its place, a body of `api`: by as much more or less as our
        rules tell, for a counter that knows better knows it of `asked` only. Raises InvalidInput where the body cannot
        be counted."""
        before, after = self._own.count(asked, model=model), self._own.count(sent, model=model, api=api)
        apart = after.tokens - before.tokens
        return replace(
            count,
            tokens=max(count.tokens + apart, 0),
            margin=max(count.margin + after.margin - before.margin, 0),
            exact=count.exact and not apart,
            ledger=(*count.ledger, Part("what litellm changes", apart)) if apart else count.ledger,
        )

    def forget(self, model: str) -> None:
        """Forgets what was learned of a model, here and in what is kept. Raises InvalidInput where none is named."""
        if not isinstance(model, str) or not model:
            raise InvalidInput("name the model, as the call named it", field="model")
        self._learned.forget(model)

    def observed(self, count: Count, model: str, usage: Mapping[str, Any]) -> str:
        """Learns from what was billed for a request that was counted as `count`: how the model drifted, or nothing."""
        drift = self._learned.observe(count, model, usage.get("prompt_tokens"))
        if drift is None:
            return ""
        import logging

        logging.getLogger("mn_sdk.context_session").warning("%s", drift)
        return str(drift)


class _Learned:
    """What was learned, kept under the session's root where it matters: when a margin has become wider."""

    def __init__(self, calibration: Calibration, notes: Notes) -> None:
        self.calibration = calibration
        self._notes = notes
        self._lock = threading.Lock()

    def observe(self, count: Count, model: str, billed: Any) -> Drift | None:
        with self._lock:
            self.calibration, drift = self.calibration.observed(count, model=model, billed=billed)
            if drift is not None:
                self._keep()
            return drift

    def forget(self, model: str) -> None:
        with self._lock:
            self.calibration = self.calibration.forgotten(model)
            self._keep()

    def _keep(self) -> None:
        self._notes.put(_KIND, _NAME, encoded(self.calibration.document()))


def _counter(scope: SessionScope, own: Counter) -> CountRequest:
    factory = token_counter_factory()
    counter: Counter | ExactCounter = own
    if factory is not None:
        counter = ExactCounter(
            counter=loaded(factory, COUNTER_FACTORY),
            scope={"job_id": scope.job_id, "run_id": scope.run_id},
            principal=scope.principal,
            name=factory,
            own=own,
        )
    return lambda request, model: counter.count(request, model=model)
