"""What must never reach a model, and what must never leave twice."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import ref

import pytest

from mn.context.working.v1 import artifact_pb2
from mn_contract.errors import (
    AmbiguousInvocation,
    ContextError,
    DependencyUnavailable,
    InvocationInFlight,
    SourceMismatch,
    UnmanagedCall,
)
from mn_contract.invocations import Attempt, State
from mn_sdk.client import WorkingMemoryClient, runtime_client
from mn_sdk.context_session import AsyncContextSession, ContextSession, interception, provider, strays
from mn_sdk.context_session.journal.sqlite import SqliteInvocations
from mn_sdk.context_session.wiretap import Exchange, recording
from tests.scenario.session.upstream import Upstream

litellm = provider.load()
IMPORTED_EARLY = litellm.completion
MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": json.dumps({"goal": "g"})}]


class Tampered(WorkingMemoryClient):
    """An engine whose artifacts are not what they were."""

    def read_ranges(self, ranges: Sequence[artifact_pb2.SourceRange]) -> list[bytes]:
        return [data[:-1] + b"!" for data in super().read_ranges(ranges)]


def test_evidence_that_was_tampered_with_is_not_used(
    open_session: Callable[..., ContextSession], upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 6, through the factory that programs replace."""

    def tampered(job_id: str, run_id: str, principal: str, **kwargs: Any) -> WorkingMemoryClient:
        return Tampered(runtime_client(job_id, run_id, principal, **kwargs).transport)

    monkeypatch.setattr("mn_sdk.context_session.session.runtime_client", tampered)
    session = open_session()
    session.observe("Brackets nest", event_id="o1")
    with pytest.raises(SourceMismatch):
        session.complete("d", messages=MESSAGES, focus="brackets", **upstream.arguments)
    with pytest.raises(SourceMismatch):
        session.memory_action("recall_memory", {"query": "brackets"})
    assert upstream.requests == []
    newest = session.journal.invocations.newest("d")
    assert newest is not None
    assert newest.state is State.FAILED_DEFINITE


@pytest.mark.parametrize("entry", [IMPORTED_EARLY, partial(IMPORTED_EARLY, temperature=0)])
def test_names_that_were_bound_before_are_managed(session: ContextSession, upstream: Upstream, entry: Any) -> None:
    with session.turn("d") as turn:
        entry(messages=MESSAGES, **upstream.arguments)
    assert turn.report is not None
    assert "recalled" in upstream.said()


def test_arguments_may_come_by_position(session: ContextSession, upstream: Upstream) -> None:
    more = {name: value for name, value in upstream.arguments.items() if name != "model"}
    with session.turn("d"):
        litellm.completion("openai/gpt-4o", MESSAGES, **more)
    assert "recalled" in upstream.said()


@pytest.mark.filterwarnings("ignore::UserWarning")  # the router's own, where it is made
def test_a_router_sends_once(session: ContextSession, upstream: Upstream) -> None:
    upstream.status, upstream.body = 500, b"{}"
    arguments = {name: value for name, value in upstream.arguments.items() if name != "timeout"}
    router = litellm.Router(
        model_list=[{"model_name": "m", "litellm_params": arguments}], num_retries=2, retry_after=0, timeout=20
    )
    with session.turn("d"), pytest.raises(Exception):  # noqa: B017 - the router wraps what it meets
        router.completion(model="m", messages=MESSAGES)
    assert len(upstream.requests) == 1


def test_a_second_request_within_a_dispatch_never_leaves(upstream: Upstream) -> None:
    """Invariant 10, at the HTTP client, whatever asked for the repetition."""
    import httpx

    exchange = Exchange(20)
    with recording(exchange), httpx.Client() as client:
        client.post(f"{upstream.base}/chat/completions", json={})
        with pytest.raises(UnmanagedCall):
            client.post(f"{upstream.base}/chat/completions", json={})
    assert (exchange.sent, exchange.status, len(upstream.requests)) == (1, 200, 1)


def _refused(call: Any, *args: Any, **arguments: Any) -> None:
    with pytest.raises(UnmanagedCall):
        asyncio.run(call(*args, **arguments)) if asyncio.iscoroutinefunction(call) else call(*args, **arguments)


@pytest.mark.parametrize(
    ("entry", "arguments"),
    [
        (litellm.text_completion, {"prompt": "hi"}),
        (litellm.atext_completion, {"prompt": "hi"}),
        (litellm.responses, {"input": "hi"}),
        (litellm.aresponses, {"input": "hi"}),
        (litellm.anthropic_messages, {"messages": MESSAGES, "max_tokens": 5}),
        (litellm.google_genai.generate_content, {"contents": []}),
        (litellm.batch_completion, {"messages": [MESSAGES]}),
        (litellm.main.completion, {"messages": MESSAGES}),
        (litellm.main.acompletion, {"messages": MESSAGES}),
    ],
)
def test_other_ways_to_have_a_text_written_are_refused_in_a_turn(
    session: ContextSession, upstream: Upstream, entry: Any, arguments: dict[str, Any]
) -> None:
    with session.turn("d"):
        _refused(entry, **arguments, **upstream.arguments)
    assert upstream.requests == []


