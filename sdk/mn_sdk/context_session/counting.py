"""What a session counts its requests by, and what it learns of that from what providers bill.

The counter is ours, or the one that MN_CONTEXT_TOKEN_COUNTER_FACTORY makes. Where a model bills more than count and
margin, its margin is wider from then on, in this session and in later ones under the same root; the turn's report and
the log say so. Usage that nobody reported, as of a stream that was cut, teaches nothing; `forget` undoes it.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from mn_contract.canonical import digest, encoded
from mn_contract.errors import InvalidInput
from mn_sdk.context_session.admit import Counter as CountRequest
from mn_sdk.context_session.journal.database import FILE_NAME, Database
from mn_sdk.context_session.journal.notes import Notes
from mn_sdk.context_session.journal.rows import Clearing, Rows
from mn_sdk.context_session.lifetime import Lifetime
from mn_sdk.environment import COUNTER_FACTORY, token_counter_factory
from mn_sdk.scope import SessionScope
from mn_tokens import Api, Calibration, Count, Counter, Drift, ExactCounter, Part, calibration_of
from mn_tokens.exact import loaded

_KIND: Final = "calibration"
_NAME: Final = "models"
_ADDED_MAX: Final = 256
"""Kinds of requests of which it is remembered what litellm adds."""
_PATIENCE_SECONDS: Final = 60.0
"""How long a counter of the user's is waited for, where the session has so long."""


def counting(notes: Notes, scope: SessionScope, lifetime: Lifetime) -> Counting:
    """The session's counting, with what was learned under its root. Raises InvalidInput where a counter is configured
    that cannot be made."""
    own = Counter()
    learned = _Learned(notes)
    learned.refresh()
    return Counting(_counter(scope, own, patience=lambda: lifetime.remaining(_PATIENCE_SECONDS)), own, learned)


def counter_at(root: Path | None, scope: SessionScope | None) -> CountRequest:
    """What a session of this scope under `root` counts by, with what was learned there; without, what one does that has
    learned nothing. Nothing is made where there is no journal yet. Raises as `counting` does."""
    counter = _counter(scope, Counter(), patience=lambda: _PATIENCE_SECONDS)
    calibration = Calibration() if root is None or scope is None else _kept_at(root, scope)
    return lambda request, model: calibration.applied(counter(request, model), model=model)


def _kept_at(root: Path, scope: SessionScope) -> Calibration:
    if not (root / FILE_NAME).exists():
        return Calibration()
    rows = Rows(Database(root), scope, clearing=Clearing(root, scope), state=None)
    try:
        return _calibration(Notes(rows).get(_KIND, _NAME))
    finally:
        rows.close()


def _calibration(kept: bytes | None) -> Calibration:
    return Calibration() if kept is None else calibration_of(json.loads(kept))


class Counting:
    """Counts requests, and learns. `own` is our counter, whichever counts. Thread-safe."""

    def __init__(self, counter: CountRequest, own: Counter, learned: _Learned, added: _Added | None = None) -> None:
        self._counter = counter
        self._own = own
        self._learned = learned
        self._added = added or _Added()

    def by(self, counter: CountRequest) -> Counting:
        """What counts by another counter and shares what is learned."""
        return Counting(counter, self._own, self._learned, self._added)

    def refresh(self) -> None:
        """Takes in what other sessions under this root have learned."""
        self._learned.refresh()

    def count(self, request: Mapping[str, Any], model: str) -> Count:
        """The tokens of a complete request, with the margin that the model has shown to need."""
        return self._learned.calibration.applied(self._counter(request, model), model=model)

    def sent(self, count: Count, asked: Mapping[str, Any], sent: Mapping[str, Any], *, model: str, api: Api) -> Count:
        """`count`, which is of `asked`, for what is sent in its place, a body of `api`: by as much more or less as our
        rules tell, for a counter that knows better knows it of `asked` only. Raises InvalidInput where the body cannot
        be counted."""
        before, after = self._own.count(asked, model=model), self._own.count(sent, model=model, api=api)
        apart = after.tokens - before.tokens
        found = replace(
            count,
            tokens=max(count.tokens + apart, 0),
            margin=max(count.margin + after.margin - before.margin, 0),
            exact=count.exact and not apart,
            ledger=(*count.ledger, Part("what litellm changes", apart)) if apart else count.ledger,
        )
        self._added.seen(asked, found.upper - count.upper)
        return found

    def added(self, asked: Mapping[str, Any]) -> int:
        """The most tokens, margin included, that litellm was seen here to add to requests that ask the same beside
        their messages; 0 where it was seen to add none."""
        return self._added.of(asked)

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


class _Added:
    """What litellm adds, by what requests ask beside their messages and their limit of the output, which litellm's own
    may stand in for: their model, tools and response format decide of it. The most that was seen counts, so that a
    packet which fits once fits again. Bounded, and not kept: it is seen again with the first request. Thread-safe."""

    def __init__(self) -> None:
        self._tokens: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def seen(self, asked: Mapping[str, Any], tokens: int) -> None:
        if tokens <= 0:
            return
        kind = _kind(asked)
        with self._lock:
            self._tokens[kind] = max(self._tokens.pop(kind, 0), tokens)
            if len(self._tokens) > _ADDED_MAX:
                self._tokens.popitem(last=False)

    def of(self, asked: Mapping[str, Any]) -> int:
        with self._lock:
            return self._tokens.get(_kind(asked), 0) if self._tokens else 0


def _kind(asked: Mapping[str, Any]) -> str:
    return digest({name: value for name, value in asked.items() if name not in ("messages", "max_tokens")})


class _Learned:
    """What was learned, kept under the session's root where it matters: when a margin has become wider. What is kept
    is changed in one step with reading it, so that sessions that learn at the same time learn from each other."""

    def __init__(self, notes: Notes) -> None:
        self.calibration = Calibration()
        self._notes = notes
        self._kept: bytes | None = None
        self._lock = threading.Lock()

    def refresh(self) -> None:
        with self._lock:
            self._take(self._notes.get(_KIND, _NAME))

    def observe(self, count: Count, model: str, billed: Any) -> Drift | None:
        with self._lock:
            calibration, drift = self.calibration.observed(count, model=model, billed=billed)
            if drift is None:
                self.calibration = calibration
                return None

            def change(kept: bytes | None) -> bytes:
                nonlocal drift
                self._take(kept)
                self.calibration, drift = self.calibration.observed(count, model=model, billed=billed)
                return self._encoded()

            self._notes.update(_KIND, _NAME, change)
            return drift

    def forget(self, model: str) -> None:
        def change(kept: bytes | None) -> bytes:
            self._take(kept)
            self.calibration = self.calibration.forgotten(model)
            return self._encoded()

        with self._lock:
            self._notes.update(_KIND, _NAME, change)

    def _take(self, kept: bytes | None) -> None:
        """Goes by what is kept, where somebody else has changed that."""
        if kept != self._kept:
            self.calibration = _calibration(kept)
            self._kept = kept

    def _encoded(self) -> bytes:
        self._kept = encoded(self.calibration.document())
        return self._kept


def _counter(scope: SessionScope | None, own: Counter, *, patience: Callable[[], float]) -> CountRequest:
    factory = token_counter_factory()
    counter: Counter | ExactCounter = own
    if factory is not None:
        counter = ExactCounter(
            counter=loaded(factory, COUNTER_FACTORY),
            scope={} if scope is None else {"job_id": scope.job_id, "run_id": scope.run_id},
            principal="" if scope is None else scope.principal,
            name=factory,
            own=own,
            patience=patience,
        )
    return lambda request, model: counter.count(request, model=model)
