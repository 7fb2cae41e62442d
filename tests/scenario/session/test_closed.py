"""Runs that were cancelled or cleared, embedded and over gRPC: no call is made, nothing of a cleared one is left."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mn.context.working.v1 import run_pb2
from mn_contract.errors import RunClosed
from mn_engine.bootstrap import RECORD_NAME, open_engine
from mn_engine.faces.gate import Gate
from mn_engine.faces.grpc import GrpcServer
from mn_sdk.context_session import AsyncContextSession, ContextSession
from tests.scenario.session.upstream import Upstream, completion

Opener = Callable[..., ContextSession]
MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": json.dumps({"goal": "SECRET goal"})}]


@pytest.fixture(params=["embedded", "grpc"])
def served(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The record that the sessions write to, in this process."""
    if request.param == "embedded":
        yield tmp_path / "run" / RECORD_NAME
        return
    record = tmp_path / "server" / "record.duckdb"
    engine = open_engine(record)
    server = GrpcServer("127.0.0.1:0", Gate())
    server.start()
    server.serve(engine)
    monkeypatch.setenv("MN_CONTEXT_ADDR", f"127.0.0.1:{server.port}")
    yield record
    server.stop(5)
    engine.close()


def used(session: ContextSession, upstream: Upstream) -> None:
    """A session with something of every kind in it."""
    upstream.body = completion("SECRET answer")
    for number in range(15):
        session.observe(f"SECRET brackets {number}", event_id=f"SECRET-{number}", topics=["brackets"])
    session.complete("SECRET-turn", messages=MESSAGES, focus="brackets", **upstream.arguments)
    session.memory_action("recall_memory", {"query": "brackets", "limit": 3})
    session.journal.cursor("SECRET-cursor", 7)


def test_a_session_that_clears_its_run_leaves_nothing_after_compacting(
    served: Path, open_session: Opener, upstream: Upstream, tmp_path: Path
) -> None:
    """Invariant 15."""
    session, other = open_session(), open_session("bob")
    used(session, upstream)
    used(other, upstream)
    assert session.clear("asked to").removal
    assert session.clear("again") == other.clear("again")
    for session_ in (session, other):
        for act in (
            lambda s=session_: s.has_durable_response("SECRET-turn"),
            lambda s=session_: s.receipt("SECRET-turn"),
            lambda s=session_: s.complete("SECRET-turn", messages=MESSAGES, focus="brackets", **upstream.arguments),
            lambda s=session_: s.journal.invocations.newest("SECRET-turn"),
            lambda s=session_: s.reconcile("SECRET-turn", response="SECRET", evidence="e"),
            lambda s=session_: s.journal.cursor("SECRET-cursor"),
            lambda s=session_: s.journal.cursor("SECRET-cursor", 8),
            lambda s=session_: s.memory_action("recall_memory", {"query": "brackets", "limit": 3, "cursor": 1}),
        ):
            with pytest.raises(RunClosed) as closed:
                act()
            assert closed.value.reason == "RUN_CLEARED"
    assert len(upstream.requests) == 2
    session.close()
    other.close()
    if served.parent == tmp_path / "run":
        command = [Path(sys.executable).with_name("mn-context-engine"), "compact", "--store", served]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    files = [file for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert [file for file in files if b"SECRET" in file.read_bytes()] == []


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("learns", ["from an answer", "from opening"])
def test_a_session_that_learns_of_a_clear_erases_what_its_root_has_of_the_run(
    open_session: Opener, upstream: Upstream, tmp_path: Path, learns: str
) -> None:
    root = tmp_path / "run"
    session = open_session()
    used(session, upstream)
    open_session("operator")._client.call("ClearRun", run_pb2.ClearRunRequest(reason="asked to"))
    if learns == "from an answer":
        with pytest.raises(RunClosed):
            session.observe("x", event_id="x")
        with pytest.raises(RunClosed):
            session.journal.cursor("SECRET-cursor")
    else:
        session.close()
        with pytest.raises(RunClosed):
            open_session()
    assert not [file for file in root.glob("journal*") if b"SECRET" in file.read_bytes()]


@pytest.mark.usefixtures("served")
def test_a_cancelled_run_makes_no_new_call_and_replays_what_was_paid_for(
    open_session: Opener, upstream: Upstream
) -> None:
    """Invariant 10: whoever cancelled it, and in whichever session."""
    session = open_session()
    session.complete("before", messages=MESSAGES, **upstream.arguments)
    open_session("bob")._client.call("CancelRun", run_pb2.CancelRunRequest(reason="enough"))
    for asked in (session, open_session()):
        with pytest.raises(RunClosed) as closed:
            asked.complete("after", messages=MESSAGES, **upstream.arguments)
        assert closed.value.reason == "RUN_CANCELLED"
        assert asked.complete("before", messages=MESSAGES, **upstream.arguments).choices
    assert len(upstream.requests) == 1


def test_a_run_that_is_cancelled_while_a_call_is_out_takes_its_answer(
    served: Path, open_session: Opener, upstream: Upstream
) -> None:
    session = open_session()
    upstream.hold = lambda: session._client.call("CancelRun", run_pb2.CancelRunRequest(reason="enough"))
    assert session.complete("d", messages=MESSAGES, **upstream.arguments).choices
    assert session.has_durable_response("d")


@pytest.mark.usefixtures("served")
def test_a_run_that_is_cleared_while_a_call_is_out_keeps_nothing_of_it(
    open_session: Opener, upstream: Upstream, tmp_path: Path
) -> None:
    root = tmp_path / "run"
    session = open_session()
    upstream.body = completion("SECRET answer")
    upstream.hold = lambda: session.clear("asked to")
    with pytest.raises(RunClosed) as closed:
        session.complete("d", messages=MESSAGES, **upstream.arguments)
    assert closed.value.detail["kept"] == "nowhere"
    assert closed.value.detail["response"]["choices"][0]["message"]["content"] == "SECRET answer"
    session.close()
    assert not [file for file in root.glob("journal*") if b"SECRET" in file.read_bytes()]


async def test_an_asynchronous_session_clears_as_well(tmp_path: Path) -> None:
    async with await AsyncContextSession.open(tmp_path / "run", job_id="j", run_id="r", principal="p") as session:
        assert (await session.clear("asked to")).removal
        with pytest.raises(RunClosed):
            await session.has_durable_response("d")
