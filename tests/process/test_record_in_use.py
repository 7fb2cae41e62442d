"""One process holds a record: others are told who does, and forked children keep their hands off."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from mn_contract.errors import DependencyUnavailable, RecordInUse
from mn_engine.store.duckdb import DuckDBStore
from mn_engine.store.lock import process_started
from tests.storing import KEY, everything, observe, open_run

WAIT_SECONDS = 60
ROOT = Path(__file__).resolve().parents[2]

HOLDER = """
import sys, time
from pathlib import Path
from mn_engine.store.duckdb import DuckDBStore
from tests.storing import observe, open_run
store = DuckDBStore(Path(sys.argv[1]), free_bytes_floor=0)
open_run(store)
observe(store, "held")
print("open", flush=True)
sys.stdin.readline()
"""

FORKING = """
import gc, json, os, sys
from pathlib import Path
from mn_contract.errors import RecordInUse
from mn_engine.store.duckdb import DuckDBStore
from tests.storing import KEY, everything, observe, open_run

path = Path(sys.argv[1])
store = DuckDBStore(path, free_bytes_floor=0)
open_run(store)
observe(store, "before")
store.index_columns(KEY, after=0, upto=1)

def refused(call):
    try:
        call()
    except RecordInUse as error:
        return error.detail["holder"]["pid"] == os.getppid()
    return False

receive, send = os.pipe()
child = os.fork()
if not child:
    told = {
        "commit": refused(lambda: observe(store, "child")),
        "run": refused(lambda: store.run(KEY)),
        "read": refused(lambda: store.index_columns(KEY, after=0, upto=1)),
        "cards": refused(lambda: store.cards(KEY, [1 << 20], revision=1)),
        "cancel": refused(lambda: store.cancel_run(KEY, reason="")),
        "upload": refused(lambda: store.upload(KEY)),
        "compact": refused(store.compact),
        "close": refused(store.close),
    }
    other = DuckDBStore(path.with_name("other.duckdb"), free_bytes_floor=0)
    open_run(other)
    told["a record of its own"] = observe(other, "a") == 1
    other.close()
    os.write(send, json.dumps(told).encode())
    database = store._database  # whatever still refers to the connections lets go of them: destructors would run
    database._made.clear(), database._idle.clear()
    database._root = database._writer = None
    del store, database
    gc.collect()
    sys.exit(0)  # the interpreter is taken down whole, destructors and all
os.close(send)
told = b""
while more := os.read(receive, 65536):
    told += more
status = os.waitpid(child, 0)[1]
for number in range(20):
    observe(store, f"after-{number}")
print(json.dumps({"told": json.loads(told), "status": status, "revision": store.run(KEY).revision}), flush=True)
os._exit(0)  # without closing: what the child did to the log behind our back would show
"""

OUTLIVED = """
import os, sys, time
from pathlib import Path
from mn_engine.store.duckdb import DuckDBStore
store = DuckDBStore(Path(sys.argv[1]), free_bytes_floor=0)
if not os.fork():
    os.close(1)
    sys.stdin.readline()
    os._exit(0)
print("forked", flush=True)
os._exit(0)
"""


FORKED_SESSION = """
import gc, os, sys
from pathlib import Path
from mn_sdk.context_session import ContextSession

root = Path(sys.argv[1])
session = ContextSession(root, job_id="j", run_id="r", principal="p")
session.observe("a", event_id="a")
session.journal.cursor("c", 1)
files = lambda: {file.name: (file.stat().st_size, file.stat().st_mtime_ns) for file in root.rglob("*")}
before = files()
child = os.fork()
if not child:
    session.close()
    session.close()
    del session
    gc.collect()
    os._exit(0 if files() == before else 1)
assert os.waitpid(child, 0)[1] == 0
session.observe("b", event_id="b")
session.journal.cursor("c", 2)
session.close()
session = ContextSession(root, job_id="j", run_id="r", principal="p")
print(session.journal.cursor("c"), session.memory_action("recall_memory", {"query": "b"})["revision"])
"""


def started(script: str, path: Path) -> subprocess.Popen[str]:
    """A process that runs a script with our modules at hand."""
    return subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the record lies."""
    return tmp_path / "record.duckdb"


