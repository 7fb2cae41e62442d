"""Answers that are read as they come: durable at their end, replayed, and unknown where they break (invariant 10)."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import openai
import pytest

from mn_contract.errors import AmbiguousInvocation, InvalidInput, InvocationInFlight, UnmanagedCall
from mn_contract.invocations import State
from mn_sdk.context_session import AsyncContextSession, ContextSession, provider
from mn_sdk.context_session.outcome import Unknown
from mn_sdk.context_session.wiretap import Exchange
from tests.scenario.session.test_outcomes import MESSAGES, state
from tests.scenario.session.upstream import Upstream, completion, events

litellm = provider.load()
PIECES = ("one ", "two ", "three")


def streamed(session: ContextSession, upstream: Upstream, **more: Any) -> Any:
    return session.complete("d", **{"messages": MESSAGES, **upstream.arguments, "stream": True, **more})


async def _read(session: ContextSession, upstream: Upstream, **more: Any) -> list[Any]:
    stream = await session.acomplete("d", messages=MESSAGES, stream=True, **{**upstream.arguments, **more})
    return [chunk async for chunk in stream]


def read(session: ContextSession, upstream: Upstream, **more: Any) -> list[Any]:
    return list(streamed(session, upstream, **more))


def aread(session: ContextSession, upstream: Upstream, **more: Any) -> list[Any]:
    return asyncio.run(_read(session, upstream, **more))


both = pytest.mark.parametrize("read", [read, aread])


def text(chunks: list[Any]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


@both
def test_a_stream_is_passed_through_and_durable_at_its_end(
    session: ContextSession, upstream: Upstream, read: Callable[..., list[Any]]
) -> None:
    upstream.events = events(*PIECES)
    chunks = read(session, upstream)
    assert text(chunks) == "one two three"
    assert len(chunks) > len(PIECES)
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert state(session) is State.COMPLETED
    newest = session.journal.invocations.newest("d")
    assert newest is not None
    assert newest.response is not None
    stored = json.loads(newest.response)
    assert stored["choices"][0]["message"]["content"] == "one two three"
    assert stored["usage"]["prompt_tokens"] == 10
    assert upstream.requests[0]["stream_options"] == {"include_usage": True}


@both
def test_a_stored_answer_is_replayed_as_a_stream_and_a_streamed_one_at_once(
    session: ContextSession, upstream: Upstream, read: Callable[..., list[Any]]
) -> None:
    """How an answer is read is no part of what was asked."""
    upstream.events = events(*PIECES)
    read(session, upstream)
    assert text(read(session, upstream)) == "one two three"
    whole = session.complete("d", messages=MESSAGES, **upstream.arguments)
    assert whole.choices[0].message.content == "one two three"
    assert len(upstream.requests) == 1
    upstream.events = []
    upstream.body = completion("at once")
    session.complete("e", messages=MESSAGES, **upstream.arguments)
    assert text(list(session.complete("e", messages=MESSAGES, stream=True, **upstream.arguments))) == "at once"
    assert len(upstream.requests) == 2


@both
def test_tool_calls_are_streamed_and_replayed(
    session: ContextSession, upstream: Upstream, read: Callable[..., list[Any]]
) -> None:
    upstream.events = events('{"city": ', '"Rome"}', finish="tool_calls", tool="weather")
    for _ in range(2):
        calls = [call for chunk in read(session, upstream) for call in chunk.choices[0].delta.tool_calls or ()]
        assert "".join(call.function.arguments for call in calls) == '{"city": "Rome"}'
        assert calls[0].function.name == "weather"
    assert len(upstream.requests) == 1


def test_usage_is_a_last_chunk_for_those_who_ask_and_is_never_made_up(
    session: ContextSession, upstream: Upstream
) -> None:
    upstream.events = events(*PIECES)
    chunks = list(streamed(session, upstream, stream_options={"include_usage": True}))
    assert chunks[-1].usage.prompt_tokens == 10
    assert not chunks[-1].choices
    upstream.events = events(*PIECES, usage=False)
    list(session.complete("e", messages=MESSAGES, stream=True, **upstream.arguments))
    newest = session.journal.invocations.newest("e")
    assert newest is not None
    assert "usage" not in json.loads(newest.response or b"")


@both
@pytest.mark.parametrize(
    ("model", "cut"),
    [
        ("openai/gpt-4o", {"finish": None, "usage": False, "done": False}),
        ("openai/gpt-4o", {"finish": None, "usage": False}),
        ("openai/gpt-4o", {"finish": None, "usage": True}),
        ("hosted_vllm/gpt-4o", {"finish": None, "usage": False, "done": False}),
    ],
)
@pytest.mark.parametrize("reset", [False, True])
def test_a_stream_without_a_finish_reason_is_ambiguous(
    session: ContextSession,
    upstream: Upstream,
    read: Callable[..., list[Any]],
    cut: dict[str, Any],
    reset: bool,
    model: str,
) -> None:
    """Of others than OpenAI litellm takes `[DONE]` for a finish_reason."""
    upstream.events, upstream.cut = events(*PIECES, **cut), reset
    for _ in range(2):
        with pytest.raises(AmbiguousInvocation):
            read(session, upstream, model=model)
    assert state(session) is State.AMBIGUOUS
    assert len(upstream.requests) == 1


def test_a_finish_reason_that_nobody_gave_is_not_believed() -> None:
    """Should litellm end a stream without one as if it were whole, as some versions do."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "one "}}
    chunks = provider.chunks_of(litellm.ModelResponse(choices=[choice]))
    ended = SimpleNamespace(chunks=chunks, received_finish_reason=None, intermittent_finish_reason=None, is_mock=False)
    flow = provider.Flowing(ended, Exchange(60), {"messages": MESSAGES})
    assert isinstance(flow.outcome(StopIteration()), Unknown)


