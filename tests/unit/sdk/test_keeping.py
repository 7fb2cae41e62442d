"""A response that the journal did not take is offered again, kept, and never lost (invariant 10)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mn_contract.errors import (
    ContextError,
    DependencyUnavailable,
    IdempotencyConflict,
    InvocationInFlight,
    NotFound,
    PermissionDenied,
    RunClosed,
    StorageFull,
)
from mn_contract.invocations import Attempt, State
from mn_sdk.context_session.journal.database import Database
from mn_sdk.context_session.journal.keeping import PATIENCE_SECONDS, KeepingInvocations
from mn_sdk.context_session.journal.notes import Notes
from mn_sdk.context_session.journal.rows import Clearing, Rows
from mn_sdk.context_session.journal.sqlite import SqliteInvocations
from mn_sdk.scope import SessionScope

ROLES = ("auditor", "lead")
ANSWER = b'{"choices": [1]}'
DOWN = DependencyUnavailable("the engine is away", dependency="engine")


class Breaking(SqliteInvocations):
    """A journal that raises what it is told to when a response is offered: each in turn, the last one for good."""

    failures: tuple[BaseException | None, ...] = ()

    def respond(self, attempt: Attempt, response: bytes, *, usable: bool) -> Attempt:
        first, *later = self.failures or (None,)
        self.failures = tuple(later) or self.failures
        if first is not None:
            raise first
        return super().respond(attempt, response, usable=usable)


class Session:
    """A session's journal with a clock that only sleeping moves."""

    def __init__(self, root: Path, *, left: float = 1e9, roles: tuple[str, ...] = ROLES) -> None:
        self.now = 0.0
        self.database = Database(root)
        scope = SessionScope(job_id="job", run_id="run", principal="alice", roles=roles)
        rows = Rows(self.database, scope, clearing=Clearing(root, scope), state=None)
        self.inner = Breaking(rows, now_ms=lambda: 0, holder=lambda: "w1", gone=lambda _: False)
        self.notes = Notes(rows)
        self.journal = KeepingInvocations(
            self.inner,
            self.notes,
            roles=frozenset(roles),
            patience=lambda seconds: min(seconds, left),
            clock=lambda: self.now,
            sleep=self._sleep,
        )

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def dispatched(self) -> Attempt:
        return self.journal.dispatch(self.begin(), request_sha256="2" * 64, calls_max=None)

    def begin(self) -> Attempt:
        return self.journal.begin("call", fingerprint="1" * 64, lease_ms=1000)

    def losing(self, failure: BaseException, response: bytes = ANSWER, *, usable: bool = True) -> Any:
        attempt = self.dispatched()
        self.inner.failures = (failure,)
        with pytest.raises(type(failure)) as raised:
            self.journal.respond(attempt, response, usable=usable)
        return raised.value


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    made = Session(tmp_path)
    yield made
    made.database.close()


@pytest.mark.parametrize("failure", [DOWN, StorageFull("full")])
def test_a_journal_that_comes_back_takes_the_response(session: Session, failure: ContextError) -> None:
    attempt = session.dispatched()
    session.inner.failures = (failure, failure, failure, None)
    assert session.journal.respond(attempt, ANSWER, usable=True).state is State.RESPONDED
    assert 0 < session.now < PATIENCE_SECONDS


@pytest.mark.parametrize("left", [5.0, 1e9])
def test_patience_ends_with_its_bound_or_the_sessions_deadline(tmp_path: Path, left: float) -> None:
    session = Session(tmp_path, left=left)
    session.losing(DOWN)
    bound = min(left, PATIENCE_SECONDS)
    assert bound - 2 <= session.now <= bound
    session.database.close()


def test_the_error_carries_the_response_as_reconcile_takes_it(session: Session) -> None:
    error = session.losing(DOWN)
    assert error.detail == {
        "dependency": "engine",
        "name": "call",
        "attempt": 1,
        "kept": "notes",
        "response": json.loads(ANSWER),
    }
    assert "reconcile" in error.message


