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
from mn_sdk.context_session.journal import open_journal
from mn_sdk.context_session.journal.bindings import Bindings
from mn_sdk.context_session.journal.database import Database
from mn_sdk.context_session.journal.keeping import (
    ASIDE,
    KIND,
    OFFERED_AT_ONCE_MAX,
    PATIENCE_SECONDS,
    KeepingInvocations,
)
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
    offered = 0

    def respond(self, attempt: Attempt, response: bytes, *, usable: bool, evidence: str = "") -> Attempt:
        self.offered += 1
        first, *later = self.failures or (None,)
        self.failures = tuple(later) or self.failures
        if first is not None:
            raise first
        return super().respond(attempt, response, usable=usable, evidence=evidence)


class Session:
    """A session's journal with a clock that only sleeping moves."""

    def __init__(self, root: Path, *, left: float = 1e9, roles: tuple[str, ...] = ROLES) -> None:
        self.now = 0.0
        self.database = Database(root)
        scope = SessionScope(job_id="job", run_id="run", principal="alice", roles=roles)
        rows = Rows(self.database, scope, clearing=Clearing(root, scope), state=None)
        self.inner = Breaking(rows, now_ms=lambda: 0, holder=lambda: "w1", gone=lambda _: False)
        self.notes = Notes(rows)
        self.bindings = Bindings(self.notes)
        self.journal = KeepingInvocations(
            self.inner,
            self.notes,
            bindings=self.bindings,
            roles=frozenset(roles),
            patience=lambda seconds: min(seconds, left),
            clock=lambda: self.now,
            sleep=self._sleep,
        )

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def dispatched(self, name: str = "call") -> Attempt:
        return self.journal.dispatch(self.begin(name), request_sha256="2" * 64, calls_max=None)

    def begin(self, name: str = "call", retry: str = "") -> Attempt:
        return self.journal.begin(name, fingerprint="1" * 64, lease_ms=1000, retry=retry)

    def found(self, name: str = "call", number: int | None = None) -> Attempt:
        """An attempt, or the newest, as the journal itself has it."""
        found = self.inner.find(name, number)
        assert found is not None
        return found

    def replaced(self) -> tuple[Attempt, Attempt]:
        """A call that was given up, and the retry that has replaced it; both are out."""
        first = self.dispatched()
        self.inner.lose(first, evidence="its worker ended")
        return first, self.journal.dispatch(self.begin(retry="again"), request_sha256="2" * 64, calls_max=None)

    def losing(
        self, failure: BaseException, response: bytes = ANSWER, *, usable: bool = True, name: str = "call"
    ) -> Any:
        attempt = self.dispatched(name)
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


def test_the_text_of_a_response_that_cannot_be_used_is_carried_and_kept_exactly(
    session: Session, tmp_path: Path
) -> None:
    error = session.losing(DOWN, b"busy\xff\n", usable=False)
    assert error.detail["response"] == "busy\ufffd\n"
    later = Session(tmp_path)
    taken = later.begin()
    assert (taken.state, taken.response, taken.usable) == (State.RESPONDED, b"busy\xff\n", False)
    later.database.close()


@pytest.mark.parametrize("look", ["begin", "newest"])
def test_who_next_looks_at_the_call_finds_it_answered(session: Session, look: str) -> None:
    session.losing(DOWN)
    session.inner.failures = ()
    found = session.begin() if look == "begin" else session.journal.newest("call")
    assert found is not None
    assert (found.state, found.response) == (State.RESPONDED, ANSWER)
    assert session.notes.get(KIND, "call/1") is None


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
    with monkeypatch.context() as patched:
        patched.setattr(session.notes, "put", _full)
        assert session.losing(StorageFull("full")).detail["kept"] == "memory"
    session.inner.failures = ()
    assert session.begin().response == ANSWER


