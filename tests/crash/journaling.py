"""A burst of model calls in a session's journal, and what must be true of the journal whenever its power is cut.

Run as a program, it moves calls on by several threads until they have ended, and tells powerloss.c of each transition
that was acknowledged. `synchronous=OFF` as a last argument is the sabotage: SQLite then syncs nothing.
"""

from __future__ import annotations

import ctypes
import random
import sqlite3
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mn_contract.invocations import REPLAYABLE, Attempt, State
from mn_sdk.context_session.journal import Journal, database, open_journal
from mn_sdk.context_session.journal.rows import Clearing
from mn_sdk.scope import SessionScope

OFF: Final = "synchronous=OFF"
_SCOPE: Final = SessionScope(job_id="job", run_id="run", principal="alice")
_LEASE_MS: Final = 60_000
_ORDER: Final = (State.PREPARED, State.DISPATCHED, State.AMBIGUOUS, State.RESPONDED, State.RECONCILED, State.COMPLETED)
"""The states that these calls pass, a later one after an earlier one."""


def opened(root: Path) -> Journal:
    """The journal under `root`."""
    return open_journal(
        root, _SCOPE, None, state=None, clearing=Clearing(root, _SCOPE), patience=lambda seconds: seconds
    )


def response_of(name: str) -> bytes:
    """A call's response: the same whoever asks. Some span many pages of the file."""
    chance = random.Random(name)
    return f"answer to {name} ".encode() + chance.randbytes(chance.choice([10, 900, 30_000]))


def write(journal: Journal, thread: int, calls: int, told: Callable[[str], None]) -> None:
    """One thread's part of the burst: calls that are answered and written back, each third one late or reconciled."""
    invocations = journal.invocations
    for number in range(calls):
        name = f"{thread}-{number}"

        def tell(attempt: Attempt) -> Attempt:
            told(f"{attempt.name} {attempt.state.value}")
            return attempt

        attempt = tell(invocations.begin(name, fingerprint="1" * 64, lease_ms=_LEASE_MS))
        journal.notes.put("report", name, response_of(name))
        told(f"{name} report")
        attempt = tell(invocations.dispatch(attempt, request_sha256="2" * 64, calls_max=None))
        if number % 3:
            tell(invocations.lose(attempt, evidence="timeout"))
        if number % 3 == 2:
            tell(invocations.reconcile(name, response=response_of(name), evidence="the provider's log"))
        else:
            tell(invocations.complete(tell(invocations.respond(attempt, response_of(name), usable=True))))


def check(root: Path, told: list[str]) -> list[str]:
    """What is wrong with a journal of which these transitions were told: what was lost, and what is half there."""
    journal = opened(root)
    try:
        with journal.rows.read() as connection:
            (sound,) = connection.execute("PRAGMA integrity_check").fetchone()
            names = [name for (name,) in connection.execute("SELECT DISTINCT name FROM attempts")]
        wrong = [] if sound == "ok" else [f"not sound: {sound}"]
        for name in names:
            wrong += _state(journal, name, State.PREPARED)
        for line in told:
            name, what = line.split()
            wrong += _report(journal, name) if what == "report" else _state(journal, name, State(what))
        return wrong
    finally:
        journal.close()


def _report(journal: Journal, name: str) -> list[str]:
    return [] if journal.notes.get("report", name) == response_of(name) else [f"{name}: the report is lost or torn"]


def _state(journal: Journal, name: str, told: State) -> list[str]:
    """What is wrong with a call that was told to be so far."""
    newest = journal.invocations.newest(name)
    if newest is None or _ORDER.index(newest.state) < _ORDER.index(told):
        return [f"{name}: {told.value} is lost"]
    response = response_of(name) if newest.state in REPLAYABLE else None
    if newest.response != response or bool(newest.request_sha256) != (newest.state is not State.PREPARED):
        return [f"{name}: {newest.state.value} is half there"]
    return []


def run(root: Path, threads: int, calls: int, told: Callable[[str], None]) -> None:
    """The burst."""
    journal = opened(root)
    running = [threading.Thread(target=write, args=(journal, thread, calls, told)) for thread in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    journal.close()


def _sync_nothing() -> None:
    connect = database._connect

    def careless(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute("PRAGMA synchronous=OFF")
        return connection

    database._connect = careless


def _to_journal(text: str) -> None:
    ctypes.CDLL(None).powerloss_note(text.encode())


if __name__ == "__main__":
    if sys.argv[4:] == [OFF]:
        _sync_nothing()
    run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), _to_journal)
