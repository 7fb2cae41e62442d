"""Open sessions by scope: opening one costs a connection or a record, and a proxy serves many requests of one run."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final

from mn_contract.errors import DependencyUnavailable
from mn_sdk.context_session import ContextSession
from mn_sdk.scope import SessionScope

SESSIONS_MAX: Final = 64


class Sessions:
    """The sessions used last, at most SESSIONS_MAX. Thread-safe. One that makes room lets its calls settle."""

    def __init__(self, root: Path | None) -> None:
        self._root = root
        self._open: OrderedDict[SessionScope, ContextSession] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, scope: SessionScope) -> ContextSession:
        """The session of a scope. Raises what opening it raises, and DependencyUnavailable where there is no root."""
        if self._root is None:
            raise DependencyUnavailable(
                "this proxy keeps no runs: set callback_settings.membrane.root to a folder of its own",
                dependency="root",
            )
        session = self._open.get(scope)
        if session is None:  # opened outside of the lock: an engine that is away must not hold up other runs
            session = ContextSession(
                self._root, job_id=scope.job_id, run_id=scope.run_id, principal=scope.principal, roles=scope.roles
            )
        spare: ContextSession | None = None
        with self._lock:
            kept = self._open.setdefault(scope, session)
            self._open.move_to_end(scope)
            if kept is not session:
                spare = session
            elif len(self._open) > SESSIONS_MAX:
                spare = self._open.popitem(last=False)[1]
        if spare is not None:
            spare.close()
        return kept

    def close(self) -> None:
        """Closes all of them. Idempotent."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()
