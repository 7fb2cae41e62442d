"""What a call is made for is told by the claim that dispatched it, whoever claimed it before."""

from __future__ import annotations

from pathlib import Path

from mn_sdk.context_session.journal.bindings import Bindings
from mn_sdk.context_session.journal.database import Database
from mn_sdk.context_session.journal.notes import Notes
from mn_sdk.context_session.journal.rows import Clearing, Rows
from mn_sdk.context_session.journal.sqlite import SqliteInvocations
from mn_sdk.scope import SessionScope

SCOPE = SessionScope(job_id="job", run_id="run", principal="alice")


def test_what_an_earlier_claim_was_made_for_says_nothing_of_the_call(tmp_path: Path) -> None:
    rows = Rows(Database(tmp_path), SCOPE, clearing=Clearing(tmp_path, SCOPE), state=None)
    journal = SqliteInvocations(rows, now_ms=lambda: 0)
    first, second = Bindings(Notes(rows)), Bindings(Notes(rows))
    first.bind("call", b"first")
    second.bind("call", b"second")
    earlier = journal.begin("call", fingerprint="1" * 64, lease_ms=1)
    claimed = journal.begin("call", fingerprint="2" * 64, lease_ms=1)
    second.keep(claimed)
    first.keep(earlier)  # a slow worker, which does not know that its claim was taken over
    journal.dispatch(claimed, request_sha256="3" * 64, calls_max=None)
    newest = journal.newest("call")
    assert newest is not None
    assert {first.of(newest), second.of(newest)} == {b"second"}
    assert second.of(journal.begin("another", fingerprint="1" * 64, lease_ms=1)) is None
    rows.close()