@pytest.mark.parametrize("where", ["notes", "memory"])
def test_each_attempt_keeps_its_own(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A call that was given up may be answered while its retry is: both are paid for."""
    first, second = session.replaced()
    session.inner.failures = (DOWN,)
    with monkeypatch.context() as patched:
        if where == "memory":
            patched.setattr(session.notes, "put", _full)
        for attempt, response in ((second, b'{"n": 2}'), (first, b'{"n": 1}')):
            with pytest.raises(DependencyUnavailable) as kept:
                session.journal.respond(attempt, response, usable=True)
            assert kept.value.detail["kept"] == where
    session.inner.failures = ()
    asked = session if where == "memory" else Session(tmp_path)
    assert asked.begin().response == b'{"n": 2}'
    assert (asked.found().state, asked.found(number=1).state) == (State.RESPONDED, State.SUPERSEDED)
    assert asked.found(number=1).response == b'{"n": 1}'
    asked.database.close()


def test_the_evidence_of_a_late_response_is_kept_with_it(session: Session, tmp_path: Path) -> None:
    first, _ = session.replaced()
    session.inner.failures = (DOWN,)
    with pytest.raises(DependencyUnavailable):
        session.journal.respond(first, ANSWER, usable=True, evidence="ticket 4711\nby phone")
    later = Session(tmp_path)
    later.journal.offer_all()
    assert (later.found(number=1).response, later.found(number=1).evidence) == (ANSWER, "ticket 4711\nby phone")
    later.database.close()


def test_what_was_passed_over_is_offered_again_where_it_is_kept_again(session: Session) -> None:
    attempt = session.dispatched()
    session.inner.failures = (PermissionDenied("no"),)
    with pytest.raises(PermissionDenied):
        session.journal.respond(attempt, ANSWER, usable=True)
    session.journal.offer_all()
    session.inner.failures = (DOWN,)
    with pytest.raises(DependencyUnavailable):
        session.journal.respond(attempt, ANSWER, usable=True)
    session.inner.failures = ()
    session.journal.offer_all()
    assert session.found().response == ANSWER


def _full(*note: Any) -> None:
    raise StorageFull("full")


def test_an_interrupt_does_not_lose_it(session: Session, tmp_path: Path) -> None:
    """Nor does the end of the process that follows it."""
    session.losing(KeyboardInterrupt())
    later = Session(tmp_path)
    assert later.begin().response == ANSWER
    later.database.close()


def test_an_error_that_waiting_does_not_mend_is_told_at_once(session: Session) -> None:
    assert session.losing(PermissionDenied("no")).detail["kept"] == "notes"
    assert session.now == 0


def test_of_a_cleared_run_nothing_is_kept(session: Session) -> None:
    """Invariant 15. The error carries the response all the same."""
    error = session.losing(RunClosed("cleared", reason="RUN_CLEARED"))
    assert (error.detail["kept"], error.detail["response"]) == ("nowhere", json.loads(ANSWER))
    assert session.notes.get(KIND, "call/1") is None


@pytest.mark.parametrize("failure", [IdempotencyConflict("settled"), NotFound("gone")])
def test_what_the_journal_refuses_is_kept(session: Session, failure: ContextError) -> None:
    error = session.losing(failure)
    assert (error.reason, error.detail["kept"]) == (failure.reason, "notes")
    assert error.detail["response"] == json.loads(ANSWER)
    assert session.notes.get(KIND, "call/1") is not None


@pytest.mark.parametrize("later", [False, True], ids=["the same session", "a later one"])
def test_a_call_whose_response_is_kept_is_not_made_again_because_somebody_said_so(
    session: Session, tmp_path: Path, later: bool
) -> None:
    """Invariant 10: elsewhere it was taken for not executed, and here is the proof that it was."""
    session.losing(DOWN)
    session.inner.failures = ()
    session.inner.fail(session.found(), evidence="nothing in the provider's log")
    asked = Session(tmp_path) if later else session
    for act in (asked.begin, lambda: asked.journal.reconcile("call", response=None, evidence="e")):
        with pytest.raises(IdempotencyConflict, match="retry") as kept:
            act()
        assert kept.value.detail["response"] == json.loads(ANSWER)
    assert asked.journal.newest("call") == session.inner.newest("call")
    assert asked.begin(retry="pay-again").attempt == 2
    assert session.notes.get(KIND, "call/1") is None
    note = session.notes.get(ASIDE, "call/1")
    assert note is not None
    assert note.endswith(ANSWER)
    asked.database.close()


def test_what_has_another_response_is_replayed_with_it(session: Session) -> None:
    session.losing(DOWN)
    session.inner.failures = ()
    session.inner.respond(session.found(), b"{}", usable=True)
    assert session.begin().response == b"{}"
    assert session.notes.get(KIND, "call/1") is not None


def test_a_session_that_is_opened_offers_what_is_kept(session: Session, tmp_path: Path) -> None:
    session.losing(DOWN)
    scope = SessionScope(job_id="job", run_id="run", principal="alice", roles=ROLES)
    opened = open_journal(
        tmp_path, scope, None, state=None, clearing=Clearing(tmp_path, scope), patience=lambda seconds: seconds
    )
    assert session.found().state is State.RESPONDED
    opened.close()


def test_the_next_call_of_any_name_offers_it(session: Session) -> None:
    session.losing(DOWN)
    session.inner.failures = (DOWN, None)
    for state in (State.DISPATCHED, State.RESPONDED):
        assert session.begin("another").state is State.PREPARED
        assert session.found().state is state
    assert session.notes.get(KIND, "call/1") is None


def test_an_engine_that_is_away_is_asked_once_for_all_that_is_kept(session: Session) -> None:
    for name in ("call", "second", "third"):
        session.losing(DOWN, name=name)
    session.inner.offered = 0
    session.journal.offer_all()
    assert session.inner.offered == 1


def test_what_is_refused_does_not_keep_others_from_being_offered(session: Session) -> None:
    names = [f"a{number}" for number in range(OFFERED_AT_ONCE_MAX)]
    for name in (*names, "z"):
        session.losing(DOWN, name=name)
    session.inner.failures = ()
    for name in names:
        session.inner.fail(session.found(name), evidence="e")
    for _ in range(2):
        session.journal.offer_all()
    assert session.found("z").state is State.RESPONDED
    session.inner.offered = 0
    session.journal.offer_all()
    assert session.inner.offered == 0


def test_reconciling_with_the_response_that_was_kept_settles_it(session: Session) -> None:
    session.losing(DOWN)
    session.inner.failures = ()
    assert session.journal.reconcile("call", response=ANSWER, evidence="e").response == ANSWER


def test_reconciling_a_call_that_is_in_flight_is_refused_as_ever(session: Session) -> None:
    session.dispatched()
    with pytest.raises(InvocationInFlight):
        session.journal.reconcile("call", response=ANSWER, evidence="e")
