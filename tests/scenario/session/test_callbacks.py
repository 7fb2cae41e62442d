"""What passes beside the provider's request in a dispatch: it proves nothing, and nothing is done to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from litellm.integrations.custom_logger import CustomLogger

from mn_contract.errors import ContextError, UnmanagedCall
from mn_contract.invocations import State
from mn_sdk.context_session import ContextSession, provider
from mn_sdk.context_session.wiretap import Exchange, recording
from tests.scenario.session.test_outcomes import MESSAGES, state
from tests.scenario.session.upstream import Upstream, events

litellm = provider.load()


@pytest.fixture
def elsewhere() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def callbacks() -> Iterator[None]:
    """litellm spreads its callbacks over several lists, and never takes them back."""
    yield
    litellm.logging_callback_manager._reset_all_callbacks()


class Posting(CustomLogger):
    """Posts to a server of its own, before the call and after it."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.answers: list[int] = []

    def log_pre_api_call(self, model: Any, messages: Any, kwargs: Any) -> None:
        self.answers.append(httpx.post(f"{self._url}/begun", json={}).status_code)

    def log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        self.answers.append(httpx.post(self._url, json={}).status_code)

    async def async_log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        async with httpx.AsyncClient() as client:
            self.answers.append((await client.post(self._url, json={})).status_code)


async def _acall(session: ContextSession, arguments: dict[str, Any], *, stream: bool) -> None:
    answer = await session.acomplete("d", messages=MESSAGES, stream=stream, **arguments)
    if stream:
        _ = [chunk async for chunk in answer]


def _acalled(session: ContextSession, arguments: dict[str, Any], *, stream: bool) -> None:
    asyncio.run(_acall(session, arguments, stream=stream))


def _call(session: ContextSession, arguments: dict[str, Any], *, stream: bool) -> None:
    answer = session.complete("d", messages=MESSAGES, stream=stream, **arguments)
    if stream:
        list(answer)


@pytest.mark.parametrize("logged", [200, 401], ids=["log-taken", "log-refused"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("failure", "becomes"),
    [("500", State.AMBIGUOUS), ("429", State.FAILED_DEFINITE), ("reset", State.AMBIGUOUS), ("cut", State.AMBIGUOUS)],
)
def test_what_a_callback_sends_says_nothing_about_the_call(
    session: ContextSession,
    upstream: Upstream,
    elsewhere: Upstream,
    failure: str,
    becomes: State,
    asynchronous: bool,
    stream: bool,
    logged: int,
) -> None:
    if failure.isdecimal():
        upstream.status, upstream.body = int(failure), b'{"error": {"message": "no"}}'
    elif failure == "reset":
        upstream.reset = True
    else:
        upstream.events, upstream.cut = events("one", finish=None, usage=False, done=False), True
    elsewhere.status = logged
    posting = Posting(elsewhere.base)
    litellm.callbacks = [posting]
    call = _acalled if asynchronous else _call
    with pytest.raises(Exception) as raised:
        call(session, upstream.arguments, stream=stream)
    assert isinstance(raised.value, ContextError) is (becomes is State.AMBIGUOUS)
    assert state(session) is becomes
    assert len(upstream.requests) == 1
    assert posting.answers
    assert set(posting.answers) == {logged}


def _about_to_send(exchange: Exchange, server: Upstream) -> None:
    exchange.on_log({"log_event_type": "pre_api_call", "additional_args": {"api_base": server.base}})


def test_an_exchange_is_about_the_providers_request_alone(upstream: Upstream, elsewhere: Upstream) -> None:
    upstream.status = 500
    elsewhere.status = 401
    exchange = Exchange(20)
    with recording(exchange), httpx.Client() as client:
        client.post(elsewhere.base, json={})
        assert (exchange.sent, exchange.status) == (1, 401)  # as long as nobody says where the provider is
        _about_to_send(exchange, upstream)
        assert (exchange.sent, exchange.status) == (0, None)
        client.post(elsewhere.base, json={})
        assert exchange.sent == 0
        client.post(f"{upstream.base}/chat/completions", json={})
        client.post(elsewhere.base, json={})
        assert (exchange.sent, exchange.status, exchange.failure) == (1, 500, None)
        with pytest.raises(UnmanagedCall):
            client.post(f"{upstream.base}/responses", json={})
    assert (len(upstream.requests), len(elsewhere.requests)) == (1, 3)


def _sees(request: httpx.Request) -> int:
    exchange = Exchange(20)

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200)

    with recording(exchange), httpx.Client(transport=httpx.MockTransport(answer)) as client:
        client.send(request)
    return exchange.sent


def test_a_token_that_is_fetched_is_no_call() -> None:
    url = "https://login.example/token"
    assert _sees(httpx.Request("POST", url, data={"grant_type": "client_credentials"})) == 0
    assert _sees(httpx.Request("GET", url)) == 0
    assert _sees(httpx.Request("POST", url, json={})) == 1


def test_what_goes_elsewhere_during_a_dispatch_is_left_as_it_is(upstream: Upstream, elsewhere: Upstream) -> None:
    """No limit of time, and redirects as its client would have them."""
    elsewhere.status, elsewhere.headers = 307, {"location": upstream.base}
    exchange = Exchange(-1)
    exchange.on_log({"log_event_type": "pre_api_call", "additional_args": {"api_base": "https://provider.example/v1"}})
    with recording(exchange), httpx.Client(follow_redirects=True) as client:
        assert client.post(elsewhere.base, json={}).status_code == 200
        assert client.post(elsewhere.base, json={}).status_code == 200
    assert exchange.sent == 0


def test_an_exchange_that_has_ended_is_nobodys(upstream: Upstream) -> None:
    exchange = Exchange(-1)
    _about_to_send(exchange, upstream)
    exchange.end()
    with recording(exchange), httpx.Client() as client:
        for _ in range(2):
            assert client.post(upstream.base, json={}).status_code == 200
    assert exchange.sent == 0


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_task_that_was_begun_in_a_dispatch_goes_on_after_it(
    session: ContextSession, upstream: Upstream, stream: bool
) -> None:
    """A logger that posts in batches is started by the first call that it logs, and bears its context for good."""
    answers: list[int] = []
    done: list[asyncio.Event] = []
    tasks: list[asyncio.Task[None]] = []

    async def post() -> None:
        await done[0].wait()
        async with httpx.AsyncClient() as client:
            for _ in range(2):
                answers.append((await client.post(upstream.base, json={})).status_code)

    class Batching(CustomLogger):
        async def async_pre_call_deployment_hook(self, kwargs: Any, call_type: Any) -> None:
            tasks.append(asyncio.create_task(post()))

    litellm.callbacks = [Batching()]
    upstream.events = events("one") if stream else []

    async def main() -> None:
        done.append(asyncio.Event())
        await _acall(session, upstream.arguments, stream=stream)
        done[0].set()
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert tasks
    assert set(answers) == {200}
    assert len(answers) == 2 * len(tasks)
    assert state(session) is State.COMPLETED
