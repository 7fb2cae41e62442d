"""What leaves is what was admitted: whatever litellm adds to a request, and whoever changes it meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import json
from collections.abc import Callable
from typing import Any

import pytest

from mn_contract.errors import AmbiguousInvocation, InvalidInput, UnmanagedCall, UnusableResponse
from mn_contract.invocations import State
from mn_sdk.context_session import ContextSession, provider
from mn_sdk.context_session.leaving import Leaving
from tests.scenario.session.test_outcomes import state
from tests.scenario.session.upstream import Upstream, events

litellm = provider.load()
Opener = Callable[..., ContextSession]
TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}},
}
MESSAGES = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "hello"}]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "properties": {}}}}
EMPTY = [
    MESSAGES[0],
    *(part for _ in range(200) for part in ({"role": "user", "content": "q"}, {"role": "assistant", "content": ""})),
    {"role": "user", "content": "end"},
]
CALLED = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ANSWERED = [
    *MESSAGES,
    {"role": "assistant", "content": None, "tool_calls": [CALLED]},
    {"role": "tool", "tool_call_id": "c", "content": "r"},
]
SONNET_4 = "anthropic/claude-sonnet-4-20250514"
DATABRICKS = "databricks/databricks-claude-3-7-sonnet"
"""Speaks OpenAI's form, and gets a tool in place of a schema."""


def _done(answer: Any) -> Any:
    return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer


def tight(open_session: Opener, model: str, **asked: Any) -> ContextSession:
    """A session whose window holds the request, as it is counted, and no token more."""
    probe = open_session(policy={"window_tokens": 100_000, "output_tokens": 100, "safety_tokens": 0})
    tokens = probe.capacity({"model": model, **asked}).tokens
    probe.close()
    return open_session(policy={"window_tokens": tokens + 100, "output_tokens": 100, "safety_tokens": 0})


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("model", "asked", "added"),
    [
        (SONNET_4, {"messages": EMPTY}, "Empty message content"),
        (SONNET_4, {"messages": MESSAGES, "response_format": SCHEMA}, "json_tool_call"),
        (SONNET_4, {"messages": ANSWERED}, "dummy tool"),
        ("moonshot/kimi-k2-0711-preview", {"messages": MESSAGES, "tools": [TOOL], "tool_choice": "required"}, "select"),
    ],
)
def test_what_litellm_adds_beyond_the_budget_is_not_sent(
    open_session: Opener, upstream: Upstream, model: str, asked: dict[str, Any], added: str, asynchronous: bool
) -> None:
    session = tight(open_session, model, **asked)
    reached = {**upstream.arguments, "model": model}
    made: Any = session.acomplete if asynchronous else session.complete
    with pytest.raises(UnmanagedCall) as refused:
        _done(made("d", **asked, **reached))
    assert any(added in text for text in refused.value.detail["added"])
    assert refused.value.detail["tokens"] > refused.value.detail["input_budget"]
    assert upstream.requests == []
    assert state(session) is State.FAILED_DEFINITE


def full(open_session: Opener) -> ContextSession:
    """A session whose records fill the room that is left beside a small request."""
    session = open_session(policy={"window_tokens": 4000, "output_tokens": 500, "safety_tokens": 0, "packet_target": 1})
    for number in range(60):
        session.observe(f"The price of item {number} was set to {number * 7}. " * 8, event_id=f"e{number}")
    return session


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", [SONNET_4, DATABRICKS])
def test_records_make_room_for_what_litellm_adds(
    open_session: Opener, upstream: Upstream, model: str, stream: bool, asynchronous: bool
) -> None:
    """Invariant 1: what would not fit beside the largest packet is sent with a smaller one, once; the next request of
    the kind has the room from the start. litellm sends some providers' streams with the first read only."""
    session = full(open_session)
    upstream.events = events("yes") if stream else []
    given = {**upstream.arguments, "model": model, "messages": MESSAGES, "stream": stream, "response_format": SCHEMA}

    async def whole(name: str) -> None:
        answer = await session.acomplete(name, focus="price of item", **given)
        if stream:
            async for _ in answer:
                pass

    def call(name: str) -> list[State]:
        with contextlib.suppress(UnusableResponse, AmbiguousInvocation):  # this server is no Anthropic
            if asynchronous:
                asyncio.run(whole(name))
            else:
                list(session.complete(name, focus="price of item", **given))
        return [attempt.state for attempt in session.attempts(name)]

    first, *rest = call("d")
    assert (first, len(rest)) == (State.FAILED_DEFINITE, 1)
    assert rest[0] is not State.FAILED_DEFINITE
    assert len(call("e")) == 1
    assert len(upstream.requests) == 2
    for name in "de":
        report = session.seen(name).report
        assert report.items
        assert report.tokens + report.margin <= report.input_budget