def _in_thread(call: Callable[[], Any]) -> None:
    outcome: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    for error in outcome:
        raise error


def _in_pool(call: Callable[[], Any]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(call).result(30)


POOL = ThreadPoolExecutor(1)


def _in_a_pool_that_was_there(call: Callable[[], Any]) -> None:
    POOL.submit(call).result(30)


@pytest.mark.parametrize("elsewhere", [_in_thread, _in_pool, _in_a_pool_that_was_there])
@pytest.mark.parametrize("entry", [litellm.completion, litellm.text_completion])
def test_a_thread_without_the_turns_context_is_refused_while_the_turn_lasts(
    session: ContextSession, upstream: Upstream, elsewhere: Callable[[Callable[[], Any]], None], entry: Any
) -> None:
    def call() -> Any:
        return entry(messages=MESSAGES, prompt="x", mock_response="made up", **upstream.arguments)

    POOL.submit(int).result(30)
    with session.turn("d"), pytest.raises(UnmanagedCall, match="turn 'd'"):
        elsewhere(call)
    assert upstream.requests == []
    elsewhere(lambda: litellm.completion(messages=MESSAGES, mock_response="made up", **upstream.arguments))


def test_a_thread_from_before_a_turn_is_nobodys(session: ContextSession, upstream: Upstream) -> None:
    go_on, done = threading.Event(), threading.Event()

    def wait_and_call() -> None:
        go_on.wait(30)
        litellm.completion(messages=MESSAGES, mock_response="made up", **upstream.arguments)
        done.set()

    thread = threading.Thread(target=wait_and_call)
    thread.start()
    with session.turn("d"):
        go_on.set()
        thread.join(30)
        assert done.is_set()
        litellm.completion(messages=MESSAGES, **upstream.arguments)


@pytest.mark.parametrize("strays_itself", [False, True])
def test_a_coroutine_is_its_submitters_whoever_started_the_loop(
    session: ContextSession, upstream: Upstream, strays_itself: bool
) -> None:
    """The loop's thread is started in a turn. A coroutine that comes from a stray is refused all the same."""
    loop = asyncio.new_event_loop()
    go_on = threading.Event()
    outcome: list[Any] = []

    def submit() -> None:
        go_on.wait(30)
        call = litellm.acompletion(messages=MESSAGES, mock_response="made up", **upstream.arguments)
        try:
            outcome.append(asyncio.run_coroutine_threadsafe(call, loop).result(30))
        except UnmanagedCall as error:
            outcome.append(error)

    outsider = threading.Thread(target=submit)
    if not strays_itself:
        outsider.start()
    with session.turn("d"):
        runner = threading.Thread(target=loop.run_forever)
        runner.start()
        if strays_itself:
            outsider.start()
        litellm.completion(messages=MESSAGES, **upstream.arguments)
        go_on.set()
        outsider.join(30)
    loop.call_soon_threadsafe(loop.stop)
    runner.join(30)
    for task in asyncio.all_tasks(loop):  # litellm's own
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    assert isinstance(outcome[0], UnmanagedCall) is strays_itself


def test_a_thread_that_carries_the_context_is_managed(session: ContextSession, upstream: Upstream) -> None:
    with session.turn("d") as turn:
        context = copy_context()
        _in_thread(lambda: context.run(litellm.completion, messages=MESSAGES, **upstream.arguments))
    assert turn.report is not None
    assert "recalled" in upstream.said()


def test_what_litellm_learns_to_call_later_is_refused_too(session: ContextSession) -> None:
    def dream(model: str) -> str:
        return model

    async def adream(model: str) -> str:
        return model

    for entry in (litellm.utils.client(dream), litellm.utils.client(adream)):
        with session.turn("d"):
            _refused(entry, model="m")


def test_what_writes_no_text_may_be_called_in_a_turn(session: ContextSession) -> None:
    with session.turn("d"):
        found = litellm.embedding(model="openai/e", input=["x"], mock_response=[0.5])
    assert found.data[0]["embedding"] == [0.5]


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (lambda upstream: litellm.completion(messages=[], **upstream.arguments), "INVALID_ARGUMENT"),
        (lambda upstream: litellm.text_completion(model="openai/m", prompt="x"), "UNMANAGED_CALL"),
    ],
)
def test_a_turn_whose_call_was_refused_says_that_it_was(
    session: ContextSession,
    upstream: Upstream,
    caplog: pytest.LogCaptureFixture,
    refused: Callable[[Upstream], Any],
    why: str,
) -> None:
    """The caller may have caught the error within the turn."""
    with session.turn("caught"), pytest.raises(ContextError):
        refused(upstream)
    assert "turn caught ended without a managed model call" in caplog.text
    assert f"its call was refused ({why})" in caplog.text
    assert "other clients" not in caplog.text


