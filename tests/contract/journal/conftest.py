"""Every journal, seen through one fixture: workers of one scope that share a journal and a clock."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mn.context.working.v1 import run_pb2
from mn_engine.bootstrap import engine_over
from mn_engine.faces.embedded import EmbeddedFace
from mn_engine.store.memory import MemoryStore
from mn_sdk.context_session.journal import Invocations
from mn_sdk.context_session.journal.database import Database
from mn_sdk.context_session.journal.keeping import KeepingInvocations
from mn_sdk.context_session.journal.notes import Notes
from mn_sdk.context_session.journal.remote import RemoteInvocations
from mn_sdk.context_session.journal.sqlite import SqliteInvocations
from mn_sdk.scope import SessionScope


class Clock:
    """Milliseconds, moved by hand."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


class Workers:
    """`worker(name)` is a worker's view of the journal; workers in `dead` have provably ended."""

    def __init__(self, make: Callable[..., Invocations]) -> None:
        self.clock = Clock()
        self.dead: set[str] = set()
        self._make = make

    def worker(
        self, name: str, principal: str = "alice", run_id: str = "run", roles: tuple[str, ...] = ()
    ) -> Invocations:
        scope = SessionScope(job_id="job", run_id=run_id, principal=principal, roles=roles)
        return self._make(scope, self.clock, lambda: name, self.dead.__contains__)


@pytest.fixture(params=["sqlite", "kept", "engine"])
def workers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workers]:
    if request.param != "engine":
        database = Database(tmp_path)

        def under_root(scope: SessionScope, clock: Clock, holder: Any, gone: Any) -> Invocations:
            journal = SqliteInvocations(database, scope, now_ms=clock, holder=holder, gone=gone)
            if request.param == "sqlite":
                return journal
            return KeepingInvocations(journal, Notes(database, scope), patience=lambda seconds: seconds)

        yield Workers(under_root)
        database.close()
        return
    made = Workers(lambda scope, clock, holder, gone: RemoteInvocations(Caller(face, scope), holder=holder, gone=gone))
    engine = dataclasses.replace(engine_over(MemoryStore()), clock=lambda: made.clock() * 1000)
    face = EmbeddedFace(engine)
    yield made
    engine.close()


class Caller:
    """An engine without a socket, for one scope."""

    def __init__(self, face: EmbeddedFace, scope: SessionScope) -> None:
        self._face = face
        self._headers = scope.headers()
        self.call("OpenRun", run_pb2.OpenRunRequest())

    def call(self, method: str, request: Any) -> Any:
        return self._face.call(method, self._headers, request)