def test_the_text_of_a_response_that_cannot_be_used_is_carried_and_kept_exactly(session: Session) -> None:
    error = session.losing(DOWN, b"busy\xff\n", usable=False)
    assert error.detail["response"] == "busy\ufffd\n"
    session.inner.failures = ()
    taken = session.begin()
    assert (taken.state, taken.response, taken.usable) == (State.RESPONDED, b"busy\xff\n", False)


@pytest.mark.parametrize("look", ["begin", "newest"])
def test_who_next_looks_at_the_call_finds_it_answered(session: Session, look: str) -> None:
    session.losing(DOWN)
    session.inner.failures = ()
    found = session.begin() if look == "begin" else session.journal.newest("call")
    assert found is not None
    assert (found.state, found.response) == (State.RESPONDED, ANSWER)
    assert session.notes.get("response", "call") is None


def test_a_later_session_under_the_same_root_finds_it(session: Session, tmp_path: Path) -> None:
    session.losing(DOWN)
    later = Session(tmp_path)
    assert later.begin().response == ANSWER
    later.database.close()


def test_a_later_session_without_its_roles_leaves_it_kept(session: Session, tmp_path: Path) -> None:
    """Invariants 7 and 10: it is offered by whoever may see the call, and not lost to whoever may not."""
    session.losing(DOWN)
    without = Session(tmp_path, roles=("lead",))
    assert without.journal.newest("call") is None
    with pytest.raises(NotFound):
        without.journal.reconcile("call", response=ANSWER, evidence="e")
    with pytest.raises(IdempotencyConflict):
        without.begin()
    with_more = Session(tmp_path, roles=("third", *ROLES))
    assert with_more.begin().response == ANSWER
    for later in (without, with_more):
        later.database.close()


def test_while_the_journal_is_away_nothing_goes_on(session: Session) -> None:
    session.losing(DOWN)
    for _ in range(2):
        with pytest.raises(DependencyUnavailable):
            session.begin()


def test_what_no_disk_takes_is_kept_in_memory(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*note: Any) -> None:
        raise StorageFull("full")

    with monkeypatch.context() as patched:
        patched.setattr(session.notes, "put", full)
        assert session.losing(StorageFull("full")).detail["kept"] == "memory"
    session.inner.failures = ()
    assert session.begin().response == ANSWER


def test_an_interrupt_does_not_lose_it(session: Session) -> None:
    session.losing(KeyboardInterrupt())
    session.inner.failures = ()
    assert session.begin().response == ANSWER


def test_an_error_that_waiting_does_not_mend_is_told_at_once(session: Session) -> None:
    assert session.losing(PermissionDenied("no")).detail["kept"] == "notes"
    assert session.now == 0


@pytest.mark.parametrize(
    "failure",
    [IdempotencyConflict("settled"), NotFound("gone"), RunClosed("cleared", reason="RUN_CLEARED")],
)
def test_what_the_journal_will_never_take_is_carried_and_not_kept(session: Session, failure: ContextError) -> None:
    error = session.losing(failure)
    assert (error.detail["kept"], error.detail["response"]) == ("nowhere", json.loads(ANSWER))
    assert error.reason == failure.reason
    assert session.notes.get("response", "call") is None


def test_what_was_settled_otherwise_since_is_forgotten(session: Session) -> None:
    session.losing(DOWN)
    session.inner.failures = ()
    dispatched = session.inner.newest("call")
    assert dispatched is not None
    session.inner.fail(dispatched, evidence="the provider's log")
    assert session.begin().attempt == 2
    assert session.notes.get("response", "call") is None


def test_reconciling_with_the_response_that_was_kept_settles_it(session: Session) -> None:
    session.losing(DOWN)
    session.inner.failures = ()
    assert session.journal.reconcile("call", response=ANSWER, evidence="e").response == ANSWER


def test_reconciling_a_call_that_is_in_flight_is_refused_as_ever(session: Session) -> None:
    session.dispatched()
    with pytest.raises(InvocationInFlight):
        session.journal.reconcile("call", response=ANSWER, evidence="e")
