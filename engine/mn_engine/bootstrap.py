"""The composition root: the only place where stores, indexes, watchers and faces are put together."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mn_contract.addresses import Address
from mn_contract.errors import DependencyUnavailable, RunClosed
from mn_engine.config import profiles, read_signing_key, selector
from mn_engine.domain.deadlines import Remaining, endless
from mn_engine.domain.scope import Scope
from mn_engine.domain.signed_notes import SigningKey
from mn_engine.embedding import wordllama
from mn_engine.faces.asking import ToolCalls
from mn_engine.faces.embedded import EmbeddedFace
from mn_engine.faces.gate import Gate
from mn_engine.faces.workers import Workers
from mn_engine.select.cmp.profiles import ModelProfile
from mn_engine.service.engine import Engine
from mn_engine.service.indexes import Indexes
from mn_engine.service.selector import Consultant
from mn_engine.service.watch import Watchers
from mn_engine.store.duckdb import DuckDBStore
from mn_engine.store.port import Store

if TYPE_CHECKING:
    from mn_engine.faces.http import HttpServer
    from mn_engine.faces.mcp import Answer

RECORD_NAME: Final = "record.duckdb"
"""An embedded session's record, in its root."""


def engine_over(
    store: Store,
    consultant: Consultant | None = None,
    profiles: tuple[ModelProfile, ...] = (),
    signing_key: SigningKey | None = None,
) -> Engine:
    """An engine over an open store, by this machine's clock. `profiles` come before the built-in ones."""
    watchers = Watchers()
    store.listen(watchers.on_commit)
    return Engine(
        store=store,
        indexes=Indexes(store),
        watchers=watchers,
        clock=_now,
        embedder=wordllama.load,
        consultant=consultant,
        profiles=profiles,
        signing_key=signing_key,
    )


def open_engine(record: Path, key: SigningKey | None = None) -> Engine:
    """An engine over the DuckDB record at `record`, configured by the environment, which names a signing key where
    none is given. Raises RecordInUse, DependencyUnavailable, InvalidInput."""
    consultant, added, signing = selector(), profiles(), key or read_signing_key()
    return engine_over(DuckDBStore(record), consultant, added, signing)


def http_server(address: Address, gate: Gate) -> HttpServer:
    """An HTTP server with MCP behind the same gate. Raises DependencyUnavailable where it cannot listen."""
    # Late: an embedded session, which needs neither, should not wait for them.
    from mn_engine.faces.http import HttpServer
    from mn_engine.faces.mcp import asking_over_http, mcp_server, over_http

    calls = ToolCalls(Workers())
    return HttpServer(address, gate, calls, over_http(mcp_server(calls.answer, asking_over_http)))


@asynccontextmanager
async def answering(record: Path, scope: Scope) -> AsyncIterator[Answer]:
    """How tools are answered by an engine over the record at `record`, in which the run of `scope` is opened where it
    is new: nobody else can do that. Raises what open_engine raises."""
    engine, calls = open_engine(record), ToolCalls(Workers())
    try:
        with suppress(RunClosed):  # of a cleared run each answer says so
            engine.store.open_run(scope.job_id, scope.run_id, max_stored_bytes=None, now=engine.clock())
        calls.serve(engine)
        yield calls.answer
    finally:
        calls.shutdown()
        engine.close()


def embedded(root: str | Path) -> EmbeddedEngine:
    """The engine over the record in `root`, shared by all in this process that ask for it.

    Each closes its own handle; the last one closes the record.
    """
    return EmbeddedEngine(_shared(Path(root).resolve() / RECORD_NAME))


class EmbeddedEngine:
    """A handle on a shared engine: the wire's operations, minus the socket."""

    def __init__(self, shared: _Shared) -> None:
        self._shared: _Shared | None = shared
        self._face = EmbeddedFace(shared.engine)

    def call(self, method: str, metadata: Mapping[str, str], request: Any, *, remaining: Remaining = endless) -> Any:
        """Runs an operation; see EmbeddedFace.call."""
        if self._shared is None:
            raise DependencyUnavailable("the session is closed", dependency="engine")
        return self._face.call(method, metadata, request, remaining=remaining)

    def close(self) -> None:
        """Lets go; the last handle closes the record. Idempotent. In a forked child nothing is closed, and no lock
        taken, which another thread of the parent may have held."""
        shared, self._shared = self._shared, None
        if shared is not None and shared.pid == os.getpid():
            _release(shared)


class _Shared:
    def __init__(self, record: Path) -> None:
        self.record = record
        self.engine = open_engine(record)
        self.handles = 0
        self.pid = os.getpid()


_records: dict[Path, _Shared] = {}
_records_lock = threading.Lock()


def _shared(record: Path) -> _Shared:
    with _records_lock:
        shared = _records.get(record)
        if shared is None:
            shared = _records[record] = _Shared(record)
        shared.handles += 1
        return shared


def _release(shared: _Shared) -> None:
    with _records_lock:
        shared.handles -= 1
        if not shared.handles:
            del _records[shared.record]
            shared.engine.close()


def _now() -> int:
    return time.time_ns() // 1000