def test_a_smaller_packet_does_not_turn_the_rotation_further(open_session: Opener, upstream: Upstream) -> None:
    given = {**upstream.arguments, "model": DATABRICKS, "messages": MESSAGES, "response_format": SCHEMA}
    session = full(open_session)
    with session.turn("d", focus="price of item", rotation="round") as turn:
        litellm.completion(**given)
    assert turn.report is not None
    assert [attempt.attempt for attempt in session.attempts("d")] == [1, 2]
    assert session.journal.cursor("round") == turn.report.next_rotation


@pytest.mark.parametrize("stream", [False, True])
def test_instructions_that_litellm_rewrites_are_not_sent(
    session: ContextSession, upstream: Upstream, stream: bool
) -> None:
    reached = {**upstream.arguments, "model": "mistral/magistral-medium-latest"}
    with session.turn("d"), pytest.raises(UnmanagedCall, match="instructions"):
        list(litellm.completion(messages=MESSAGES, reasoning_effort="high", stream=stream, **reached))
    assert upstream.requests == []
    assert state(session) is State.FAILED_DEFINITE


def test_what_litellm_adds_and_fits_is_counted(session: ContextSession, upstream: Upstream) -> None:
    reached = {**upstream.arguments, "model": "moonshot/kimi-k2-0711-preview"}
    admitted = session.capacity({"messages": MESSAGES, "tools": [TOOL], "model": reached["model"]})
    with session.turn("d") as turn:
        litellm.completion(messages=MESSAGES, tools=[TOOL], tool_choice="required", **reached)
    assert len(upstream.requests[0]["messages"]) == len(MESSAGES) + 1
    assert turn.report is not None
    assert turn.report.tokens + turn.report.margin > admitted.tokens + 8
    assert turn.report.tokens == sum(part["tokens"] for part in turn.report.parts)
    assert session.seen("d").report.tokens == turn.report.tokens


def test_a_plain_request_is_sent_as_it_was_counted(session: ContextSession, upstream: Upstream) -> None:
    with session.turn("d") as turn:
        litellm.completion(messages=MESSAGES, tools=[TOOL], **upstream.arguments)
    assert turn.report is not None
    assert turn.report.exact
    assert [part["part"] for part in turn.report.parts] == [
        "messages[0]", "messages[1]", "tools[0] f", "tools", "reply",
    ]  # fmt: skip


@pytest.mark.parametrize("step", range(1, 9))
def test_what_a_caller_changes_meanwhile_changes_nothing(open_session: Opener, upstream: Upstream, step: int) -> None:
    """Changed at each place where the session asks whether it may go on."""
    parts = [{"type": "text", "text": "Be short."}]
    messages = [{"role": "system", "content": parts}, MESSAGES[1]]
    tools = [{"type": "function", "function": {"name": "f", "description": "short"}}]
    asked: list[int] = []
    in_turn = False

    def cancelled() -> bool:
        asked.extend([1] if in_turn else [])
        if len(asked) == step:
            parts[0]["text"] = "CHANGED"
            tools[0]["function"]["description"] = "CHANGED"  # type: ignore[index]
        return False

    session = open_session(cancelled=cancelled)
    with session.turn("d"):
        in_turn = True
        litellm.completion(messages=messages, tools=tools, **upstream.arguments)
    assert "CHANGED" not in str(upstream.requests[0])
    assert session.seen("d").request["messages"] == upstream.requests[0]["messages"]


def test_an_enum_is_its_value(session: ContextSession, upstream: Upstream) -> None:
    class Name(enum.StrEnum):
        TOOL = "search"

    session.complete(
        "d", messages=MESSAGES, tools=[{"type": "function", "function": {"name": Name.TOOL}}], **upstream.arguments
    )
    assert upstream.requests[0]["tools"][0]["function"]["name"] == "search"
    assert any(part["part"] == "tools[0] search" for part in session.seen("d").report.parts)


@pytest.mark.parametrize(
    "tool",
    [{"type": "bash_20250124", "name": "bash"}, {"type": "text_editor_20250429", "name": "e"}, {"googleSearch": {}},
     {"type": "web_search_preview"}, {"type": "file_search"}, {"type": "code_interpreter"}, {"type": "mcp"},
     {"type": "computer_20250124", "function": {"name": "computer"}}],
)  # fmt: skip
def test_a_providers_own_tools_are_refused(session: ContextSession, upstream: Upstream, tool: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        session.complete("d", messages=MESSAGES, tools=[TOOL, tool], **upstream.arguments)
    assert refused.value.field == "tools[1]"
    assert upstream.requests == []


def test_functions_are_not_written_into_a_prompt(session: ContextSession, upstream: Upstream) -> None:
    reached = {**upstream.arguments, "model": "ollama/llama3"}
    for given in ({"tools": [TOOL]}, {"functions": [TOOL["function"]]}):
        with pytest.raises(InvalidInput) as refused:
            session.complete("d", messages=MESSAGES, **given, **reached)
        assert refused.value.field in given
    assert upstream.requests == []


NAMED = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"properties": {"price_cap": {}}}}}
FORCED = {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}}


