"""How OpenAI's models are shown a request, by what was billed for it."""

from __future__ import annotations

from typing import Any

import pytest

from mn_tokens import Count, count
from mn_tokens.openai_tools import function
from mn_tokens.request import Tool

USER = {"role": "user", "content": "hello"}


def declared(parameters: dict[str, Any], *, whole: bool = False) -> str:
    return function(Tool(name="f", description="", parameters=parameters), whole=whole)


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


@pytest.mark.parametrize(
    ("parameters", "shown"),
    [
        ({}, "()"),
        (an_object(a={"type": "integer"}, b={"type": ["string", "null"]}), "(_: { a: number, b: string | null })"),
        (an_object(a={"type": "string", "title": "A"}), "(_: {\n// A\na: string,\n})"),
        ({**an_object(a={"type": "string"}), "title": "Args"}, "(_: // Args\n{ a: string })"),
        (
            an_object(a={"type": "array", "items": {**an_object(b={"type": "string"}), "description": "One"}}),
            "(_: {\na: Array<\n// One\n{ b: string }\n>,\n})",
        ),
        (
            {
                **an_object(a={"$ref": "#/$defs/P"}),
                "$defs": {"P": {**an_object(b={"type": "string"}), "title": "P", "description": "Who"}},
            },
            "(_: {\na:\n// P\n//\n// Who\n{ b: string },\n})",
        ),
        (
            an_object(a={**an_object(b={"type": "string"}), "description": "Who"}),
            "(_: {\n// Who\na: { b: string },\n})",
        ),
    ],
)
def test_parameters_read_as_types(parameters: dict[str, Any], shown: str) -> None:
    assert declared(parameters) == f"type f = {shown} => any;\n\n"


def test_only_newer_models_are_shown_what_parameters_are_as_a_whole() -> None:
    parameters = {**an_object(a={"type": "string"}), "description": "All"}
    assert "All" not in declared(parameters)
    assert "(_: // All\n{ a: string })" in declared(parameters, whole=True)


def calls(*names: str) -> list[dict[str, Any]]:
    made = [{"id": name, "type": "function", "function": {"name": name, "arguments": '{"a": 1}'}} for name in names]
    results = [{"role": "tool", "tool_call_id": name, "content": "ok"} for name in names]
    return [USER, {"role": "assistant", "content": None, "tool_calls": made}, *results]


def lines(counted: Count) -> dict[str, int]:
    return {part.part: part.tokens for part in counted.ledger}


def test_calls_made_at_once_are_one_call_and_their_results_one_message() -> None:
    counted = lines(count({"messages": calls("f", "g")}, model="gpt-4o"))
    assert list(counted) == ["messages[0]", "messages[1]", "messages[2:4]", "reply"]
    assert list(lines(count({"messages": calls("f")}, model="gpt-4o"))) == [
        "messages[0]",
        "messages[1]",
        "messages[2]",
        "reply",
    ]


def test_the_fields_of_a_message_add_up_to_it() -> None:
    message = {"role": "user", "name": "ada", "content": "hello"}
    part = count({"messages": [message]}, model="gpt-4o").ledger[0]
    assert [name for name, _ in part.fields] == ["framing", "content", "name"]
    assert sum(cost for _, cost in part.fields) == part.tokens


def test_forms_whose_rendering_is_not_known_whole_widen_the_margin() -> None:
    step = an_object(b={"type": "string", "description": "What is done in this step, in some detail"})
    for parameters in (
        an_object(a={"type": "array", "items": step}),
        an_object(a={"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}),
    ):
        tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
        plain = {"type": "function", "function": {"name": "f", "parameters": an_object(a={"type": "string"})}}
        margins = [count({"messages": [USER], "tools": [one]}, model="gpt-4o").margin for one in (plain, tool)]
        assert margins[1] >= margins[0] + 4


def test_the_responses_api_keeps_tools_apart_from_the_instructions() -> None:
    tools = [{"type": "function", "name": "f", "parameters": {}}]
    costs = [
        lines(count({"input": "hello", "tools": tools, **more}, model="gpt-4o", api="responses"))
        for more in ({}, {"instructions": "Be brief."}, {"instructions": "Be brief"})
    ]
    assert len({one["tools"] for one in costs}) == 1
