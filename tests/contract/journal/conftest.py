"""Every journal, seen through one fixture: workers of one run that share an engine, a journal and a clock."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mn.context.working.v1 import run_pb2
from mn_engine.bootstrap import engine_over
from mn_engine.faces.embedded import EmbeddedFace
from mn_engine.store.memory import MemoryStore
from mn_sdk.client import WorkingMemoryClient
from mn_sdk.context_session.journal import Invocations, Journal
from mn_sdk.context_session.journal.bindings import Bindings
from mn_sdk.context_session.journal.database import Database
from mn_sdk.context_session.journal.keeping import KeepingInvocations
from mn_sdk.context_session.journal.notes import Notes
from mn_sdk.context_session.journal.remote import RemoteInvocations
from mn_sdk.context_session.journal.rows import Clearing, Rows
from mn_sdk.context_session.journal.sqlite import SqliteInvocations
from mn_sdk.scope import SessionScope
from mn_sdk.transport.closing import ClosingTransport


class Clock:
    """Milliseconds, moved by hand."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


class Workers:
    """`worker(name)` is a worker's view of the calls; workers in `dead` have provably ended. `root` is the folder
    of the journal's file."""

    def __init__(self, kind: str, root: Path) -> None:
        self.root = root
        self.clock = Clock()
        self.dead: set[str] = set()
        self._kind = kind
        self._opened: list[Journal] = []
        self._engine = dataclasses.replace(engine_over(MemoryStore()), clock=lambda: self.clock() * 1000)

    def worker(self, name: str, *scope: str, **scoped: Any) -> Invocations:
        return self.journal(name, *scope, **scoped).invocations

    def journal(self, name: str, principal: str = "alice", run_id: str = "run", roles: tuple[str, ...] = ()) -> Journal:
        scope = SessionScope(job_id="job", run_id=run_id, principal=principal, roles=roles)
        clearing = Clearing(self.root, scope)
        client = WorkingMemoryClient(ClosingTransport(Direct(EmbeddedFace(self._engine), scope), clearing.learn))
        client.open_run()
        state = None if self._kind == "engine" else lambda: client.run().state
        rows = Rows(Database(self.root), scope, clearing=clearing, state=state)
        invocations: Invocations
        if self._kind == "engine":
            invocations = RemoteInvocations(client, holder=lambda: name, gone=self.dead.__contains__)
        else:
            invocations = SqliteInvocations(rows, now_ms=self.clock, holder=lambda: name, gone=self.dead.__contains__)
        notes = Notes(rows)
        bindings = Bindings(notes)
        if self._kind == "kept":
            invocations = KeepingInvocations(
                invocations, notes, bindings=bindings, roles=frozenset(scope.roles), patience=lambda seconds: seconds
            )
        self._opened.append(Journal(invocations=invocations, bindings=bindings, notes=notes, rows=rows))
        return self._opened[-1]

    def cancel(self) -> None:
        """Cancels the run, as somebody else."""
        self._direct().call("CancelRun", run_pb2.CancelRunRequest(reason="enough"))

    def clear(self) -> None:
        """Clears the run, as somebody else."""
        self._direct().call("ClearRun", run_pb2.ClearRunRequest(reason="asked to"))

    def close(self) -> None:
        for journal in self._opened:
            journal.close()
        self._engine.close()

    def _direct(self) -> Direct:
        return Direct(EmbeddedFace(self._engine), SessionScope(job_id="job", run_id="run", principal="operator"))


class Direct:
    """An engine without a socket, for one scope."""

    def __init__(self, face: EmbeddedFace, scope: SessionScope) -> None:
        self._face = face
        self._headers = scope.headers()

    def call(self, method: str, request: Any, *, timeout: float | None = None) -> Any:
        return self._face.call(method, self._headers, request)

    def close(self) -> None:
        pass


@pytest.fixture(params=["sqlite", "kept", "engine"])
def workers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workers]:
    made = Workers(request.param, tmp_path)
    yield made
    made.close()
