"""What weights make of a request, and what of it tokenizers may differ on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mn_tokens import count
from mn_tokens.outlines import outlined

TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}


def asked(text: str = "hello", **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **more}


def test_an_anthropic_message_costs_seven_beside_its_text() -> None:
    assert count(asked("Hi"), model="claude-sonnet-4-5").tokens == 8


@pytest.mark.parametrize(("choice", "more"), [("auto", 0), ("required", 92), ("none", 0)])
def test_a_hidden_prompt_comes_with_tools_and_their_choice(choice: str, more: int) -> None:
    model = "claude-sonnet-4-5"
    without = count(asked(tools=[TOOL]), model=model).tokens
    assert count(asked(tools=[TOOL], tool_choice=choice), model=model).tokens == without + more
    assert without > count(asked(), model=model).tokens + 490


def test_deepseek_is_not_shown_tools_that_it_must_not_call() -> None:
    model = "deepseek/deepseek-chat"
    assert count(asked(tools=[TOOL], tool_choice="none"), model=model).tokens == count(asked(), model=model).tokens


def test_digits_are_tokens_of_their_own_where_they_are() -> None:
    spent = {n: count(asked("7" * n), model="gemini-2.5-flash").tokens for n in (1, 100)}
    assert spent[100] - spent[1] >= 99


def test_prose_is_not_doubted_and_a_word_said_over_and_over_is() -> None:
    prose = " ".join(f"word{n % 97}" for n in range(1000))
    model = "claude-sonnet-4"
    plain, over = (count(asked(text), model=model) for text in (prose, "farewell " * 1000))
    assert sum(part.beyond for part in plain.ledger) < 20
    assert sum(part.beyond for part in over.ledger) >= 890
    assert any("tokenizers differ" in reason for reason in over.reasons)


@pytest.mark.parametrize("text", [" " * 4000, "\n" * 4000, "a" * 4000, "QUJD+/x9" * 500])
def test_what_is_no_prose_is_doubted_by_its_length(text: str) -> None:
    counted = count(asked(text), model="gemini/gemini-2.5-flash")
    assert sum(part.beyond for part in counted.ledger) >= 2000
    assert count(asked(text), model="gpt-4o").margin < 40


def test_other_scripts_are_doubted_where_the_tokenizer_is_not_known() -> None:
    text = "今天天气很好，我们一起去公园散步。" * 10
    known, unknown = (count(asked(text), model=model) for model in ("deepseek-chat", "llama-3.3-70b"))
    assert unknown.upper >= count(asked(text), model="gpt-4").tokens
    assert unknown.margin > 90 > known.margin


def in_a_call(text: str) -> dict[str, Any]:
    call = {"id": "a", "function": {"name": "f", "arguments": json.dumps({"x": text}, ensure_ascii=False)}}
    return {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [call]}]}


def in_a_schema(text: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"x": {"enum": [text]}}}
    return asked(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}})


@pytest.mark.parametrize("text", ["QUJD+/x9" * 500, "=" * 4000, "鬱龘齉爨" * 500, "word " * 1000])
@pytest.mark.parametrize(
    "place", [in_a_call, in_a_schema, lambda text: {"messages": [{**asked()["messages"][0], "z": text}]}]
)
@pytest.mark.parametrize("model", ["gemini/gemini-2.5-flash", "mistral-large-latest", "nobody/knows"])
def test_a_text_is_doubted_wherever_it_stands(text: str, place: Callable[[str], dict[str, Any]], model: str) -> None:
    said, placed = (count(request, model=model) for request in (asked(text), place(text)))
    beyond = [sum(part.beyond for part in counted.ledger) for counted in (said, placed)]
    assert beyond[1] >= beyond[0] * 0.95


def test_a_text_is_looked_through_in_time_that_grows_with_its_length() -> None:
    """Words just too short to be doubted, and runs just too short, are the worst of it."""
    for piece in ("w" * 255 + ".", "a" * 31 + "b"):
        assert count(asked(piece * 8000), model="gemini/gemini-2.5-flash").tokens > 1000


def test_a_schema_is_outlined_without_following_what_refers_to_itself() -> None:
    node = {
        "type": "object",
        "title": "Node",
        "properties": {"next": {"$ref": "#/$defs/node"}, "v": {"enum": ["x", 1]}},
    }
    outline = outlined({"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}})
    assert (outline.fields, outline.nested, outline.references) == (3, 1, 2)
    assert {"root", "next", "v", "Node", '["x",1]'} <= set(outline.words)


def test_thinking_costs_what_it_is_and_sealed_thoughts_by_their_length() -> None:
    asks = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    assert count(asked(**asks), model="claude-sonnet-4").tokens == count(asked(), model="claude-sonnet-4").tokens + 28
    part = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "s" * 1000}
    request = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [part]}]}
    billed = count(request, model="gemini/gemini-3-flash-preview", api="gemini")
    doubted = count(request, model="gemini/gemini-2.5-flash", api="gemini")
    assert billed.tokens > 200 > doubted.tokens
    assert doubted.upper > 160