@both
def test_a_stream_that_is_cut_behind_its_finish_reason_is_an_answer(
    session: ContextSession, upstream: Upstream, read: Callable[..., list[Any]]
) -> None:
    upstream.events, upstream.cut = events(*PIECES, usage=False, done=False), False
    assert text(read(session, upstream)) == "one two three"
    assert state(session) is State.COMPLETED


@both
def test_an_error_within_a_stream_is_ambiguous(
    session: ContextSession, upstream: Upstream, read: Callable[..., list[Any]]
) -> None:
    upstream.events = [*events("one ", finish=None, usage=False, done=False), b'data: {"error": {"message": "no"}}\n\n']
    with pytest.raises(AmbiguousInvocation):
        read(session, upstream)
    assert state(session) is State.AMBIGUOUS


@both
def test_a_stream_that_is_declined_was_not_executed(
    session: ContextSession, upstream: Upstream, read: Callable[..., list[Any]]
) -> None:
    upstream.status, upstream.body = 429, b'{"error": {"message": "no"}}'
    with pytest.raises(openai.OpenAIError):
        read(session, upstream)
    assert state(session) is State.FAILED_DEFINITE
    assert len(upstream.requests) == 1


@both
def test_a_stream_that_hangs_is_ambiguous_when_the_time_is_up(
    session: ContextSession, upstream: Upstream, read: Callable[..., list[Any]]
) -> None:
    go_on = threading.Event()
    pieces = iter([True])
    upstream.events = events(*PIECES)
    upstream.between = lambda: None if next(pieces, False) else go_on.wait(30) and None
    with pytest.raises(AmbiguousInvocation):
        read(session, upstream, timeout=0.5)
    go_on.set()
    assert state(session) is State.AMBIGUOUS


def test_a_stream_that_is_closed_early_is_ambiguous(session: ContextSession, upstream: Upstream) -> None:
    upstream.events = events(*PIECES)
    with streamed(session, upstream) as stream:
        next(stream)
        with pytest.raises(InvocationInFlight):  # it is under way
            streamed(session, upstream)
    assert state(session) is State.AMBIGUOUS
    assert list(stream) == []
    stream.close()
    with pytest.raises(AmbiguousInvocation):
        streamed(session, upstream)


