"""Workers that are processes of their own, make one call or take over from a worker that died, and die where told.

Run as a program this is a nursery: it loads what takes long once, then forks a worker for each job of a line of its
input, and tells on its output, a JSON line a line, how each ended and what it told. `Nursery` is its other end.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mn_contract.errors import AmbiguousInvocation, ContextError, DependencyUnavailable
from mn_contract.invocations import Attempt, State
from tests.crash.session.points import POINTS, After, Death, Killed, Point, Recovery
from tests.crash.session.provider import ANSWERS, NO_RETRY

NAME = "d"
PRINCIPAL = "alice"
JOB_ID = "crash"
_SECONDS_MAX = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a worker does. `address` is the engine's, empty for one in the worker; `point` is where it dies, a label.

    `settling` is what it does about an unknown outcome (see points.Recovery), `retry` the identity that it then names,
    `found` what the provider's log holds. `rounds` is how many calls a worker makes that races others for each of them;
    `shared` is the address of the engine that racers share where the journal is under their root; `lease_ms`, where
    not 0, is how long their claims stand. `sabotage` has DISPATCHED written after the request has left.
    """

    root: str
    run_id: str
    base: str
    address: str = ""
    shared: str = ""
    roles: tuple[str, ...] = ()
    request_bytes: int = 0
    answer_bytes: int = 0
    stream: bool = False
    asynchronous: bool = False
    point: str = ""
    settling: str = ""
    retry: str = ""
    found: str = ""
    rounds: int = 0
    lease_ms: int = 0
    sabotage: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """How a worker ended: its exit status (negative: a signal), and what it told."""

    status: int
    told: Any


class Nursery:
    """Starts workers, and waits for them."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.crash.session.worker"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, job: Job) -> Ended:
        """Runs a worker to its end."""
        return self.race([job])[0]

    def race(self, jobs: Sequence[Job]) -> list[Ended]:
        """Runs workers at the same time, to the end of all."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps([asdict(job) for job in jobs]) + "\n")
        stdin.flush()
        return [Ended(*ended) for ended in json.loads(stdout.readline())]

    def close(self) -> None:
        self._process.communicate(timeout=30)


def recover(session: Any, job: Job) -> dict[str, Any]:
    """The call, or what a dead worker left of it, brought to an end. Tells what was found, and how it stands then."""
    point = POINTS.get(job.point)
    in_settling = isinstance(point, Recovery) and bool(point.settling)
    in_opening = isinstance(point, Recovery) and point.opening
    if isinstance(point, Point) and point.kept:
        _let_the_journal_take_no_response()
    fate = _armed(None if point is None or in_settling or in_opening else point.death)
    found = session.journal.invocations.newest(NAME)
    answer, error, settled = "", "", False
    try:
        try:
            answer = call(session, job, fate)
        except AmbiguousInvocation:
            if not job.settling:
                raise
            settled = True
            answer = _settled(session, job, point.death if point is not None and in_settling else None)
    except ContextError as raised:
        error = raised.reason
    newest = session.journal.invocations.newest(NAME)
    return {
        "found": _state(found),
        "answer": answer,
        "error": error,
        "settled": settled,
        "state": _state(newest),
        "attempt": newest.attempt if newest else 0,
        "recorded": int(session._client.run().revision),
    }


def call(session: Any, job: Job, fate: str = ANSWERS, *, name: str = NAME, retry: str = "") -> str:
    """The call's answer. `fate` is what the provider is to do."""
    asked = {"goal": "go on", "material": "m" * job.request_bytes}
    arguments = {
        "messages": [{"role": "system", "content": "Decide."}, {"role": "user", "content": json.dumps(asked)}],
        "model": "openai/gpt-4o",
        "api_base": f"{job.base}/{job.run_id}/{retry or NO_RETRY}/{job.answer_bytes}/{fate}/v1",
        "api_key": "none",
        "timeout": 30,
        "stream": job.stream,
        "retry": retry or None,
        "focus": "how to go on",
    }
    if job.asynchronous:
        return asyncio.run(_acall(session, name, arguments))
    answer = session.complete(name, **arguments)
    return "".join(map(_said, answer)) if job.stream else str(answer.choices[0].message.content)


async def _acall(session: Any, name: str, arguments: dict[str, Any]) -> str:
    answer = await session.acomplete(name, **arguments)
    if arguments["stream"]:
        return "".join([_said(chunk) async for chunk in answer])
    return str(answer.choices[0].message.content)


def _said(chunk: Any) -> str:
    return chunk.choices[0].delta.content or ""


def _settled(session: Any, job: Job, death: Death | None) -> str:
    fate = _armed(death)
    if job.settling == "retry":
        return call(session, job, fate, retry=job.retry)
    if job.found:
        session.reconcile(NAME, response=job.found, evidence="the provider's log")
    else:
        session.reconcile(NAME, not_executed=True, evidence="the provider's log has no such request")
    return call(session, job)


def _armed(death: Death | None) -> str:
    """Has this process die there; answers what the provider is to do."""
    if death is None:
        return ANSWERS
    if isinstance(death, Killed):
        return f"{death.fate}-{os.getpid()}"
    module, _, path = death.called.partition(":")
    owner, _, method = path.rpartition(".")
    holder = getattr(importlib.import_module(module), owner)
    whole = getattr(holder, method)

    def dying(*args: Any, **options: Any) -> Any:
        here = not death.given or death.given in args
        try:
            if not here or isinstance(death, After):
                return whole(*args, **options)
        finally:
            if here:
                os.kill(os.getpid(), signal.SIGKILL)

    setattr(holder, method, dying)
    return ANSWERS