def test_a_second_process_is_told_who_holds_the_record(path: Path) -> None:
    with started(HOLDER, path) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(RecordInUse) as refused:
            DuckDBStore(path, free_bytes_floor=0)
        named = refused.value.detail["holder"]
        assert named["pid"] == holder.pid
        assert named["host"]
        assert named["started"] == process_started(holder.pid)
        assert str(holder.pid) in refused.value.message
        holder.send_signal(signal.SIGKILL)
        holder.wait(WAIT_SECONDS)
    reopened = DuckDBStore(path, free_bytes_floor=0)
    assert reopened.run(KEY).revision == 1, "a holder that was killed leaves the record free, and whole"
    reopened.close()


def test_one_process_opens_a_record_once(path: Path) -> None:
    store = DuckDBStore(path, free_bytes_floor=0)
    with pytest.raises(RecordInUse) as refused:
        DuckDBStore(path, free_bytes_floor=0)
    assert refused.value.detail["holder"]["pid"] == os.getpid()
    open_run(store)
    observe(store, "a")
    store.close()
    DuckDBStore(path, free_bytes_floor=0).close()


def test_a_forked_child_can_neither_write_nor_read_and_leaves_the_record_whole(path: Path) -> None:
    forking = started(FORKING, path)
    told, _ = forking.communicate(timeout=WAIT_SECONDS)
    report = json.loads(told)
    assert all(report["told"].values()), report
    assert report["status"] == 0
    assert report["revision"] == 21
    assert forking.returncode == 0
    reopened = DuckDBStore(path, free_bytes_floor=0)
    assert everything(reopened)["head"].revision == 21
    reopened.close()


def test_a_forked_child_closes_its_copy_of_a_session_without_touching_a_file(path: Path) -> None:
    told, _ = started(FORKED_SESSION, path).communicate(timeout=WAIT_SECONDS)
    assert told == "2 2\n"


def test_a_child_that_outlives_its_parent_does_not_keep_the_record_locked(path: Path) -> None:
    with started(OUTLIVED, path) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "forked\n"
        parent.wait(WAIT_SECONDS)
        reopened = DuckDBStore(path, free_bytes_floor=0)  # while the child still waits for its input
        open_run(reopened)
        assert observe(reopened, "a") == 1
        reopened.close()


def test_a_folder_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DependencyUnavailable):
        DuckDBStore(tmp_path / "file" / "record.duckdb")


@pytest.mark.parametrize("content", [b"something else entirely" * 1000, b"a name\n", b""])
def test_a_file_that_is_no_record_is_a_typed_error_and_stays_as_it_is_and_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(DependencyUnavailable):
        DuckDBStore(path)
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_a_device_is_no_record_and_nothing_is_left_beside_it(path: Path) -> None:
    path.symlink_to("/dev/null")
    beside = set(Path("/dev").iterdir())
    with pytest.raises(DependencyUnavailable):
        DuckDBStore(path)
    assert set(Path("/dev").iterdir()) == beside


def test_a_lock_that_was_taken_back_meanwhile_is_taken_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else two processes would hold two files of one name."""
    flock = fcntl.flock

    def taken_back(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        flock(descriptor, operation)
        path.with_name(path.name + ".lock").unlink()

    monkeypatch.setattr(fcntl, "flock", taken_back)
    store = DuckDBStore(path, free_bytes_floor=0)
    with pytest.raises(RecordInUse):
        DuckDBStore(path, free_bytes_floor=0)
    store.close()


def test_a_file_that_may_not_be_read_is_said_to_be_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise duckdb.IOException(f'IO Error: Cannot open file "{path}": Permission denied')

    DuckDBStore(path).close()
    monkeypatch.setattr(duckdb, "connect", refused)
    with pytest.raises(DependencyUnavailable, match="may not be read"):
        DuckDBStore(path)