def test_a_stream_that_nobody_holds_any_more_lets_go_of_its_call(session: ContextSession, upstream: Upstream) -> None:
    upstream.events = events(*PIECES)
    stream = streamed(session, upstream)
    next(stream)
    del stream
    gc.collect()
    for thread in threading.enumerate():
        if thread.name == "mn-stream":
            thread.join(10)
    assert state(session) is State.AMBIGUOUS


def test_the_end_of_a_turn_reads_the_rest(session: ContextSession, upstream: Upstream) -> None:
    """What was paid for is kept, whatever the reader does; what was not read stays there to be read."""
    upstream.events = events(*PIECES)
    with session.turn("d") as turn:
        stream = litellm.completion(messages=MESSAGES, stream=True, **upstream.arguments)
        first = next(stream)
        assert turn.report is None
    assert turn.report is not None
    assert state(session) is State.COMPLETED
    assert text([first, *stream]) == "one two three"


def broken_off(session: ContextSession, upstream: Upstream, error: BaseException) -> None:
    with session.turn("d"):
        for _ in litellm.completion(messages=MESSAGES, stream=True, **upstream.arguments):
            raise error


def test_a_readers_error_does_not_lose_what_was_paid_for(session: ContextSession, upstream: Upstream) -> None:
    upstream.events = events(*PIECES)
    with pytest.raises(ZeroDivisionError):
        broken_off(session, upstream, ZeroDivisionError())
    assert state(session) is State.COMPLETED


def test_an_interrupt_does_not_wait_for_the_rest(session: ContextSession, upstream: Upstream) -> None:
    upstream.events = events(*PIECES)
    with pytest.raises(KeyboardInterrupt):
        broken_off(session, upstream, KeyboardInterrupt())
    assert state(session) is State.AMBIGUOUS


def test_the_end_of_an_asynchronous_turn_reads_the_rest(session: ContextSession, upstream: Upstream) -> None:
    upstream.events = events(*PIECES)
    shell = AsyncContextSession.__new__(AsyncContextSession)
    shell.session = session

    async def main() -> list[Any]:
        async with shell.turn("d"):
            stream = await litellm.acompletion(messages=MESSAGES, stream=True, **upstream.arguments)
            first = await anext(stream)
        assert state(session) is State.COMPLETED
        return [first, *[chunk async for chunk in stream]]

    assert text(asyncio.run(main())) == "one two three"


@pytest.mark.parametrize("held", [False, True])
def test_a_turn_that_cannot_read_the_rest_gives_it_up(
    session: ContextSession, upstream: Upstream, caplog: pytest.LogCaptureFixture, held: bool
) -> None:
    upstream.events = events(*PIECES)

    async def main() -> None:
        with session.turn("d"):
            stream = await litellm.acompletion(messages=MESSAGES, stream=True, **upstream.arguments)
            await anext(stream)
        assert state(session) is State.AMBIGUOUS
        if held:
            with pytest.raises(AmbiguousInvocation):
                await anext(stream)

    asyncio.run(main())
    assert "async with" in caplog.text


