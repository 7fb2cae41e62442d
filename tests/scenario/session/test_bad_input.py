"""Bad input and bad providers: each ends in a typed error and a state that says what is known."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from typing import Any

import openai
import pytest

from mn_contract.errors import AmbiguousInvocation, InvalidInput, RunClosed, UnusableResponse
from mn_contract.invocations import State
from mn_sdk.context_session import ContextPolicy, ContextSession
from tests.scenario.session.upstream import Upstream, completion, events

Opener = Callable[..., ContextSession]
MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": json.dumps({"goal": "g"})}]


def user(content: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


def tool(parameters: Any) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": "f", "parameters": parameters}}]


def endless() -> dict[str, Any]:
    """A schema that holds itself, as an object of Python's may."""
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"again": schema}
    return schema


def call(session: ContextSession, upstream: Upstream, name: str = "bad", **more: Any) -> str:
    answer = session.complete(name, **{"messages": MESSAGES, **upstream.arguments, **more})
    if more.get("stream"):
        return "".join(chunk.choices[0].delta.content or "" for chunk in answer)
    return str(answer.choices[0].message.content)


def state(session: ContextSession, name: str = "bad") -> State | None:
    newest = session.journal.invocations.newest(name)
    return None if newest is None else newest.state


@pytest.fixture
def session(open_session: Opener, upstream: Upstream) -> ContextSession:
    """A session that has paid for an answer."""
    session = open_session()
    assert call(session, upstream, "before") == "yes"
    return session


def check_unharmed(session: ContextSession, upstream: Upstream) -> None:
    """What was paid for before is replayed, the journal is sound, and the next call is made."""
    sent = len(upstream.requests)
    upstream.status, upstream.body, upstream.events, upstream.cut, upstream.reset = 200, completion(), [], False, False
    assert call(session, upstream, "before") == "yes"
    assert len(upstream.requests) == sent
    with session.journal.rows.read() as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert call(session, upstream, "after") == "yes"
    assert len(upstream.requests) == sent + 1


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("model", {"model": ""}),
        ("tools", {"tools": "x"}),
        ("tools[0]", {"tools": [5]}),
        ("tools", {"tools": tool(endless())}),
        ("tools", {"tools": tool({"type": "number", "minimum": math.nan})}),
        ("response_format", {"response_format": "json"}),
        ("response_format", {"response_format": {"type": "json_schema", "json_schema": {"schema": endless()}}}),
        ("messages[0]", {"messages": user(b"\x00\xff")}),
        ("messages[0]", {"messages": user([{"type": "text", "text": b"x"}])}),
        ("messages[0].content", {"messages": user([{"type": "image_url", "image_url": {"url": "data:,AA=="}}])}),
        ("messages[0].content", {"messages": user([{"type": "input_audio", "input_audio": {"data": "AA=="}}])}),
        ("messages", {"messages": user("\ud800")}),
        ("max_tokens", {"max_tokens": -5}),
        ("max_tokens", {"max_tokens": 10**9}),
        ("timeout", {"timeout": -1}),
    ],
)
def test_a_request_that_cannot_be_built_is_refused_and_sends_nothing(
    session: ContextSession, upstream: Upstream, field: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput) as refused:
        call(session, upstream, **arguments)
    assert refused.value.field == field
    assert len(upstream.requests) == 1
    assert state(session) in (None, State.FAILED_DEFINITE)
    assert call(session, upstream) == "yes", "the name is free"
    check_unharmed(session, upstream)


@pytest.mark.parametrize(
    "arguments",
    [
        {"model": "openai/gpt-99"},
        {"messages": [MESSAGES[0], {"role": "user", "content": "no JSON {"}]},
        {"tools": tool({"$ref": "#"})},
        {"tools": tool({"$defs": {"n": {"properties": {"next": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"})},
        {"tools": tool({"$ref": "#/nowhere"})},
        {"tools": tool({"type": 5, "properties": []})},
        {"tools": tool("no schema")},
        {"tools": [{"type": "function"}]},
    ],
)
def test_what_only_the_provider_can_judge_is_counted_and_sent_and_free_where_it_declines(
    session: ContextSession, upstream: Upstream, arguments: dict[str, Any]
) -> None:
    """A model that nobody knows, texts that are no JSON, and schemas that are recursive or none."""
    upstream.status, upstream.body = 400, b'{"error": {"message": "no"}}'
    with pytest.raises(openai.OpenAIError):
        call(session, upstream, **arguments)
    assert state(session) is State.FAILED_DEFINITE
    upstream.status, upstream.body = 200, completion("judged")
    assert call(session, upstream, **arguments) == "judged"
    assert len(upstream.requests) == 3
    check_unharmed(session, upstream)


@pytest.mark.parametrize(
    "policy",
    [
        {"window_tokens": 1000, "output_tokens": 900, "safety_tokens": 100},
        {"window_tokens": -1},
        {"output_tokens": -1},
        {"max_calls": -1},
        {"max_storage_bytes": -1},
        {"deadline_seconds": -1},
    ],
)
def test_a_budget_that_leaves_nothing_is_no_policy(policy: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        ContextPolicy(**policy)
    assert refused.value.field in policy


@pytest.mark.parametrize(
    ("fault", "options", "error", "left"),
    [
        ({"body": b"<html>busy</html>"}, {}, UnusableResponse, State.RESPONDED),
        ({"status": 429, "body": b"{}"}, {}, openai.RateLimitError, State.FAILED_DEFINITE),
        ({"status": 500, "body": b"{}"}, {}, AmbiguousInvocation, State.AMBIGUOUS),
        ({"reset": True}, {}, AmbiguousInvocation, State.AMBIGUOUS),
        ({"hold": lambda: threading.Event().wait(2)}, {"timeout": 0.3}, AmbiguousInvocation, State.AMBIGUOUS),
        ({"events": events("a", finish=None), "cut": True}, {"stream": True}, AmbiguousInvocation, State.AMBIGUOUS),
    ],
    ids=["garbage", "429", "500", "reset", "hang", "cut stream"],
)
def test_a_provider_that_fails_leaves_a_state_that_says_what_is_known(
    session: ContextSession,
    upstream: Upstream,
    fault: dict[str, Any],
    options: dict[str, Any],
    error: type[Exception],
    left: State,
) -> None:
    for name, value in fault.items():
        setattr(upstream, name, value)
    with pytest.raises(error):
        call(session, upstream, **options)
    upstream.hold = lambda: None
    assert state(session) is left
    assert len(upstream.requests) == 2
    check_unharmed(session, upstream)


def test_a_run_that_is_cancelled_in_a_call_loses_nothing(open_session: Opener, upstream: Upstream) -> None:
    stop = threading.Event()
    session = open_session(cancelled=stop.is_set)
    assert call(session, upstream, "before") == "yes"
    upstream.hold = stop.set
    with pytest.raises(RunClosed):
        call(session, upstream)
    assert state(session) is State.COMPLETED
    stop.clear()
    upstream.hold = lambda: None
    assert call(session, upstream) == "yes"
    assert len(upstream.requests) == 2
    check_unharmed(session, upstream)
