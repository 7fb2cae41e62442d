"""The journal's file and the identity of its holders."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from mn.context.working.v1 import run_pb2
from mn_contract.errors import DependencyUnavailable, RunClosed, SourceMismatch
from mn_sdk.context_session.journal import holder, log
from mn_sdk.context_session.journal.database import FILE_NAME, MIGRATIONS, TABLES, Database
from mn_sdk.context_session.journal.notes import Notes
from mn_sdk.context_session.journal.rows import Clearing, Rows
from mn_sdk.context_session.journal.sqlite import SqliteInvocations
from mn_sdk.scope import SessionScope

SCOPE = SessionScope(job_id="job", run_id="run", principal="alice")


def rows_of(database: Database) -> Rows:
    return Rows(database, SCOPE, clearing=Clearing(Path(), SCOPE), state=None)


def invocations(database: Database) -> SqliteInvocations:
    return SqliteInvocations(rows_of(database), now_ms=lambda: 0)


def answered(database: Database) -> SqliteInvocations:
    journal = invocations(database)
    attempt = journal.begin("call", fingerprint="1" * 64, lease_ms=1000)
    journal.respond(journal.dispatch(attempt, request_sha256="2" * 64, calls_max=None), b"answer", usable=True)
    return journal


def test_every_commit_is_synchronous_and_logged_ahead(tmp_path: Path) -> None:
    """Invariant 10: DISPATCHED is durable before bytes leave; SQLite's default would lose it with the power."""
    database = Database(tmp_path)
    with database.read() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    database.close()


