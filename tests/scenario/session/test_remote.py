"""The same session over gRPC: the record and the journal are the engine's, behind MN_CONTEXT_ADDR."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mn_contract.errors import AmbiguousInvocation, DependencyUnavailable, InvalidInput, NeedsPartition
from mn_contract.invocations import State
from mn_engine.bootstrap import engine_over
from mn_engine.faces.gate import Gate
from mn_engine.faces.grpc import GrpcServer
from mn_engine.store.memory import MemoryStore
from mn_sdk.context_session import ContextSession, provider
from tests.scenario.session.upstream import Upstream

litellm = provider.load()
MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": json.dumps({"goal": "g"})}]
Opener = Callable[..., ContextSession]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    engine = engine_over(MemoryStore())
    server = GrpcServer("127.0.0.1:0", Gate())
    server.start()
    server.serve(engine)
    address = f"127.0.0.1:{server.port}"
    monkeypatch.setenv("MN_CONTEXT_ADDR", address)
    yield address
    server.stop(5)
    engine.close()


@pytest.mark.usefixtures("served")
def test_a_call_is_recorded_journaled_and_replayed_by_the_engine(
    open_session: Opener, upstream: Upstream, tmp_path: Path
) -> None:
    session = open_session()
    session.observe("\n".join(f"line {n} about brackets" for n in range(2000)), event_id="long")
    with session.turn("d", focus="brackets") as turn:
        litellm.completion(messages=MESSAGES, **upstream.arguments)
    assert turn.report is not None
    assert turn.report.items
    assert upstream.said()["recalled"]["records"]
    elsewhere = open_session(root=tmp_path / "another machine")
    assert elsewhere.has_durable_response("d")
    assert elsewhere.complete("d", messages=MESSAGES, focus="brackets", **upstream.arguments).choices
    assert len(upstream.requests) == 1
    newest = elsewhere.journal.invocations.newest("d")
    assert newest is not None
    assert newest.state is State.COMPLETED


@pytest.mark.usefixtures("served")
def test_an_unknown_outcome_is_settled_from_another_session(
    open_session: Opener, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.status = 500
    with pytest.raises(AmbiguousInvocation):
        open_session().complete("d", messages=MESSAGES, **upstream.arguments)
    other = open_session(root=tmp_path / "other")
    with pytest.raises(AmbiguousInvocation):
        other.complete("d", messages=MESSAGES, **upstream.arguments)
    other.reconcile("d", response="found", evidence="log")
    assert other.complete("d", messages=MESSAGES, **upstream.arguments).choices[0].message.content == "found"
    assert len(upstream.requests) == 1


@pytest.mark.usefixtures("served")
def test_every_item_that_does_not_fit_is_named_over_the_wire(open_session: Opener, upstream: Upstream) -> None:
    """Invariant 2: the detail of NeedsPartition is larger than trailers are by default, and comes whole."""
    session = open_session()
    for n in range(300):
        session.observe(f"duty {n} " + "x" * 200, event_id=f"a-duty-with-a-long-name-{n:04d}", obligation=True)
    with pytest.raises(NeedsPartition) as split:
        session.complete("d", messages=MESSAGES, **upstream.arguments)
    assert len(split.value.detail["items"]) == 300
    assert "cut" not in split.value.detail


@pytest.mark.usefixtures("served")
def test_a_session_that_is_closed_says_so(open_session: Opener) -> None:
    session = open_session()
    session.close()
    session.close()
    with pytest.raises(DependencyUnavailable):
        session.observe("x", event_id="x")


def test_an_engine_that_is_named_and_cannot_be_reached_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Invariant 13: nothing else is probed, nothing is made up under the root."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MN_CONTEXT_ADDR", f"127.0.0.1:{unused.getsockname()[1]}")
    with pytest.raises(DependencyUnavailable):
        ContextSession(tmp_path / "run", job_id="j", run_id="r", principal="p")
    assert not (tmp_path / "run").exists()


def test_an_address_without_a_port_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MN_CONTEXT_ADDR", "localhost")
    with pytest.raises(InvalidInput):
        ContextSession(tmp_path, job_id="j", run_id="r", principal="p")
