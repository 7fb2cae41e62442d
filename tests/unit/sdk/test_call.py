"""Which calls are managed: what could not be counted, or would change after it was counted, is refused at once."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from mn_contract.errors import InvalidInput
from mn_sdk.context_session.assemble import read_form
from mn_sdk.context_session.call import ModelCall, read_call
from mn_tokens import count

USER = {"role": "user", "content": "hello"}
CALL = {"id": "a", "type": "function"}
DEEP = "[" * 20_000 + "]" * 20_000


def call(**arguments: Any) -> ModelCall:
    return read_call({"model": "gpt-4o", "messages": [USER], **arguments}, response_format=None)


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("messages[0]", {"messages": [{"role": "user", "content": []}]}),
        ("messages[0].content", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]}),
        ("messages[0].content[0]", {"messages": [{"role": "user", "content": [{"type": "text", "text": {"a": 1}}]}]}),
        *(
            (
                "messages[0].content",
                {"messages": [{"role": "user", "content": [{"type": kind, kind: "x", "text": "x"}]}]},
            )
            for kind in ("input_text", "output_text", "refusal", "thinking")
        ),
        ("messages[0]", {"messages": [{"role": ["user"], "content": "x"}]}),
        (
            "messages[1].tool_calls[0]",
            {
                "messages": [
                    USER,
                    {"role": "assistant", "tool_calls": [CALL]},
                    {"role": "tool", "tool_call_id": "a", "content": "r"},
                ]
            },
        ),
        ("tools[0]", {"tools": [{"type": "function", "function": None}]}),
        ("tools", {"tools": {"a": 1}}),
        ("response_format", {"response_format": {"a": math.nan}}),
        ("response_format", {"response_format": "json"}),
        ("messages", {"messages": [{"role": "user", "content": "half \ud83d"}]}),
        ("tools", {"tools": [{"x": json.loads("[" * 500 + "]" * 500)}]}),
        *(
            (name, {name: value})
            for name in ("max_tokens", "max_completion_tokens", "max_output_tokens")
            for value in ("100", 0, -5, True)
        ),
        *(("timeout", {"timeout": value}) for value in ("5", math.nan, math.inf, -math.inf, 0, -1, 1e300, True)),
        ("timeout", {"request_timeout": math.nan}),
        ("extra_body", {"extra_body": [1]}),
        *(
            (f"extra_body.{name}", {"extra_body": {name: value}})
            for name, value in (
                ("messages", [USER]),
                ("tools", []),
                ("model", "gpt-3.5"),
                ("models", ["a"]),
                ("response_format", None),
                ("max_tokens", 10_000),
                ("stream", False),
                ("prompt", "x"),
            )
        ),
        *((name, {name: "x"}) for name in ("prompt_id", "vector_store_ids", "roles", "models")),
        ("model", {"model": None}),
    ],
)
def test_what_cannot_be_managed_is_refused_and_named(field: str, arguments: dict[str, Any]) -> None:
    more = dict(arguments)
    wanted = more.pop("response_format", None)
    with pytest.raises(InvalidInput) as refused:
        read_call({"model": "gpt-4o", "messages": [USER], **more}, response_format=wanted)
    assert refused.value.field == field


@pytest.mark.parametrize("name", ["extra_body", "anything"])
def test_what_reaches_the_provider_is_counted_and_fingerprinted(name: str) -> None:
    made, plain = call(**{name: {"a": "word " * 1000}}), call()
    assert count(made.asked, model="gpt-4o").upper > count(plain.asked, model="gpt-4o").upper + 1000
    assert made.encoded() != plain.encoded()


def test_an_assistants_refusal_is_text() -> None:
    refused = {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}, {"type": "text", "text": "x"}]}
    assert call(messages=[USER, refused, USER]).asked["messages"][1] == refused


def test_a_body_may_hold_what_no_rule_manages() -> None:
    assert call(extra_body={"top_k": 3, "guided_json": {"a": 1}}).asked["extra_body"]["top_k"] == 3


@pytest.mark.parametrize(("timeout", "seconds"), [({}, 600), ({"timeout": 3}, 3), ({"request_timeout": 2.5}, 2.5)])
def test_a_call_waits_as_long_as_it_says(timeout: dict[str, Any], seconds: float) -> None:
    assert call(**timeout).timeout_seconds == seconds


def test_an_object_that_is_nested_too_deep_to_be_read_is_refused() -> None:
    """Before anything is claimed: a packet form takes the caller's object apart."""
    content = f'{{"a": {DEEP}}}'
    with pytest.raises(InvalidInput) as refused:
        read_form([{"role": "system", "content": "s"}, {"role": "user", "content": content}], None)
    assert refused.value.field == "messages[1].content"


@pytest.mark.parametrize(
    "given",
    [{"max_tokens": 7}, {"max_completion_tokens": 7, "max_tokens": 5}, {"max_output_tokens": 7}, {"max_new_tokens": 7},
     {"num_predict": 7}, {"generationConfig": {"maxOutputTokens": 7}}, {"max_tokens_to_sample": 7},
     {"thinking": {"type": "enabled", "budget_tokens": 7}, "max_tokens": 5}],
)  # fmt: skip
def test_every_spelling_of_the_output_is_a_reserve(given: dict[str, Any]) -> None:
    made = call(**given)
    assert made.output_tokens == 7
    assert made.limits_output


def test_a_budget_for_thoughts_alone_limits_no_answer() -> None:
    for budget, output in ((7, 7), (0, 0), (-1, 0), ("x", 0)):
        made = call(thinking={"budget_tokens": budget})
        assert (made.output_tokens, made.limits_output) == (output, False)