def _let_the_journal_take_no_response() -> None:
    from mn_sdk.context_session.journal import keeping
    from mn_sdk.context_session.journal.remote import RemoteInvocations
    from mn_sdk.context_session.journal.sqlite import SqliteInvocations

    def away(*args: Any, **options: Any) -> Attempt:
        raise DependencyUnavailable("the journal is away", dependency="journal")

    keeping.PATIENCE_SECONDS = 0.0  # type: ignore[misc]
    SqliteInvocations.respond = RemoteInvocations.respond = away  # type: ignore[method-assign]


def race(session: Any, job: Job, meet: Callable[[], Any]) -> list[list[str]]:
    """For each round, what the call gave, and what it gave once all had made it: an answer, or an error's reason."""
    told = []
    for number in range(job.rounds):
        one = replace(job, run_id=f"{job.run_id}-{number}")
        meet()
        first = _outcome(session, one, number)
        meet()
        told.append([first, _outcome(session, one, number)])
    return told


def _outcome(session: Any, job: Job, number: int) -> str:
    try:
        return call(session, job, name=f"{NAME}-{number}")
    except ContextError as error:
        return error.reason


def _write_dispatches_late() -> None:
    """The sabotage: DISPATCHED is written once the outcome is there."""
    from mn_sdk.context_session.dispatch import Dispatcher
    from mn_sdk.context_session.journal.keeping import KeepingInvocations

    written, settle = KeepingInvocations.dispatch, Dispatcher.settle
    late: dict[tuple[str, int], dict[str, Any]] = {}

    def dispatch(journal: KeepingInvocations, attempt: Attempt, **options: Any) -> Attempt:
        late[attempt.name, attempt.attempt] = options
        return replace(attempt, state=State.DISPATCHED)

    def settled(dispatcher: Dispatcher, ready: Any, outcome: Any) -> Any:
        attempt = ready.attempt
        written(dispatcher.journal.invocations, attempt, **late.pop((attempt.name, attempt.attempt)))
        return settle(dispatcher, ready, outcome)

    KeepingInvocations.dispatch = dispatch  # type: ignore[method-assign, assignment]
    Dispatcher.settle = settled  # type: ignore[method-assign]


def _let_claims_run_out(lease_ms: int) -> None:
    from mn_sdk.context_session.journal.keeping import KeepingInvocations

    begin = KeepingInvocations.begin

    def brief(journal: KeepingInvocations, name: str, **options: Any) -> Attempt:
        return begin(journal, name, **{**options, "lease_ms": lease_ms})

    KeepingInvocations.begin = brief  # type: ignore[method-assign]


def _state(attempt: Attempt | None) -> str | None:
    return None if attempt is None else attempt.state.value


def _opened(job: Job) -> Any:
    from mn_sdk.context_session import ContextSession, session

    os.environ.pop("MN_CONTEXT_ADDR", None)
    if job.address:
        os.environ["MN_CONTEXT_ADDR"] = job.address
    if job.shared:
        # Calls that are journaled under one root, from many processes: only their record is elsewhere.
        connect = session.runtime_client
        session.runtime_client = lambda *scope, **options: connect(*scope, **{**options, "address": job.shared})
    return ContextSession(Path(job.root), job_id=JOB_ID, run_id=job.run_id, principal=PRINCIPAL, roles=job.roles)


def _work(job: Job, meet: Callable[[], Any]) -> Any:
    if job.sabotage:
        _write_dispatches_late()
    if job.lease_ms:
        _let_claims_run_out(job.lease_ms)
    point = POINTS.get(job.point)
    if isinstance(point, Recovery) and point.opening:
        _armed(point.death)
    with _opened(job) as session:
        return race(session, job, meet) if job.rounds else recover(session, job)


def _fork(job: Job, meet: Callable[[], Any]) -> tuple[int, int]:
    """A worker's process id, and the end of a pipe that tells what it told."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        signal.alarm(_SECONDS_MAX)
        told = _work(job, meet)
        with os.fdopen(writing, "w", encoding="utf-8") as pipe:
            json.dump(told, pipe)
        status = 0
    finally:
        os._exit(status)


def _reaped(pid: int, reading: int) -> list[Any]:
    with os.fdopen(reading, encoding="utf-8") as pipe:
        told = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return [status, json.loads(told) if status == 0 else None]


def _warm_up() -> None:
    """Makes calls of each kind, so that what is loaded with the first of them is there before the forks."""
    import tempfile

    from tests.scenario.session.upstream import Upstream, events

    upstream = Upstream()
    with tempfile.TemporaryDirectory() as folder, _opened(Job(root=folder, run_id="warm", base="")) as session:
        for number in range(4):
            upstream.events = events("warm") if number % 2 else []
            job = Job(root=folder, run_id="warm", base=upstream.base, stream=number % 2 == 1, asynchronous=number > 1)
            call(session, job, name=f"warm-{number}")
    upstream.close()


def _serve() -> None:
    _warm_up()
    for line in sys.stdin:
        jobs = [Job(**{**job, "roles": tuple(job["roles"])}) for job in json.loads(line)]
        barrier = multiprocessing.get_context("fork").Barrier(len(jobs), timeout=_SECONDS_MAX)
        forked = [_fork(job, barrier.wait) for job in jobs]
        ended = [_reaped(*one) for one in forked]
        sys.stdout.write(json.dumps(ended) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
