"""The same session over gRPC: the record and the journal are the engine's, behind MN_CONTEXT_ADDR."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mn.context.working.v1 import card_pb2
from mn_contract.errors import (
    AmbiguousInvocation,
    ContextBudgetExceeded,
    DependencyUnavailable,
    InvalidInput,
    NeedsPartition,
)
from mn_contract.invocations import State
from mn_contract.limits import EVENT_CARDS_MAX, ID_BYTES_MAX
from mn_engine.bootstrap import engine_over
from mn_engine.faces.gate import Gate
from mn_engine.faces.grpc import GrpcServer
from mn_engine.store.memory import MemoryStore
from mn_sdk.client import runtime_client
from mn_sdk.context_session import ContextSession, provider
from mn_sdk.context_session.journal import keeping
from mn_sdk.transport.bounded import SETTLING_SECONDS
from tests.scenario.session.upstream import Upstream

litellm = provider.load()
MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": json.dumps({"goal": "g"})}]
Opener = Callable[..., ContextSession]


class Served:
    """An engine behind a server that can go away and come back at the same address."""

    def __init__(self) -> None:
        self._engine = engine_over(MemoryStore())
        self._server: GrpcServer | None = None
        self.address = "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        self._server = GrpcServer(self.address, Gate())
        self._server.start()
        self._server.serve(self._engine)
        self.address = f"127.0.0.1:{self._server.port}"

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(5)
            self._server = None

    def close(self) -> None:
        self.stop()
        self._engine.close()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    made = Served()
    monkeypatch.setenv("MN_CONTEXT_ADDR", made.address)
    yield made
    made.close()


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


def test_a_server_that_is_away_when_the_answer_comes_is_waited_for(
    served: Served, open_session: Opener, upstream: Upstream
) -> None:
    """Invariant 10: the response is paid for; it is journaled as soon as there is a journal again."""
    session = open_session()

    def restart() -> None:
        served.stop()
        threading.Timer(1.5, served.start).start()

    upstream.hold = restart
    assert session.complete("d", messages=MESSAGES, **upstream.arguments).choices[0].message.content == "yes"
    newest = session.journal.invocations.newest("d")
    assert newest is not None
    assert newest.state is State.COMPLETED
    assert len(upstream.requests) == 1


def test_a_response_that_outlives_its_server_is_kept_under_the_root_and_replayed(
    served: Served, open_session: Opener, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "PATIENCE_SECONDS", 0.5)
    session = open_session()
    upstream.hold = served.stop
    with pytest.raises(DependencyUnavailable) as lost:
        session.complete("d", messages=MESSAGES, **upstream.arguments)
    assert (lost.value.detail["kept"], lost.value.detail["name"]) == ("notes", "d")
    session.close()
    served.start()
    again = open_session()
    assert again.has_durable_response("d")
    assert again.complete("d", messages=MESSAGES, **upstream.arguments).choices[0].message.content == "yes"
    assert len(upstream.requests) == 1


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
def test_six_thousand_of_the_longest_names_come_whole(open_session: Opener, upstream: Upstream) -> None:
    """Invariant 2, up to the documented limit of an error's detail."""
    long = "x" * (ID_BYTES_MAX - 4)
    writer = open_session(long)
    for start in range(0, 6000, EVENT_CARDS_MAX):
        numbers = range(start, min(start + EVENT_CARDS_MAX, 6000))
        cards = [
            card_pb2.Card(id=f"{long}{n:04d}", text=f"rule {n}", kind=card_pb2.CARD_KIND_CONSTRAINT) for n in numbers
        ]
        writer._client.record([card_pb2.Event(key=f"e{start}", cards=cards)])
    with pytest.raises(NeedsPartition) as split:
        open_session().complete("d", messages=MESSAGES, **upstream.arguments)
    named = [item["id"] for item in split.value.detail["items"]]
    assert named == [f"{long}:{long}{n:04d}" for n in range(6000)]
    assert split.value.detail["plan"]["records"]["every_part"] == named
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


def test_an_engine_that_never_answers_is_waited_for_until_the_deadline(
    monkeypatch: pytest.MonkeyPatch, open_session: Opener
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("MN_CONTEXT_ADDR", f"127.0.0.1:{silent.getsockname()[1]}")
        begun = time.monotonic()
        with pytest.raises(ContextBudgetExceeded) as passed:
            open_session(deadline=time.time() + 1)
    assert passed.value.detail["budget"] == "deadline"
    assert time.monotonic() - begun < 5


def test_an_engine_that_stalls_ends_a_session_at_its_deadline_and_keeps_what_was_paid_for(
    served: Served, monkeypatch: pytest.MonkeyPatch, open_session: Opener, upstream: Upstream
) -> None:
    """Invariant 10: the answer came in time; the engine did not take it before the deadline."""
    stalled, going_on = threading.Event(), threading.Event()
    respond = MemoryStore.decide_invocation

    def stall(*args: Any) -> Any:
        if stalled.is_set():
            going_on.wait(30)
        return respond(*args)

    monkeypatch.setattr(MemoryStore, "decide_invocation", stall)
    deadline = time.time() + 2
    session = open_session(deadline=deadline)
    upstream.hold = stalled.set
    with pytest.raises(ContextBudgetExceeded) as passed:
        session.complete("d", messages=MESSAGES, **upstream.arguments)
    assert time.time() < deadline + SETTLING_SECONDS + 3
    assert (passed.value.detail["budget"], passed.value.detail["kept"]) == ("deadline", "notes")
    session.close()
    going_on.set()
    again = open_session()
    assert again.complete("d", messages=MESSAGES, **upstream.arguments).choices[0].message.content == "yes"
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("bad", ["localhost", "127.0.0.1:99999", "127.0.0.1:0", "127.0.0.1:5,", ",", " "])
def test_what_is_no_address_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bad: str) -> None:
    monkeypatch.setenv("MN_CONTEXT_ADDR", bad)
    with pytest.raises(InvalidInput, match="MN_CONTEXT_ADDR"):
        ContextSession(tmp_path / "run", job_id="j", run_id="r", principal="p")
    with pytest.raises(InvalidInput, match="address"):
        runtime_client("j", "r", "p", address=bad)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "listed",
    [
        "localhost:{}",
        "127.0.0.1:{0}, localhost:{0}",
        "[::1]:{away},127.0.0.1:{}",
        "no-such-host.invalid:1,127.0.0.1:{}",
    ],
)
def test_replicas_are_named_by_host_or_number_of_any_family(
    served: Served, monkeypatch: pytest.MonkeyPatch, open_session: Opener, listed: str
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port, away = served.address.rpartition(":")[2], unused.getsockname()[1]
        monkeypatch.setenv("MN_CONTEXT_ADDR", listed.format(port, away=away))
    assert open_session().observe("x", event_id="x") == ("x",)


def test_replicas_that_nobody_knows_are_unavailable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MN_CONTEXT_ADDR", "no-such-host.invalid:1,nor-this.invalid:2")
    with pytest.raises(DependencyUnavailable, match=r"no-such-host\.invalid:1"):
        ContextSession(tmp_path / "run", job_id="j", run_id="r", principal="p")