def test_a_new_journal_is_found_after_a_power_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its names, in its folder and of its folder, are durable before anything rests on it."""
    synced: list[str] = []
    fsync = os.fsync

    def syncing(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", syncing)
    Database(tmp_path / "new").close()
    assert {str(tmp_path / "new"), str(tmp_path)} <= set(synced)


def test_a_fork_does_not_use_the_connection_that_it_inherits(tmp_path: Path) -> None:
    """SQLite's locks are a process's own: two that use one connection do not exclude each other."""
    database = Database(tmp_path)
    with database.read() as inherited:
        connection = inherited
    pid = os.fork()
    if not pid:
        status = 1
        try:
            with database.read() as own:
                status = int(own is connection)
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    database.close()


def test_a_transaction_that_fails_writes_nothing(tmp_path: Path) -> None:
    database = Database(tmp_path)
    insert = "INSERT INTO notes VALUES ('j', 'r', 'p', 'k', 'n', x'00', '')"
    with pytest.raises(DependencyUnavailable), database.write() as connection:
        connection.execute(f"{insert}; and more")
    with pytest.raises(ZeroDivisionError), database.write() as connection:
        assert connection.execute(insert).rowcount / 0
    with database.read() as connection:
        assert connection.execute("SELECT count(*) FROM notes").fetchone() == (0,)
    database.close()


@pytest.mark.parametrize(
    "change",
    ["response = x'00'", "state = 'failed_definite'", "state = 'x'", "retry = 'r'", "name = 'other'", "epoch = 7"],
)
def test_a_call_that_was_tampered_with_is_refused(tmp_path: Path, change: str) -> None:
    """One that looks free would be made again."""
    database = Database(tmp_path)
    journal = answered(database)
    with database.write() as connection:
        connection.execute(f"UPDATE attempts SET {change}")
    with pytest.raises(SourceMismatch):
        journal.newest("other" if "other" in change else "call")
    database.close()


def test_a_note_that_was_tampered_with_is_refused(tmp_path: Path) -> None:
    database = Database(tmp_path)
    notes = Notes(rows_of(database))
    notes.set_cursor("c", 1)
    with database.write() as connection:
        connection.execute("UPDATE notes SET value = x'32'")
    with pytest.raises(SourceMismatch):
        notes.cursor("c")
    database.close()


def test_a_file_whose_structure_is_damaged_is_refused(tmp_path: Path) -> None:
    """SQLite itself would not look: of what an index does not name, it finds nothing."""
    database = Database(tmp_path)
    answered(database)
    database.close()
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    connection.execute("PRAGMA writable_schema=ON")
    connection.execute("DELETE FROM sqlite_schema WHERE name = 'attempts_key'")
    connection.execute("PRAGMA writable_schema=OFF")
    connection.commit()
    connection.close()
    with pytest.raises(DependencyUnavailable) as refused:
        Database(tmp_path)
    assert "damaged" in refused.value.message


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a database, not at all " * 100)
    with pytest.raises(DependencyUnavailable) as refused:
        Database(tmp_path)
    assert "damaged" in refused.value.message


def killed(root: Path, *, merged: bool = False) -> Path:
    """The log of a journal whose process was killed after a call was answered; `merged` into the file, if so told."""
    code = (
        "import os, sys; from pathlib import Path\n"
        "from mn_sdk.context_session.journal.database import Database\n"
        "from tests.unit.sdk.test_journal import answered\n"
        "database = Database(Path(sys.argv[1])); answered(database)\n"
        "with database.read() as connection:\n"
        "    len(sys.argv) < 3 or connection.execute('PRAGMA wal_checkpoint(FULL)').fetchall()\n"
        "os._exit(0)"
    )
    words = [sys.executable, "-c", code, str(root), *(["merged"] if merged else [])]
    subprocess.run(words, check=True, cwd=Path(__file__).parents[3])
    return root / f"{FILE_NAME}-wal"


def _cut(size: Callable[[int], int]) -> Callable[[Path], None]:
    return lambda file: os.truncate(file, size(file.stat().st_size))


def _zeroed(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def _flipped(place: int) -> Callable[[Path], None]:
    def flip(file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[place] ^= 1
        file.write_bytes(data)

    return flip


LOST = {"gone": Path.unlink, "emptied": _cut(lambda _: 0), "short": _cut(lambda _: 20), "zeroed": _zeroed}
DAMAGED = {"half": _cut(lambda size: size // 2), "its last byte": _cut(lambda size: size - 1)}
FLIPPED = {f"byte {place}": _flipped(place) for place in (3, 20, 40, 100, -1)}


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("damage", ({**LOST, **DAMAGED, **FLIPPED}).values(), ids=[*LOST, *DAMAGED, *FLIPPED])
def test_a_log_that_is_damaged_is_refused_for_good(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """SQLite would take the damage for a cut that power made, drop the calls, and have them made again."""
    damage(killed(tmp_path))
    left = contents(tmp_path)
    for _ in range(2):
        with pytest.raises(DependencyUnavailable, match="wal is damaged"):
            Database(tmp_path)
    assert contents(tmp_path) == left


@pytest.mark.parametrize("damage", LOST.values(), ids=LOST)
def test_a_log_that_the_file_has_all_of_is_not_needed(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    damage(killed(tmp_path, merged=True))
    database = Database(tmp_path)
    newest = invocations(database).newest("call")
    assert newest is not None
    assert newest.response == b"answer"
    database.close()


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_a_log_that_ends_early_is_refused_also_where_the_file_has_all_of_it(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """SQLite reads a log before its file, so that what stands there would be older."""
    damage(killed(tmp_path, merged=True))
    with pytest.raises(DependencyUnavailable, match="wal is damaged"):
        Database(tmp_path)


def test_a_log_that_another_process_works_on_is_not_taken_for_damaged(tmp_path: Path) -> None:
    """Between two looks at them the log may begin anew; then its index says something else."""
    left = killed(tmp_path)
    index = log._read_index(tmp_path / FILE_NAME)
    left.unlink()
    with patch.object(log, "_read_index", side_effect=[index, None]):
        log.check_log(tmp_path / FILE_NAME)
    with patch.object(log, "_read_index", side_effect=[index, index]), pytest.raises(DependencyUnavailable):
        log.check_log(tmp_path / FILE_NAME)


def test_a_log_of_another_generation_than_its_index_is_read(tmp_path: Path) -> None:
    """The index is not synced: after a power loss it may be one of an earlier log."""
    left = killed(tmp_path)
    index = (tmp_path / f"{FILE_NAME}-shm").read_bytes()
    database = Database(tmp_path)
    with database.read() as connection:
        connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    Notes(rows_of(database)).set_cursor("c", 1)
    newer = left.read_bytes()
    database.close()
    left.write_bytes(newer)
    (tmp_path / f"{FILE_NAME}-shm").write_bytes(index)
    database = Database(tmp_path)
    assert Notes(rows_of(database)).cursor("c") == 1
    database.close()


def test_a_young_journal_has_its_tables_in_its_file(tmp_path: Path) -> None:
    """Else its mark would stand beside a file whose loss nobody sees."""
    database = Database(tmp_path / "run")
    (tmp_path / FILE_NAME).write_bytes((tmp_path / "run" / FILE_NAME).read_bytes())
    database.close()
    alone = sqlite3.connect(tmp_path / FILE_NAME)
    tables = alone.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    alone.close()
    assert {name for (name,) in tables} == set(TABLES)


def test_an_erased_log_is_not_left_empty(tmp_path: Path) -> None:
    """With an index that a power loss has kept from before, it would be taken for one that was damaged."""
    database = Database(tmp_path)
    answered(database)
    database.erase("job", "run")
    assert (tmp_path / f"{FILE_NAME}-wal").stat().st_size
    database.close()


def test_a_log_that_power_cut_off_in_the_middle_of_a_commit_is_read(tmp_path: Path) -> None:
    """What was not committed is not told of by the log's index."""
    left = killed(tmp_path)
    head, frame = 32, 24 + 4096
    data = left.read_bytes()
    left.write_bytes(data + data[head : head + frame] + data[head + frame : head + frame + 500])
    database = Database(tmp_path)
    newest = invocations(database).newest("call")
    assert newest is not None
    assert newest.response == b"answer"
    database.close()