@pytest.mark.parametrize(
    ("model", "asked", "lost"),
    [
        ("openai/gpt-4o", {"response_format": NAMED, "drop_params": True,
                           "additional_drop_params": ["response_format"]}, "the schema"),
        ("cohere_chat/command-r", FORCED, "tool_choice"),
        ("ollama_chat/llama3", FORCED, "tool_choice"),
        ("openai/gpt-4o", {"tools": [{"type": "function", "function": {"name": "look_up"}}],
                           "drop_params": True, "additional_drop_params": ["tools"]}, "'look_up'"),
    ],
)  # fmt: skip
def test_a_part_that_litellm_leaves_out_stops_the_send(
    session: ContextSession, upstream: Upstream, model: str, asked: dict[str, Any], lost: str
) -> None:
    reached = {**upstream.arguments, "model": model}
    with pytest.raises(UnmanagedCall, match=lost):
        session.complete("d", messages=MESSAGES, **asked, **reached)
    assert upstream.requests == []
    assert state(session) is State.FAILED_DEFINITE


def test_a_schema_that_litellm_writes_into_a_message_is_sent(session: ContextSession, upstream: Upstream) -> None:
    reached = {**upstream.arguments, "model": "zai/glm-4.6"}
    session.complete("d", messages=MESSAGES, response_format=NAMED, **reached)
    assert "price_cap" in upstream.requests[0]["messages"][-1]["content"]


def leaving(session: ContextSession, **asked: Any) -> Leaving:
    """A request on its way that takes all of its budget."""
    given = {"model": "openai/gpt-4o", "messages": MESSAGES, **asked}
    counting = session.dispatcher.counting
    count = counting.count(given, "openai/gpt-4o")
    return Leaving(asked=given, model="openai/gpt-4o", count=count, input_budget=count.upper, counting=counting)


@pytest.mark.parametrize("name", ["tool_choice", "function_call"])
def test_a_choice_that_is_not_sent_is_noticed(session: ContextSession, name: str) -> None:
    way = leaving(session, tools=[TOOL], **{name: "required"})
    sent = {key: value for key, value in way.asked.items() if key != name}
    way.check("http://x/v1/chat/completions", json.dumps(way.asked).encode())
    with pytest.raises(UnmanagedCall, match="tool_choice"):
        way.check("http://x/v1/chat/completions", json.dumps(sent).encode())


def test_members_that_are_added_are_counted(session: ContextSession) -> None:
    way = leaving(session)
    way.check("http://x/v1/chat/completions", json.dumps({**way.asked, "temperature": 1}).encode())
    with pytest.raises(UnmanagedCall, match="more than"):
        way.check("http://x/v1/chat/completions", json.dumps({**way.asked, "documents": ["a text"]}).encode())


def test_what_leaves_in_place_of_a_request_has_the_margin_that_it_needs(session: ContextSession) -> None:
    way = leaving(session)
    longer = {**way.asked, "messages": [*MESSAGES, {"role": "user", "content": "more"}]}
    found = way.counting.sent(way.count, way.asked, longer, model=way.model, api="chat")
    assert (way.count.exact, found.exact) == (True, False)
    armed = {**way.asked, "documents": ["a text"]}
    found = way.counting.sent(way.count, way.asked, armed, model=way.model, api="chat")
    assert found.margin - way.count.margin == way.counting.count(armed, way.model).margin - way.count.margin > 0


@pytest.mark.parametrize(("name", "value"), [("tools", [TOOL]), ("response_format", SCHEMA)])
def test_a_completion_of_text_takes_neither_functions_nor_a_schema(
    session: ContextSession, upstream: Upstream, name: str, value: Any
) -> None:
    """litellm lists them, and its client fails on them when it is to send."""
    reached = {**upstream.arguments, "model": "text-completion-openai/gpt-3.5-turbo-instruct"}
    with pytest.raises(InvalidInput) as refused:
        session.complete("d", messages=MESSAGES, **{name: value}, **reached)
    assert refused.value.field == name
    assert session.attempts("d") == ()


def test_a_setting_that_litellm_makes_itself_stops_nobody(
    session: ContextSession, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litellm, "add_function_to_prompt", True)  # as a call outside of any turn leaves it
    session.complete("d", messages=MESSAGES, tools=[TOOL], **upstream.arguments)
    assert upstream.requests[0]["messages"] == MESSAGES
