"""One dispatch is one send: counted at the provider, however a call fails, is read, and is made (invariant 10)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mn_contract.errors import AmbiguousInvocation, UnmanagedCall
from mn_contract.invocations import State
from mn_sdk.context_session import ContextSession, provider
from tests.scenario.session.test_outcomes import MESSAGES, state
from tests.scenario.session.upstream import Upstream, events

litellm = provider.load()


@pytest.fixture
def second() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.close()


def _deployment(name: str, upstream: Upstream) -> dict[str, Any]:
    reached = {key: value for key, value in upstream.arguments.items() if key != "timeout"}
    return {"model_name": name, "litellm_params": reached}


def _bare(upstream: Upstream, second: Upstream) -> tuple[Any, dict[str, Any]]:
    return litellm, {"num_retries": 2, "max_retries": 2, **upstream.arguments}


def _router(upstream: Upstream, second: Upstream, **settings: Any) -> tuple[Any, dict[str, Any]]:
    router = litellm.Router(model_list=[_deployment("m", upstream)], num_retries=2, retry_after=0, **settings)
    return router, {"model": "m"}


def _two_deployments(upstream: Upstream, second: Upstream) -> tuple[Any, dict[str, Any]]:
    both = [_deployment("m", upstream), _deployment("m", second)]
    return litellm.Router(model_list=both, num_retries=2, retry_after=0), {"model": "m"}


def _fallback(upstream: Upstream, second: Upstream, setting: str = "fallbacks") -> tuple[Any, dict[str, Any]]:
    both = [_deployment("m", upstream), _deployment("other", second)]
    router = litellm.Router(model_list=both, num_retries=0, retry_after=0, **{setting: [{"m": ["other"]}]})
    return router, {"model": "m"}


def _content_policy(upstream: Upstream, second: Upstream) -> tuple[Any, dict[str, Any]]:
    return _fallback(upstream, second, "content_policy_fallbacks")


def _call(entry: Any, arguments: dict[str, Any], *, stream: bool) -> None:
    answer = entry.completion(messages=MESSAGES, stream=stream, **arguments)
    if stream:
        list(answer)


async def _acall(entry: Any, arguments: dict[str, Any], *, stream: bool) -> None:
    answer = await entry.acompletion(messages=MESSAGES, stream=stream, **arguments)
    if stream:
        _ = [chunk async for chunk in answer]


def _acalled(entry: Any, arguments: dict[str, Any], *, stream: bool) -> None:
    asyncio.run(_acall(entry, arguments, stream=stream))


@pytest.mark.filterwarnings("ignore")  # the router's own, where it is made
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", [_bare, _router, _two_deployments, _fallback, _content_policy])
@pytest.mark.parametrize("failure", ["500", "429", "reset", "cut"])
def test_a_call_that_fails_was_sent_once(
    session: ContextSession,
    upstream: Upstream,
    second: Upstream,
    failure: str,
    way: Callable[..., tuple[Any, dict[str, Any]]],
    asynchronous: bool,
    stream: bool,
) -> None:
    for server in (upstream, second):
        if failure.isdecimal():
            server.status, server.body = int(failure), b'{"error": {"message": "no"}}'
        elif failure == "reset":
            server.reset = True
        else:
            server.events, server.cut = events("one", finish=None, usage=False, done=False), True
    entry, arguments = way(upstream, second)
    call = _acalled if asynchronous else _call
    with session.turn("d"), pytest.raises(Exception):  # noqa: B017 - a router wraps what it meets
        call(entry, arguments, stream=stream)
    assert len(upstream.requests) + len(second.requests) == 1
    assert state(session) is (State.FAILED_DEFINITE if failure == "429" else State.AMBIGUOUS)


def _retried_by_policy(upstream: Upstream, second: Upstream) -> tuple[Any, dict[str, Any]]:
    policy = litellm.RetryPolicy(InternalServerErrorRetries=2, RateLimitErrorRetries=2, TimeoutErrorRetries=2)
    return _router(upstream, second, retry_policy=policy)


@pytest.mark.filterwarnings("ignore")  # the router's own, where it is made
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", [_router, _retried_by_policy, _two_deployments])
@pytest.mark.parametrize(("status", "raises"), [(500, AmbiguousInvocation), (429, litellm.RateLimitError)])
def test_a_routers_retries_end_in_what_went_wrong(
    session: ContextSession,
    upstream: Upstream,
    second: Upstream,
    way: Callable[..., tuple[Any, dict[str, Any]]],
    asynchronous: bool,
    status: int,
    raises: type[Exception],
) -> None:
    for server in (upstream, second):
        server.status, server.body = status, b'{"error": {"message": "no"}}'
    entry, arguments = way(upstream, second)
    call = _acalled if asynchronous else _call
    with session.turn("d"), pytest.raises(raises):
        call(entry, arguments, stream=False)
    assert len(upstream.requests) + len(second.requests) == 1


def test_another_call_in_a_turn_whose_call_failed_is_refused(session: ContextSession, upstream: Upstream) -> None:
    upstream.status, upstream.body = 500, b'{"error": {"message": "no"}}'
    with session.turn("d"):
        with pytest.raises(AmbiguousInvocation):
            litellm.completion(messages=MESSAGES, **upstream.arguments)
        with pytest.raises(UnmanagedCall):
            litellm.completion(messages=MESSAGES, temperature=0, **upstream.arguments)
    assert len(upstream.requests) == 1