@pytest.mark.parametrize("name", ["run", "linked"])
def test_a_log_is_not_touched_where_this_process_has_the_file_open(tmp_path: Path, name: str) -> None:
    """Closing any descriptor of a file ends the locks that SQLite holds on it in this process, by whatever name."""
    first = Database(tmp_path / "run")
    (tmp_path / "linked").symlink_to(tmp_path / "run")
    answered(first)
    with patch.object(log, "_read_index", side_effect=AssertionError):
        second = Database(tmp_path / name)
    second.close()
    first.close()
    Database(tmp_path / "run").close()


@pytest.mark.parametrize("emptied", [False, True])
def test_a_journal_that_is_gone_is_refused(tmp_path: Path, emptied: bool) -> None:
    database = Database(tmp_path)
    answered(database)
    database.close()
    (tmp_path / FILE_NAME).unlink()
    if emptied:
        (tmp_path / FILE_NAME).touch()
    with pytest.raises(DependencyUnavailable, match="gone or empty"):
        Database(tmp_path)


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    Database(tmp_path).close()
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    connection.execute(f"PRAGMA user_version={len(MIGRATIONS) + 1}")
    connection.close()
    with pytest.raises(DependencyUnavailable) as refused:
        Database(tmp_path)
    assert "newer" in refused.value.message


def test_a_root_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DependencyUnavailable):
        Database(tmp_path / "file")


def test_a_closed_journal_says_so(tmp_path: Path) -> None:
    database = Database(tmp_path)
    database.close()
    database.close()
    with pytest.raises(DependencyUnavailable):
        Notes(rows_of(database)).get("cursor", "c")


