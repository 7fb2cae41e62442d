"""The count of a complete request (invariant 11): known anchors, what is counted, and what is said of the count."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mn_contract.errors import InvalidInput
from mn_tokens import Counter, check_request, count, encodings
from mn_tokens.openai_tools import section
from mn_tokens.reading import SHAPES

COOKBOOK = [
    {
        "role": "system",
        "content": "You are a helpful, pattern-following assistant that translates corporate jargon into plain "
        "English.",
    },
    {"role": "system", "name": "example_user", "content": "New synergies will help drive top-line growth."},
    {
        "role": "system",
        "name": "example_assistant",
        "content": "Things working well together will increase revenue.",
    },
    {
        "role": "system",
        "name": "example_user",
        "content": "Let's circle back when we have more bandwidth to touch base on opportunities for increased "
        "leverage.",
    },
    {
        "role": "system",
        "name": "example_assistant",
        "content": "Let's talk later when we're less busy about how to do better.",
    },
    {
        "role": "user",
        "content": "This late pivot means we don't have time to boil the ocean for the client deliverable.",
    },
]
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a place.\n\n  Now.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "City"},
                "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
                "days": {"type": "array", "items": {"type": "integer"}},
            },
            "required": ["place"],
        },
    },
}
USER = {"role": "user", "content": "hello"}


@pytest.mark.parametrize(("model", "billed"), [("gpt-4-0613", 129), ("gpt-3.5-turbo-0301", 127)])
def test_the_public_example_is_counted_as_it_is_billed(model: str, billed: int) -> None:
    """OpenAI's cookbook, "How to count tokens with tiktoken"."""
    assert count({"messages": COOKBOOK}, model=model).tokens == billed


def test_the_ledger_names_each_part_and_adds_up() -> None:
    counted = count({"messages": COOKBOOK, "tools": [TOOL]}, model="openai/gpt-4o")
    assert [part.part for part in counted.ledger] == [
        *(f"messages[{n}]" for n in range(6)),
        "tools[0] get_weather",
        "tools",
        "reply",
    ]
    assert sum(part.tokens for part in counted.ledger) == counted.tokens
    assert counted.exact
    assert counted.upper == counted.tokens + counted.margin


def test_tools_read_as_declarations() -> None:
    (tool,) = SHAPES["chat"].envelope({"tools": [TOOL]}).tools
    assert section([tool]) == (
        "# Tools\n\n## functions\n\nnamespace functions {\n\n"
        "// Weather of a place.\n//\n// Now.\ntype get_weather = (_: {\n"
        '// City\nplace: string,\nunit?: "c" | "f", // default: "c"\ndays?: number[],\n'
        "}) => any;\n\n} // namespace functions"
    )


def test_a_schema_that_refers_to_itself_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    tool = {
        "name": "f",
        "parameters": {"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}},
    }
    assert count({"messages": [USER], "tools": [{"type": "function", "function": tool}]}, model="gpt-4o").tokens > 0


@pytest.mark.parametrize(
    "tools", [[{}], [{"function": {}}], [{"type": "function", "function": {"name": "f", "parameters": 3}}]]
)
def test_tools_that_make_no_sense_are_still_counted(tools: Any) -> None:
    assert count({"messages": [USER], "tools": tools}, model="gpt-4o").tokens > 8


CALLS = [
    USER,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": "not json"}},
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "one"},
    {"role": "tool", "tool_call_id": "b", "content": "two"},
]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("messages", [*CALLS, USER]),
        ("tools", [TOOL]),
        ("tool_choice", {"type": "function", "function": {"name": "get_weather"}}),
        ("response_format", {"type": "json_schema", "json_schema": {"name": "r", "schema": {"type": "object"}}}),
    ],
)
def test_everything_that_is_billed_is_counted(key: str, value: Any) -> None:
    plain = {"messages": CALLS, **({"tools": [TOOL]} if key == "tool_choice" else {})}
    assert count({**plain, key: value}, model="gpt-4o").tokens > count(plain, model="gpt-4o").tokens