def test_a_turn_that_ends_without_a_call_says_so(
    session: ContextSession, upstream: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    with session.turn("quiet") as turn:
        pass
    assert turn.report is None
    assert "turn quiet ended without a managed model call" in caplog.text
    with session.turn("loud"):
        litellm.completion(messages=MESSAGES, **upstream.arguments)
    with pytest.raises(KeyError), session.turn("failed"):
        raise KeyError
    assert "loud" not in caplog.text
    assert "turn failed" not in caplog.text


def _unlike() -> ModuleType:
    module = ModuleType("litellm")
    module.completion = lambda prompt: prompt  # type: ignore[attr-defined]
    module.acompletion = module.completion  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize("module", [ModuleType("litellm"), _unlike()])
def test_a_litellm_of_another_form_is_refused_untouched(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    before = dict(vars(module))
    monkeypatch.setattr(interception, "_originals", {})
    with pytest.raises(DependencyUnavailable):
        interception.install(module)
    assert vars(module) == before


async def test_the_asynchronous_session_is_the_same_session(tmp_path: Path, upstream: Upstream) -> None:
    async with await AsyncContextSession.open(tmp_path, job_id="j", run_id="r", principal="p") as session:
        await session.observe("Brackets nest", event_id="o1")
        ref = await session.put_artifact(b"x")
        assert ref.size == 1
        async with session.turn("d", focus="brackets") as turn:
            await litellm.acompletion(messages=MESSAGES, **upstream.arguments)
        assert turn.report is not None
        assert [item["id"] for item in turn.report.items] == ["o1"]
        again = await session.complete("d", messages=MESSAGES, focus="brackets", **upstream.arguments)
        assert again.choices[0].message.content == "yes"
        assert await session.has_durable_response("d")
        assert (await session.memory_action("read_memory", {"item_id": "o1"}))["text"] == "Brackets nest"
    assert len(upstream.requests) == 1


async def test_of_two_tasks_with_one_call_one_sends_and_the_other_is_told_to_wait(
    tmp_path: Path, upstream: Upstream
) -> None:
    arrived, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def hold() -> None:
        loop.call_soon_threadsafe(arrived.set)
        release.wait(30)

    upstream.hold = hold
    async with AsyncContextSession(tmp_path, job_id="j", run_id="r", principal="p") as session:
        first = asyncio.create_task(session.complete("d", messages=MESSAGES, **upstream.arguments))
        await asyncio.wait_for(arrived.wait(), 30)
        with pytest.raises(InvocationInFlight):
            await session.complete("d", messages=MESSAGES, **upstream.arguments)
        release.set()
        assert (await first).choices[0].message.content == "yes"
    assert len(upstream.requests) == 1


def test_an_interrupt_between_claim_and_send_is_known_at_once(
    session: ContextSession, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(provider, "send", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.complete("d", messages=MESSAGES, **upstream.arguments)
    with pytest.raises(AmbiguousInvocation):
        session.complete("d", messages=MESSAGES, **upstream.arguments)
    session.reconcile("d", not_executed=True, evidence="nothing was sent")
    assert session.complete("d", messages=MESSAGES, **upstream.arguments).choices


async def test_a_task_that_is_cancelled_during_its_call_leaves_it_ambiguous(tmp_path: Path, upstream: Upstream) -> None:
    arrived = asyncio.Event()
    loop = asyncio.get_running_loop()
    release = threading.Event()

    def hold() -> None:
        loop.call_soon_threadsafe(arrived.set)
        release.wait(30)

    upstream.hold = hold
    async with AsyncContextSession(tmp_path, job_id="j", run_id="r", principal="p") as session:
        call = asyncio.create_task(session.complete("d", messages=MESSAGES, **upstream.arguments))
        await asyncio.wait_for(arrived.wait(), 30)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        release.set()
        newest = session.session.journal.invocations.newest("d")
        assert newest is not None
        assert newest.state is State.AMBIGUOUS


@pytest.mark.parametrize("ending", ["task", "loop"])
@pytest.mark.parametrize("cancels", [1, 2, 5])
async def test_a_task_that_is_cancelled_before_its_request_left_leaves_the_call_free(
    tmp_path: Path, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, cancels: int, ending: str
) -> None:
    """However often, and with all else in the loop: DISPATCHED and never sent would be ambiguous for ever."""
    dispatched, release = threading.Event(), threading.Event()

    durably = SqliteInvocations.dispatch

    def slow(journal: SqliteInvocations, attempt: Attempt, **options: Any) -> Attempt:
        moved = durably(journal, attempt, **options)
        dispatched.set()
        release.wait(30)
        return moved

    monkeypatch.setattr(SqliteInvocations, "dispatch", slow)
    async with AsyncContextSession(tmp_path, job_id="j", run_id="r", principal="p") as session:
        invocations = session.session.journal.invocations
        before = asyncio.all_tasks()
        call = asyncio.create_task(session.complete("d", messages=MESSAGES, **upstream.arguments))
        await asyncio.to_thread(dispatched.wait, 30)
        for _ in range(cancels):
            for task in [call] if ending == "task" else asyncio.all_tasks() - before:
                task.cancel()
            await asyncio.sleep(0.01)
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        newest = invocations.newest("d")
        assert newest is not None
        assert newest.state is State.FAILED_DEFINITE
    assert upstream.requests == []


def _elsewhere(act: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(act).result(30)


def test_a_turn_is_left_where_it_was_entered(session: ContextSession, upstream: Upstream) -> None:
    turn = session.turn("d")
    with turn:
        with pytest.raises(UnmanagedCall, match="another thread or task"):
            _elsewhere(lambda: turn.__exit__(None, None, None))
        with pytest.raises(UnmanagedCall, match="entered already"):
            _elsewhere(turn.__enter__)
        litellm.completion(messages=MESSAGES, **upstream.arguments)
    with session.turn("e"):
        litellm.completion(messages=MESSAGES, **upstream.arguments)
    assert len(upstream.requests) == 2


def _in_a_task_of_its_own(call: Callable[[], Any]) -> None:
    async def main() -> None:
        await asyncio.to_thread(call)

    _in_thread(lambda: asyncio.run(main()))


def _in_the_loops_executor(call: Callable[[], Any]) -> None:
    async def main() -> None:
        await asyncio.get_running_loop().run_in_executor(None, call)

    _in_thread(lambda: asyncio.run(main()))


@pytest.mark.parametrize("inner", [_in_thread, _in_pool, _in_a_task_of_its_own, _in_the_loops_executor])
@pytest.mark.parametrize("outer", [_in_thread, _in_pool, _in_a_pool_that_was_there])
def test_what_a_stray_begins_strays_as_well(
    session: ContextSession,
    upstream: Upstream,
    outer: Callable[[Callable[[], Any]], None],
    inner: Callable[[Callable[[], Any]], None],
) -> None:
    def call() -> Any:
        return litellm.completion(messages=MESSAGES, mock_response="made up", **upstream.arguments)

    with session.turn("d"), pytest.raises(UnmanagedCall, match="turn 'd'"):
        outer(lambda: inner(call))
    outer(lambda: inner(call))


def test_a_worker_that_a_stray_started_serves_others_too(session: ContextSession) -> None:
    with ThreadPoolExecutor(1) as pool, session.turn("d"):
        _in_thread(lambda: pool.submit(int).result(30))
        context = Context()  # of a program that knows of no turn
        found = context.run(pool.submit, lambda: strays.strayed_from()).result(30)
    assert found is None


def test_a_thread_does_not_keep_its_turn(session: ContextSession) -> None:
    turn = session.turn("d")
    with turn:
        thread = threading.Thread(target=int)
        thread.start()
        thread.join(30)
    gone = ref(turn)
    del turn
    gc.collect()
    assert gone() is None


def test_what_is_watched_looks_as_it_did() -> None:
    with pytest.raises(TypeError, match=r"submit\(\) missing 1 required positional argument: 'fn'"):
        POOL.submit()  # type: ignore[call-arg]
    assert list(inspect.signature(litellm.batch_completion).parameters)[:2] == ["model", "messages"]
    assert "thread_id" in inspect.signature(litellm.run_thread).parameters
    assert list(inspect.signature(litellm.utils.client).parameters) == ["original_function"]
    assert list(inspect.signature(litellm.completion).parameters)[:2] == ["model", "messages"]


def test_a_task_that_was_begun_in_a_turn_is_nobodys_after_it(session: ContextSession, upstream: Upstream) -> None:
    async def call() -> str:
        answer = await litellm.acompletion(messages=MESSAGES, **upstream.arguments)
        return str(answer.choices[0].message.content)

    async def later(left: asyncio.Event) -> None:
        await left.wait()
        await call()
        assert litellm.text_completion(model="openai/m", prompt="x", mock_response="made up")
        with session.turn("e"):
            await call()

    async def main() -> None:
        left = asyncio.Event()
        with session.turn("d"):
            task = asyncio.create_task(later(left))
            await call()
        left.set()
        await task

    asyncio.run(main())
    assert ["recalled" in upstream.said(at) for at in range(3)] == [True, False, True]