def test_processes_share_a_journal(tmp_path: Path) -> None:
    database = Database(tmp_path)
    Notes(rows_of(database)).set_cursor("c", 1)
    code = (
        "import sys; from pathlib import Path\n"
        "from mn_sdk.context_session.journal.database import Database\n"
        "from mn_sdk.context_session.journal.notes import Notes\n"
        "from mn_sdk.context_session.journal.rows import Clearing, Rows\n"
        "from mn_sdk.scope import SessionScope\n"
        "scope, root = SessionScope(job_id='job', run_id='run', principal='alice'), Path(sys.argv[1])\n"
        "notes = Notes(Rows(Database(root), scope, clearing=Clearing(root, scope), state=None))\n"
        "notes.set_cursor('c', notes.cursor('c') + 1)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)
    assert Notes(rows_of(database)).cursor("c") == 2
    database.close()


def test_erasing_a_run_leaves_no_byte_of_it_and_all_of_the_others(tmp_path: Path) -> None:
    """Invariant 15. Rows of all sizes, replaced and removed in between, leave copies all over the file."""
    database = Database(tmp_path)
    draw = Random(1)
    with database.write() as connection:
        for _ in range(1500):
            run, kind = draw.choice([("gone", b"SECRET"), ("other", b"public")])
            row = ("job", run, draw.choice(["alice", "bob"]), "report", f"{kind.decode()}-{draw.randrange(300)}")
            if draw.random() < 0.15:
                connection.execute("DELETE FROM notes WHERE name = ?", row[4:])
            else:
                connection.execute(
                    "INSERT OR REPLACE INTO notes VALUES (?, ?, ?, ?, ?, ?, '')",
                    (*row, kind * draw.choice([1, 5, 50, 300, 3000])),
                )
        (others,) = connection.execute("SELECT count(*) FROM notes WHERE run_id = 'other'").fetchone()
    reader = Database(tmp_path)
    with reader.read() as connection:
        connection.execute("SELECT count(*) FROM notes").fetchone()
    for _ in range(2):
        database.erase("job", "gone")
        assert not [file.name for file in tmp_path.iterdir() if b"SECRET" in file.read_bytes()]
    with reader.read() as connection:
        assert connection.execute("SELECT count(*) FROM notes").fetchone() == (others,)
    database.close()
    reader.close()


def test_every_table_of_runs_is_erased(tmp_path: Path) -> None:
    database = Database(tmp_path)
    with database.read() as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    assert {name for (name,) in tables} == set(TABLES)
    database.close()


def test_what_cannot_be_erased_yet_is_said_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Database(tmp_path).close()
    clearing = Clearing(tmp_path, SCOPE)
    erased: list[str] = []

    def locked(*run: str) -> None:
        raise DependencyUnavailable("locked", dependency="journal")

    with monkeypatch.context() as patched:
        patched.setattr(Database, "erase", locked)
        error = RunClosed("cleared", reason="RUN_CLEARED", state="cleared")
        clearing.learn(error)
        assert "not erased yet: locked" in str(error.__notes__)
        with pytest.raises(DependencyUnavailable):
            clearing.erase()
    monkeypatch.setattr(Database, "erase", lambda self, *run: erased.extend(run))
    with pytest.raises(RunClosed) as closed:
        Rows(Database(tmp_path), SCOPE, clearing=clearing, state=None).check_open()
    clearing.learn(closed.value)
    clearing.learn(closed.value)
    assert erased == ["job", "run"]


def test_a_cancelled_run_erases_nothing(tmp_path: Path) -> None:
    database = Database(tmp_path)
    clearing = Clearing(tmp_path, SCOPE)
    rows = Rows(database, SCOPE, clearing=clearing, state=lambda: run_pb2.RUN_STATE_CANCELLED)
    Notes(rows).set_cursor("c", 1)
    with pytest.raises(RunClosed) as closed, rows.write():
        rows.check_open()
    clearing.learn(closed.value)
    assert Notes(rows).cursor("c") == 1
    database.close()


def test_a_forked_child_uses_a_connection_of_its_own(tmp_path: Path) -> None:
    database = Database(tmp_path)
    notes = Notes(rows_of(database))
    notes.set_cursor("c", 1)
    pid = os.fork()
    if not pid:
        notes.set_cursor("c", 2)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert notes.cursor("c") == 2
    notes.set_cursor("c", 3)
    database.close()


def test_a_process_that_ended_is_gone_and_this_one_is_not() -> None:
    code = "from mn_sdk.context_session.journal.holder import own_holder; print(own_holder())"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert holder.is_gone(ended.stdout.strip())
    assert not holder.is_gone(holder.own_holder())


def test_a_process_that_ended_is_gone_before_its_parent_has_asked_how(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of which only the first thread has ended is not."""
    code = "from mn_sdk.context_session.journal.holder import own_holder; print(own_holder(), flush=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert ended.stdout is not None
        named = ended.stdout.read().strip()
        assert holder.is_gone(named)
        read = holder._read
        monkeypatch.setattr(
            holder,
            "_read",
            lambda path: read(path) if path.name != "stat" else _with_threads(read(path), 2),
        )
        assert not holder.is_gone(named)


def _with_threads(stat: str, count: int) -> str:
    name, end, after = stat.rpartition(")")
    fields = after.split()
    fields[17] = str(count)
    return f"{name}{end} {' '.join(fields)}"


def test_a_process_id_that_was_given_out_again_is_another_holder() -> None:
    host, pid, _, thread = holder.own_holder().split("/")
    assert holder.is_gone(f"{host}/{pid}/1/{thread}")


def test_a_piece_of_work_is_gone_when_it_has_ended() -> None:
    with holder.work():
        first = holder.own_holder()
        with holder.work():
            assert holder.own_holder() != first
        assert holder.own_holder() == first
        assert not holder.is_gone(first)
    assert holder.is_gone(first)


@pytest.mark.parametrize("other", ["", "elsewhere/1/1/1", "w1", "a/b/c/d"])
def test_nothing_is_claimed_of_holders_on_other_machines(other: str) -> None:
    assert not holder.is_gone(other)


@pytest.mark.parametrize("mark", ["boot_id", "namespace", "name"])
def test_a_machine_that_was_started_again_is_another_one(monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    """So is another process table on it: there the same number is another process."""
    before = holder.own_holder()
    assert not holder.is_gone(before)
    if mark == "boot_id":
        read = holder._read
        monkeypatch.setattr(holder, "_read", lambda path: "another" if path.name == "boot_id" else read(path))
    elif mark == "namespace":
        monkeypatch.setattr(holder, "_namespace", lambda: "pid:[1]")
    else:
        monkeypatch.setattr(holder.platform, "node", lambda: "another")
    holder._host.cache_clear()
    try:
        assert holder.own_holder().split("/")[0] != before.split("/")[0]
    finally:
        holder._host.cache_clear()
