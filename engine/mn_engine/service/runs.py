"""Opening, reading, cancelling, clearing and following a run."""

from __future__ import annotations

from collections.abc import Iterator

from mn_contract.errors import NotFound
from mn_contract.limits import REASON_BYTES_MAX
from mn_contract.names import check_text
from mn_engine.domain.runs import EMPTY_ROOT, Run, RunState, Tombstone, check_max_stored_bytes
from mn_engine.domain.scope import Scope
from mn_engine.service.engine import Call, Engine


def open_run(engine: Engine, scope: Scope, call: Call, *, max_stored_bytes: int | None) -> Run:
    """The run, created where it is new."""
    call.check()
    check_max_stored_bytes(max_stored_bytes)
    return engine.store.open_run(scope.job_id, scope.run_id, max_stored_bytes=max_stored_bytes, now=engine.clock())


def written_run(engine: Engine, scope: Scope) -> Run:
    """The run that a model's tool is about to write to, opened where it is new: no such caller could open it. Raises
    RunClosed."""
    try:
        run = engine.store.run(scope.run_key)
    except NotFound:
        run = engine.store.open_run(scope.job_id, scope.run_id, max_stored_bytes=None, now=engine.clock())
    run.check_readable()
    return run


def root_at(engine: Engine, scope: Scope, revision: int) -> str:
    """The root that the run has, or had last, at a revision that it has been at."""
    run = engine.store.run(scope.run_key)
    if run.revision == revision:
        return run.root
    return next((at.root for at in reversed(engine.store.roots(scope.run_key)) if at.revision == revision), EMPTY_ROOT)


def get_run(engine: Engine, scope: Scope, call: Call) -> Run:
    """The run's head; also that of a cleared one."""
    return engine.store.run(scope.run_key)


def cancel_run(engine: Engine, scope: Scope, call: Call, *, reason: str) -> Run:
    """Refuses every later write."""
    engine.store.run(scope.run_key).check_readable()
    return engine.store.cancel_run(scope.run_key, reason=check_text(reason, "reason", REASON_BYTES_MAX))


def clear_run(engine: Engine, scope: Scope, call: Call, *, reason: str) -> Tombstone:
    """Removes the run's contents; what stays is the tombstone (invariant 15)."""
    check_text(reason, "reason", REASON_BYTES_MAX)
    tombstone = engine.store.clear_run(scope.run_key, reason=reason, now=engine.clock())
    engine.indexes.drop(scope.run_key)
    return tombstone


def watch_revisions(engine: Engine, scope: Scope, call: Call, *, after_revision: int) -> Iterator[tuple[int, RunState]]:
    """(revision, state) as they are committed, newest only."""

    def head() -> tuple[int, RunState]:
        run = engine.store.run(scope.run_key)
        return run.revision, run.state

    head()  # an unknown run is an error before the stream begins
    return engine.watchers.follow(scope.run_key, head, after_revision, call.expired)