def test_a_stream_that_was_read_whole_is_not_given_up(
    session: ContextSession, upstream: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.events = events(*PIECES)

    async def main() -> list[Any]:
        with session.turn("d"):
            return [
                chunk async for chunk in await litellm.acompletion(messages=MESSAGES, stream=True, **upstream.arguments)
            ]

    assert text(asyncio.run(main())) == "one two three"
    assert state(session) is State.COMPLETED
    assert "given up" not in caplog.text


def test_a_stream_in_a_cycle_outlives_its_session(
    open_session: Callable[..., ContextSession], upstream: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    session = open_session()
    upstream.events = events(*PIECES)

    def dropped() -> None:
        cycle: list[Any] = [streamed(session, upstream)]
        next(cycle[0])
        cycle.append(cycle)

    gc.disable()
    dropped()
    session.close()
    gc.enable()
    gc.collect()
    for thread in threading.enumerate():
        if thread.name == "mn-stream":
            thread.join(10)
    assert state(open_session()) is State.AMBIGUOUS
    assert "given up" in caplog.text


def test_a_cancelled_reader_leaves_an_unknown_call(session: ContextSession, upstream: Upstream) -> None:
    go_on = threading.Event()
    pieces = iter([True, True])
    upstream.events = events(*PIECES)
    upstream.between = lambda: None if next(pieces, False) else go_on.wait(30) and None

    async def main() -> None:
        task = asyncio.create_task(_read(session, upstream))
        while not upstream.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    go_on.set()
    assert state(session) is State.AMBIGUOUS


def gated(upstream: Upstream, *pieces: str, after: int) -> threading.Event:
    """A stream that comes no further than its first `after` events until the event is set."""
    go_on, first = threading.Event(), iter([True] * after)
    upstream.events = events(*pieces)
    upstream.between = lambda: None if next(first, False) else go_on.wait(30) and None
    return go_on


def test_a_read_that_was_cancelled_is_no_end(session: ContextSession, upstream: Upstream) -> None:
    """Invariant 13: who reads on is told, and so is the turn, where nobody was: the rest is not the answer."""
    go_on = gated(upstream, *PIECES, after=0)
    shell = AsyncContextSession.__new__(AsyncContextSession)
    shell.session = session

    async def main(name: str, *, on: bool) -> None:
        async with shell.turn(name):
            stream = await litellm.acompletion(messages=MESSAGES, stream=True, **upstream.arguments)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(stream), 0.1)
            for _ in range(2 if on else 0):
                with pytest.raises(AmbiguousInvocation):
                    await anext(stream)

    with pytest.raises(AmbiguousInvocation):
        asyncio.run(main("d", on=False))
    asyncio.run(main("e", on=True))
    go_on.set()
    assert (state(session), state(session, "e")) == (State.AMBIGUOUS, State.AMBIGUOUS)


def test_who_reads_a_stream_that_another_closes_is_told(
    session: ContextSession, upstream: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    go_on = gated(upstream, *PIECES, after=2)

    async def main() -> None:
        stream = await session.acomplete("d", messages=MESSAGES, stream=True, **upstream.arguments)

        async def reader() -> list[Any]:
            return [chunk async for chunk in stream]

        reading = asyncio.create_task(reader())
        await asyncio.sleep(0.2)
        await stream.aclose()
        with pytest.raises(AmbiguousInvocation):
            await reading
        assert [chunk async for chunk in stream] == []

    asyncio.run(main())
    go_on.set()
    assert "never retrieved" not in caplog.text


def test_a_close_that_is_cancelled_lets_go_of_the_call(
    session: ContextSession, upstream: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    go_on = gated(upstream, *PIECES, after=2)

    async def main() -> None:
        stream = await session.acomplete("d", messages=MESSAGES, stream=True, **upstream.arguments)
        await anext(stream)
        closing = asyncio.create_task(stream.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing

    asyncio.run(main())
    go_on.set()
    gc.collect()
    assert state(session) is State.AMBIGUOUS
    assert "never retrieved" not in caplog.text


def test_a_session_that_is_closed_meanwhile_lets_a_stream_end(
    open_session: Callable[..., ContextSession], upstream: Upstream
) -> None:
    session = open_session()
    upstream.events = events(*PIECES)
    stream = streamed(session, upstream)
    next(stream)
    session.close()
    list(stream)
    assert state(open_session()) is State.COMPLETED


def test_a_second_call_beside_a_stream_is_refused(session: ContextSession, upstream: Upstream) -> None:
    upstream.events = events(*PIECES)
    with session.turn("d"):
        litellm.completion(messages=MESSAGES, stream=True, **upstream.arguments)
        with pytest.raises(UnmanagedCall):
            litellm.completion(messages=MESSAGES, stream=True, **upstream.arguments)
    assert len(upstream.requests) == 1


@pytest.mark.parametrize(
    ("argument", "value"), [("stream", "yes"), ("stream", 1), ("stream_options", "usage"), ("n", 2)]
)
def test_a_stream_that_cannot_be_managed_is_refused(
    session: ContextSession, upstream: Upstream, argument: str, value: object
) -> None:
    with pytest.raises(InvalidInput) as refused:
        streamed(session, upstream, **{argument: value})
    assert refused.value.detail["field"] == argument
    assert upstream.requests == []


READERS = 4


def test_the_readers_of_a_stream_share_it(session: ContextSession, upstream: Upstream) -> None:
    """In threads; the end of the turn is a reader, too, and waits for the others."""
    upstream.events = events(*["x"] * 40)
    upstream.between = lambda: time.sleep(0.002)
    chunks: list[Any] = []
    with session.turn("d") as turn:
        stream = litellm.completion(messages=MESSAGES, stream=True, **upstream.arguments)
        threads = [threading.Thread(target=lambda: chunks.extend(stream)) for _ in range(READERS)]
        for thread in threads:
            thread.start()
        time.sleep(0.02)
    for thread in threads:
        thread.join(30)
    assert turn.report is not None
    assert text(chunks) == "x" * 40
    assert state(session) is State.COMPLETED


def test_the_readers_of_an_asynchronous_stream_share_it(session: ContextSession, upstream: Upstream) -> None:
    upstream.events = events(*["x"] * 40)

    async def main() -> list[Any]:
        chunks: list[Any] = []
        stream = await session.acomplete("d", messages=MESSAGES, stream=True, **upstream.arguments)

        async def reader() -> None:
            async for chunk in stream:
                chunks.append(chunk)

        await asyncio.gather(*(reader() for _ in range(READERS)))
        return chunks

    assert text(asyncio.run(main())) == "x" * 40
    assert state(session) is State.COMPLETED


def test_a_stream_that_is_read_the_other_way(session: ContextSession, upstream: Upstream) -> None:
    """An asynchronous one cannot be, which settles nothing; a synchronous one can."""
    upstream.events = events(*PIECES)

    async def main() -> list[Any]:
        stream = await session.acomplete("d", messages=MESSAGES, stream=True, **upstream.arguments)
        with pytest.raises(TypeError, match="async for"):
            next(stream)
        with pytest.raises(TypeError, match="async for"):
            list(stream)
        return [chunk async for chunk in stream]

    async def other(stream: Any) -> list[Any]:
        return [chunk async for chunk in stream]

    assert text(asyncio.run(main())) == "one two three"
    stream = session.complete("e", messages=MESSAGES, stream=True, **upstream.arguments)
    assert text(asyncio.run(other(stream))) == "one two three"
    assert (state(session), state(session, "e")) == (State.COMPLETED, State.COMPLETED)


def test_what_a_cancelled_reader_did_not_get_comes_first(session: ContextSession, upstream: Upstream) -> None:
    """Before what the end of the turn has read meanwhile."""
    upstream.events = events(*PIECES)
    stream = streamed(session, upstream)
    chunks = [next(stream), next(stream)]
    stream.finish()
    for chunk in reversed(chunks):
        stream._unread(chunk)
    assert text(list(stream)) == "one two three"


def test_a_reader_that_is_cancelled_in_a_thread_loses_no_chunk(session: ContextSession, upstream: Upstream) -> None:
    upstream.events = events(*PIECES)
    upstream.between = lambda: time.sleep(0.1)

    async def main() -> list[Any]:
        stream = session.complete("d", messages=MESSAGES, stream=True, **upstream.arguments)
        reader = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.01)
        reader.cancel()
        await asyncio.wait([reader])
        return [chunk async for chunk in stream]

    assert text(asyncio.run(main())) == "one two three"
    assert state(session) is State.COMPLETED