@pytest.mark.parametrize("model", ["claude-sonnet-4", "gemini/gemini-2.5-flash", "mistral-large", "nobody/knows"])
def test_a_model_whose_tokenizer_is_not_known_is_estimated_and_said_to_be(model: str) -> None:
    counted = count({"messages": COOKBOOK}, model=model)
    assert not counted.exact
    assert "estimate" in counted.tokenizer
    assert counted.margin > counted.tokens // 10
    assert "estimated" in counted.reasons[0]


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"messages": []},
        {"messages": "hello"},
        {"messages": [{"content": "no role"}]},
        {"messages": [{"role": "user", "content": 3}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
    ],
)
def test_what_cannot_be_counted_is_refused(request_: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        count(request_, model="gpt-4o")


@pytest.mark.parametrize(("item", "why"), [({"content": b"x"}, "holds a bytes"), ({1: "x"}, "has a key")])
def test_a_refusal_reads_as_a_sentence(item: dict[Any, Any], why: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_request({"messages": [{"role": "user", **item}]})
    assert refused.value.message.startswith(f"messages[0]: {why}")


@settings(max_examples=100)
@given(st.lists(st.text(max_size=200), min_size=1, max_size=6))
def test_no_text_is_too_odd_and_more_text_never_costs_less(texts: list[str]) -> None:
    costs = [
        count({"messages": [{"role": "user", "content": text} for text in texts[:n]]}, model="gpt-4o").tokens
        for n in range(1, len(texts) + 1)
    ]
    assert costs == sorted(costs)


def test_without_a_tokenizer_the_bound_is_the_bytes_and_the_count_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    known = count({"messages": COOKBOOK}, model="gpt-4o").tokens
    monkeypatch.setattr(encodings, "_loaded", {})
    monkeypatch.setattr(encodings, "_directories", list)
    counted = Counter().count({"messages": COOKBOOK}, model="gpt-4o")
    assert (counted.exact, counted.tokenizer) == (False, "utf-8 bytes")
    assert counted.tokens > 2 * known
    assert counted.reasons == ("no tokenizer of o200k_base on this machine",)


def test_the_users_cache_comes_first_and_the_environment_is_left_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(encodings, "_loaded", {})
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert encodings._directories()[0] == tmp_path
    assert encodings.available(encodings.O200K)
    assert os.environ["TIKTOKEN_CACHE_DIR"] == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_long_history_is_tokenized_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def size(text: str) -> int:
        texts.append(text)
        return len(text)

    monkeypatch.setattr(encodings, "_loaded", {encodings.O200K: size})
    counter = Counter()
    history = [{"role": "user", "content": f"{n} " + "words " * 100} for n in range(400)]
    counter.count({"messages": history}, model="gpt-4o")
    assert len(texts) >= 400
    texts.clear()
    counter.count({"messages": [*history, {"role": "user", "content": "new"}]}, model="gpt-4o")
    assert texts == ["user", "new"]


@pytest.mark.parametrize("model", ["openai/gpt-5-pro", "openai/responses/gpt-4o", "openai/o3-pro"])
def test_what_litellm_sends_to_responses_is_counted_by_its_rules(model: str) -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
    said = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "hello"}]
    chat = count({"messages": said, "tools": [{"type": "function", "function": tool}]}, model=model)
    responses = count({"input": said, "tools": [{"type": "function", **tool}]}, model=model, api="responses")
    assert (chat.tokens, chat.margin) == (responses.tokens, responses.margin)


@pytest.mark.parametrize(("model", "exact"), [("gpt-4o", True), ("gpt-5", False), ("o3", False), ("o4-mini", False)])
def test_a_count_is_exact_only_where_its_room_is_for_rounding(model: str, exact: bool) -> None:
    called = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "c", "content": "r"},
    ]
    counted = count({"messages": history}, model=model)
    assert counted.exact is exact
    assert bool(counted.reasons) is not exact
    assert count({"messages": history[:1]}, model=model).exact


@pytest.mark.parametrize(("signs", "seed"), [("  \n\t", 22), ("--=_ ", 3), ("=", 0), ("0123456789 ", 0)])
def test_a_long_text_is_never_fewer_tokens_for_being_counted_in_slices(signs: str, seed: int) -> None:
    text = "".join(random.Random(seed).choices(signs, k=70_000))
    size = encodings._load("o200k_base")
    assert size is not None
    assert 0 <= encodings.tokens("o200k_base", text) - size(text) <= 4
