"""One conversation in the form of each API is one request to the rules; what has no form is refused, never a crash."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mn_contract.errors import InvalidInput
from mn_tokens import Api, Count, check_request, count
from mn_tokens.reading import SHAPES
from mn_tokens.reading.walk import groups_of, items_of, read_group
from mn_tokens.request import Call, Choice, Envelope, Message, Result

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FORM = {"type": "object", "properties": {"days": {"type": "integer"}}}
FUNCTION = {"name": "weather", "description": "Weather.", "parameters": PARAMETERS}
ARGUMENTS = {"city": "Oslo"}

CHAT = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Weather "}, {"type": "text", "text": "in Oslo?"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "sunny"},
    ],
    "tools": [{"type": "function", "function": FUNCTION}],
    "tool_choice": {"type": "function", "function": {"name": "weather"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "", "schema": FORM}},
}
RESPONSES = {
    "instructions": "Be brief.",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "Weather in Oslo?"}]},
        {"type": "function_call", "call_id": "a", "name": "weather", "arguments": '{"city":"Oslo"}'},
        {"type": "function_call_output", "call_id": "a", "output": "sunny"},
    ],
    "tools": [{"type": "function", **FUNCTION}],
    "tool_choice": {"type": "function", "name": "weather"},
    "text": {"format": {"type": "json_schema", "name": "", "schema": FORM}},
}
ANTHROPIC = {
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": "Weather in Oslo?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "weather", "input": ARGUMENTS}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "sunny"}]},
    ],
    "tools": [{"name": "weather", "description": "Weather.", "input_schema": PARAMETERS}],
    "tool_choice": {"type": "tool", "name": "weather"},
    "output_config": {"format": {"type": "json_schema", "schema": FORM}},
    "max_tokens": 9,
}
GEMINI = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "Weather in Oslo?"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "weather", "args": ARGUMENTS}}]},
        {"role": "user", "parts": [{"function_response": {"name": "weather", "response": {"a": "sunny"}}}]},
    ],
    "tools": [{"functionDeclarations": [FUNCTION]}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
    "generationConfig": {"responseSchema": FORM},
}
CONVERSE = {
    "system": [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}],
    "messages": [
        {"role": "user", "content": [{"text": "Weather in Oslo?"}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "weather", "input": ARGUMENTS}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": [{"text": "sunny"}]}}]},
    ],
    "toolConfig": {
        "tools": [{"toolSpec": {"name": "weather", "description": "Weather.", "inputSchema": {"json": PARAMETERS}}}],
        "toolChoice": {"tool": {"name": "weather"}},
    },
    "outputConfig": {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"schema": json.dumps(FORM)}}}},
}
FORMS: Mapping[Api, dict[str, Any]] = {
    "chat": CHAT,
    "responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "converse": CONVERSE,
}


def read(request: Mapping[str, Any], api: Api) -> tuple[Envelope, list[Message]]:
    shape = SHAPES[api]
    envelope = shape.envelope({key: value for key, value in request.items() if key != shape.items})
    groups = groups_of(items_of(request, shape), shape)
    return envelope, [message for start, group in groups for message in read_group(group, start, shape)]


def test_every_api_has_a_reader() -> None:
    assert set(SHAPES) == set(get_args(Api)) == set(FORMS)


@pytest.mark.parametrize("api", FORMS)
def test_a_conversation_reads_alike_in_every_form(api: Api) -> None:
    envelope, messages = read(FORMS[api], api)
    said = [*envelope.instructions, *messages]
    assert [message.text for message in said] == ["Be brief.", "Weather in Oslo?", "", ""]
    assert [(call.name, json.loads(call.arguments)) for call in said[2].calls] == [("weather", ARGUMENTS)]
    assert "sunny" in said[3].results[0].text
    (tool,) = envelope.tools
    assert (tool.name, tool.description, tool.parameters, envelope.strange) == ("weather", "Weather.", PARAMETERS, ())
    assert envelope.choice == (Choice("required") if api == "gemini" else Choice("named", "weather"))
    assert envelope.schema is not None
    assert envelope.schema.schema == FORM


@pytest.mark.parametrize("api", FORMS)
def test_every_form_is_counted_to_about_the_same(api: Api) -> None:
    model = "anthropic/claude-sonnet-4-5"
    assert abs(count(FORMS[api], model=model, api=api).tokens - count(CHAT, model=model).tokens) <= 24


@pytest.mark.parametrize("api", FORMS)
def test_ledger_lines_name_the_form_they_were_written_in(api: Api) -> None:
    lines = [part.part for part in count(FORMS[api], model="gpt-4o", api=api).ledger]
    assert f"{SHAPES[api].items}[0]" in lines
    assert "tools[0] weather" in lines
    assert {"response_format", "reply"} < set(lines)


PICTURES: Mapping[Api, dict[str, Any]] = {
    "chat": {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "aa"}}]}]},
    "responses": {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
    "anthropic": {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
    "gemini": {"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": "aa"}}]}]},
    "converse": {"messages": [{"role": "user", "content": [{"document": {"bytes": "aa"}}]}]},
}


@pytest.mark.parametrize("api", PICTURES)
def test_what_is_no_text_is_refused_and_the_place_named(api: Api) -> None:
    with pytest.raises(InvalidInput) as refused:
        count(PICTURES[api], model="gpt-4o", api=api)
    assert refused.value.field.startswith(f"{SHAPES[api].items}[0].")


@pytest.mark.parametrize(
    ("api", "more"),
    [
        ("responses", {"previous_response_id": "resp_1"}),
        ("responses", {"conversation": "conv_1"}),
        ("responses", {"prompt": {"id": "pmpt_1"}}),
        ("gemini", {"cachedContent": "cachedContents/1"}),
    ],
)
def test_what_the_provider_keeps_cannot_be_counted(api: Api, more: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        count({**FORMS[api], **more}, model="gpt-4o", api=api)
    assert refused.value.field == next(iter(more))


@pytest.mark.parametrize(
    ("api", "more"),
    [
        ("responses", {"tools": [{"type": "web_search"}]}),
        ("anthropic", {"output_config": {"task_budget": {"type": "tokens", "total": 20_000}}}),
        ("anthropic", {"tools": [{"type": "bash_20250124", "name": "bash"}]}),
        ("gemini", {"tools": [{"googleSearch": {"exclude": ["a"]}}]}),
        ("gemini", {"generationConfig": {"routingConfig": {"a": 1}}}),
        ("converse", {"promptVariables": {"a": {"text": "x"}}}),
    ],
)
def test_what_no_reader_knows_is_counted_and_named(api: Api, more: dict[str, Any]) -> None:
    request = {key: value for key, value in FORMS[api].items() if key in (SHAPES[api].items, "system")}
    without, counted = (count(one, model="gpt-4o", api=api) for one in (request, {**request, **more}))
    assert not counted.exact
    assert counted.tokens >= without.tokens + 5
    assert any(reason.startswith("no rule knows all of ") for reason in counted.reasons)


KEYS = st.sampled_from([
    "role", "content", "type", "text", "parts", "tools", "function", "name", "arguments", "tool_calls", "system", "id",
    "input", "functionCall", "function_response", "toolUse", "toolResult", "parameters", "properties", "items", "$ref",
    "tool_choice", "response_format", "json_schema", "schema", "toolConfig", "functionDeclarations", "output_config",
    "anyOf", "enum", "output", "call_id", "thinking", "generationConfig", "responseSchema", "outputConfig", "required",
])  # fmt: skip
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=6), st.floats(allow_nan=True),
    st.sampled_from(["user", "assistant", "tool", "function", "tool_use", "tool_result", "text", "#/$defs/a"]),
)  # fmt: skip
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


@settings(max_examples=500)
@given(
    api=st.sampled_from(list(FORMS)),
    items=st.one_of(ANYTHING, st.lists(st.dictionaries(KEYS, ANYTHING, max_size=4), max_size=3)),
    rest=st.dictionaries(KEYS, ANYTHING, max_size=3),
    model=st.sampled_from(["gpt-4o", "gpt-5", "claude-sonnet-4", "gemini-3-pro", "deepseek-chat", "nobody/knows"]),
)
def test_anything_at_all_is_counted_or_refused(api: Api, items: Any, rest: dict[str, Any], model: str) -> None:
    request = {**rest, SHAPES[api].items: items}
    try:
        counted = count(request, model=model, api=api)
    except InvalidInput:
        return
    check_request(request, api=api)
    assert counted.tokens == sum(part.tokens for part in counted.ledger)
    assert counted.margin >= 0


def of(api: Api, request: dict[str, Any]) -> Count:
    return count(request, model="gpt-4o", api=api)


def test_parts_of_a_responses_history_are_grouped_by_turn() -> None:
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "a", "output": "x"}
    shape = SHAPES["responses"]
    items = [
        {"role": "user", "content": "u"},
        call,
        call,
        result,
        result,
        call,
        result,
        {"role": "user", "content": "u"},
    ]
    assert [(start, len(group)) for start, group in groups_of(items, shape)] == [(0, 1), (1, 4), (5, 2), (7, 1)]


def test_bare_text_is_a_users_message() -> None:
    assert (
        of("responses", {"input": "hello"}).tokens
        == of("responses", {"input": [{"role": "user", "content": "hello"}]}).tokens
    )
    alone = {"contents": {"parts": {"text": "hello"}}}
    assert of("gemini", alone).tokens == of("gemini", {"contents": "hello"}).tokens


def test_a_results_name_is_its_calls() -> None:
    _, messages = read(CHAT, "chat")
    assert messages[2].calls == (Call("weather", '{"city":"Oslo"}'),)
    assert messages[3].results == (Result("weather", "sunny"),)


@pytest.mark.parametrize("odd", [["x"], {"a": 1}, 5])
@pytest.mark.parametrize(
    ("api", "request_"),
    [
        ("chat", lambda odd: {"messages": [{"role": "user", "content": "x"}], "response_format": {"type": odd}}),
        ("anthropic", lambda odd: {"messages": [{"role": "user", "content": [{"type": odd}]}]}),
        ("responses", lambda odd: {"input": [{"role": "user", "content": "x"}], "text": {"format": {"type": odd}}}),
        (
            "responses",
            lambda odd: {"input": "x", "tool_choice": {"type": "allowed_tools", "mode": odd}},
        ),
    ],
)
def test_a_type_that_is_no_text_is_refused_by_name(api: Api, request_: Any, odd: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        count(request_(odd), model="gpt-4o", api=api)
    assert str(refused.value.field).endswith(("type", "mode"))


@pytest.mark.parametrize("odd", [["x"], {"a": 1}])
def test_an_item_of_a_type_that_is_no_text_is_counted_as_it_stands(odd: Any) -> None:
    said = {"role": "user", "content": "x"}
    assert not count({"input": [said, {"type": odd, "content": "x"}, said]}, model="gpt-4o", api="responses").exact


def test_a_text_of_another_class_is_refused() -> None:
    class Name(enum.StrEnum):
        TOOL = "search"

    with pytest.raises(InvalidInput, match="Name"):
        count({"messages": [{"role": "user", "content": "x"}], "functions": [{"name": Name.TOOL}]}, model="gpt-4o")
