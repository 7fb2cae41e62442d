"""What no rule knows is counted too (invariant 11): wherever a text stands in a request, it costs what it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mn_contract.errors import InvalidInput
from mn_tokens import count, encodings

USER = {"role": "user", "content": "hello"}
SAID = {"role": "assistant", "content": "hi"}
LONG = " ".join(f"quilt{n} zebra" for n in range(40))
COST = encodings.tokens(encodings.O200K, LONG)


def said(**more: Any) -> dict[str, Any]:
    return {"messages": [USER, {**SAID, **more}, USER]}


def called(call: dict[str, Any], **result: Any) -> dict[str, Any]:
    return {
        "messages": [
            USER,
            {"role": "assistant", "content": None, "tool_calls": [{"id": "a", **call}]},
            {"role": "tool", "tool_call_id": "a", "content": "r", **result},
        ]
    }


def offered(**entry: Any) -> dict[str, Any]:
    return asked(tools=[{"type": "function", "function": {"name": "f", **entry}}])


def asked(**more: Any) -> dict[str, Any]:
    return {"messages": [USER], **more}


FUNCTION = {"name": "f", "arguments": "{}"}
PLACES: dict[str, Callable[[str], dict[str, Any]]] = {
    "an unknown key of a message": lambda text: said(foo=text),
    "thinking blocks": lambda text: said(thinking_blocks=[{"type": "thinking", "thinking": text, "signature": "s"}]),
    "reasoning": lambda text: said(reasoning_content=text),
    "a refusal beside a text": lambda text: said(refusal=text),
    "a name beside tool calls": lambda text: {
        "messages": [USER, {"role": "assistant", "name": text, "tool_calls": [{"id": "a", "function": FUNCTION}]}, USER]
    },
    "a text part": lambda text: said(content=[{"type": "text", "text": text}]),
    "a refusal part": lambda text: said(content=[{"type": "refusal", "refusal": text}]),
    "an unknown key of a part": lambda text: said(content=[{"type": "text", "text": "x", "citations": [text]}]),
    "a refusal in a text part": lambda text: said(content=[{"type": "text", "text": "x", "refusal": text}]),
    "a custom tool's call": lambda text: called({"type": "custom", "custom": {"name": "f", "input": text}}),
    "an unknown key of a call": lambda text: called({"function": FUNCTION, "provider_specific_fields": {"t": text}}),
    "an unknown key of a called function": lambda text: called({"function": {**FUNCTION, "thought": text}}),
    "arguments": lambda text: called({"function": {"name": "f", "arguments": json.dumps({"a": text})}}),
    "arguments as an object": lambda text: called({"function": {"name": "f", "arguments": {"a": text}}}),
    "arguments that nest without end": lambda text: called(
        {"function": {"name": "f", "arguments": "[" * 20_000 + text}}
    ),
    "a result's name": lambda text: called({"function": FUNCTION}, name=text),
    "a call's id": lambda text: {
        "messages": [
            USER,
            {"role": "assistant", "tool_calls": [{"id": text, "function": FUNCTION}]},
            {"role": "tool", "tool_call_id": text, "content": "r"},
        ]
    },
    "a prediction": lambda text: asked(prediction={"type": "content", "content": text}),
    "an unknown key": lambda text: asked(web_search_options={"a": text}),
    "the body's": lambda text: asked(extra_body={"system": text}),
    "a custom tool": lambda text: asked(tools=[{"type": "custom", "custom": {"name": "f", "description": text}}]),
    "a provider's own tool": lambda text: asked(tools=[{"type": "function", "name": "f", "input_schema": {"a": text}}]),
    "an unknown key of a tool": lambda text: asked(tools=[{"type": "function", "function": {"name": "f"}, "x": text}]),
    "an unknown key of a function": lambda text: offered(examples=[text]),
    "parameters that are none": lambda text: offered(parameters=[text]),
    "the old form of tools": lambda text: asked(functions=[{"name": "f", "x": text}]),
    "a choice": lambda text: asked(tool_choice={"type": "function", "function": {"name": text}}),
    "a choice in words": lambda text: asked(tool_choice=text),
    "a format": lambda text: asked(response_format={"type": "json_object", "schema": {"description": text}}),
    "a format in words": lambda text: asked(response_format=text),
    "a schema that is none": lambda text: asked(response_format={"type": "json_schema", "json_schema": [text]}),
    "a schema's dropped keyword": lambda text: asked(
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": {"type": "object", "required": [text], "$schema": text}},
        }
    ),
}


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5", "claude-sonnet-4", "gemini-2.5-flash", "nobody/knows"])
@pytest.mark.parametrize("place", PLACES)
def test_a_text_costs_what_it_is_wherever_it_stands(place: str, model: str) -> None:
    with_text, without = (count(PLACES[place](text), model=model) for text in (LONG, "f"))
    assert with_text.upper - without.upper >= COST * 0.95


@pytest.mark.parametrize("key", ["temperature", "seed", "user", "metadata", "stop", "reasoning_effort"])
def test_what_no_model_reads_costs_nothing(key: str) -> None:
    assert count(asked(**{key: LONG}), model="gpt-4o") == count(asked(), model="gpt-4o")
    assert count(asked(extra_body={key: LONG}), model="gpt-4o") == count(asked(), model="gpt-4o")


def test_a_count_that_holds_something_unknown_is_an_estimate_and_names_it() -> None:
    counted = count(said(reasoning_content="because"), model="gpt-4o")
    assert not counted.exact
    assert "messages[1].reasoning_content" in [part.part for part in counted.ledger]
    assert not count(offered(parameters={"type": "object", "pattern": "x"}), model="gpt-4o").exact


def test_what_the_recordings_are_full_of_widens_a_margin_by_a_little() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "title": "Arguments",
        "properties": {"a": {"type": "integer", "minimum": 1, "format": "int32"}, "b": {"type": ["string", "null"]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    counted = count(offered(parameters=schema, strict=True), model="gpt-4o")
    assert not any("no rule knows" in reason for reason in counted.reasons)
    assert counted.upper - counted.tokens <= 8


KEYWORDS = st.sampled_from([
    "description", "title", "default", "pattern", "format", "const", "examples", "enum", "required", "$comment", "type",
    "additionalProperties", "$schema", "not", "allOf", "patternProperties", "$defs", "definitions", "minimum", "$ref",
])  # fmt: skip
TEXTS = st.sampled_from([LONG, [LONG], {"type": "object", "properties": {"a": {"description": LONG}}}, {LONG: 1}])
MODELS = ("gpt-4o", "gpt-5", "claude-sonnet-4", "gemini-2.5-flash", "deepseek-chat", "nobody/knows")
LEAVES = st.one_of(
    st.builds(lambda keyword, text: {"type": "string", keyword: text}, KEYWORDS, TEXTS),
    st.builds(lambda keyword, text: {keyword: text}, KEYWORDS, TEXTS),
)


def _around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def within(kind: str, schema: Any) -> dict[str, Any]:
        return {
            "property": {"type": "object", "properties": {"p": schema, "q": {"type": "string"}}, "required": ["p"]},
            "untyped": {"properties": {"p": schema}},
            "items": {"type": "array", "items": schema},
            "tuple": {"type": "array", "items": [schema]},
            "union": {"anyOf": [{"type": "null"}, schema], "description": "either"},
            "types": {"type": ["object", "null"], "properties": {"p": schema}},
            "hidden by an enum": {"enum": [1], "properties": {"p": schema}},
            "named": {"type": "object", "properties": {"p": {"$ref": "#/$defs/d"}}, "$defs": {"d": schema}},
            "not named": {"type": "object", "properties": {"p": {"type": "string"}}, "$defs": {"d": schema}},
            "unknown keyword": {"type": "object", "if": schema},
        }[kind]

    kinds = st.sampled_from([
        "property", "untyped", "items", "tuple", "union", "types", "hidden by an enum", "named", "not named",
        "unknown keyword",
    ])  # fmt: skip
    return st.builds(within, kinds, inner)


def wanting(schema: Any) -> dict[str, Any]:
    return asked(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}})


@settings(max_examples=400)
@given(schema=st.recursive(LEAVES, _around, max_leaves=6), model=st.sampled_from(MODELS))
def test_no_keyword_of_a_schema_hides_a_text(schema: Any, model: str) -> None:
    for request in (lambda schema: offered(parameters=schema), wanting):
        spent = count(request(schema), model=model).upper - count(request({}), model=model).upper
        assert spent >= COST * 0.95


def test_words_of_objects_that_are_shown_widen_no_margin() -> None:
    inner = {"type": "object", "title": LONG, "properties": {"b": {"type": "string"}}, "required": ["b"]}
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": inner}}, "required": ["a"]}
    counted = count(offered(parameters=schema), model="gpt-4o")
    assert not any("may not be shown" in reason for reason in counted.reasons)
    assert counted.margin < 8


def test_words_of_what_is_shown_as_an_enum_are_not_taken_for_shown() -> None:
    inner = {"enum": [1], "description": LONG, "properties": {"b": {"type": "string"}}}
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": inner}}, "required": ["a"]}
    assert count(offered(parameters=schema), model="gpt-4o").upper >= COST


def test_a_reference_to_a_reference_hides_nothing() -> None:
    """A declaration follows one reference, and no further."""
    definitions = {"a": {"$ref": "#/$defs/b"}, "b": {"type": "string", "enum": [LONG]}}
    schema = {"type": "object", "properties": {"p": {"$ref": "#/$defs/a"}}, "$defs": definitions}
    assert count(offered(parameters=schema), model="gpt-4o").upper >= COST


NODE = {"type": "object", "properties": {"v": {"type": "string", "description": LONG},
                                         "left": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]},
                                         "right": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}}  # fmt: skip
TREE = {"type": "object", "properties": {"root": {"$ref": "#/$defs/n"}}, "$defs": {"n": NODE}}
LEVELS = {f"d{n}": {"properties": {side: {"$ref": f"#/$defs/d{n + 1}"} for side in "lr"}} for n in range(40)}
DOUBLING = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": LEVELS}


def twice(depth: int) -> dict[str, Any]:
    return {"type": ["object", "object"], "properties": {"a": twice(depth - 1) if depth else {}}}


@pytest.mark.parametrize("parameters", [TREE, DOUBLING, {"type": "object", "properties": {"a": twice(40)}}])
@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5"])
def test_schemas_that_multiply_are_estimated_in_their_own_size(parameters: dict[str, Any], model: str) -> None:
    written = encodings.tokens(encodings.O200K, json.dumps(parameters))
    counted = count(offered(parameters=parameters), model=model)
    assert not counted.exact
    assert counted.upper - counted.tokens >= written // 2
    if "$defs" in parameters:
        assert counted.upper < 4 * written + 200


@pytest.mark.parametrize(
    "arguments",
    [
        f'{{"x": 3.{"14159" * 400}}}',
        json.dumps({"x": LONG})[:-1] + ', "x": 1}',
        '{"x":' + " \n" * 900 + "1}",
        json.dumps({"x": "日本語テキスト" * 90}),
    ],
)
@pytest.mark.parametrize("calls", [1, 2])
def test_arguments_that_are_written_oddly_may_be_billed_as_they_were_sent(arguments: str, calls: int) -> None:
    called_ = [{"id": f"c{n}", "function": {"name": "f", "arguments": arguments}} for n in range(calls)]
    counted = count({"messages": [USER, {"role": "assistant", "tool_calls": called_}, USER]}, model="gpt-4o")
    assert not counted.exact
    assert counted.upper >= calls * encodings.tokens(encodings.O200K, arguments)


def test_arguments_that_are_written_as_usual_have_room_for_rounding_only() -> None:
    for keys in (2, 30):
        values = {f"key_{n}": ["some words", n, 0.5, True, {"a": None}] for n in range(keys)}
        for arguments in (json.dumps(values), json.dumps(values, separators=(",", ":"))):
            counted = count(called({"function": {"name": "f", "arguments": arguments}}), model="gpt-4o")
            assert counted.margin <= 1 + 0.015 * counted.tokens
            assert counted.exact is (keys == 2)


@pytest.mark.parametrize(
    "request_",
    [
        said(content=[]),
        said(content=[{"type": "text", "text": {"deep": LONG}}]),
        said(content=[{"type": ["text"], "text": "x"}]),
        said(content=[{"type": "refusal", "text": "x"}]),
        asked(tools={"a": 1}),
        asked(tools=["x", 5]),
        asked(tools=[{"type": "function", "function": None}]),
        asked(functions=[None]),
        called({}),
        called({"function": None}),
        called({"function": "f"}),
        {"messages": [USER, {"role": "assistant", "tool_calls": "abc"}]},
        {"messages": [USER, {"role": "assistant", "tool_calls": [{"id": ["a"], "function": FUNCTION}]}]},
        asked(seed=float("nan")),
        asked(tools=[{"type": "function", "function": {"name": "f", "x": json.loads("[" * 500 + "]" * 500)}}]),
        said(foo=json.loads("[" * 500 + "]" * 500)),
    ],
)
def test_what_has_no_form_that_can_be_counted_is_refused(request_: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        count(request_, model="gpt-4o")
    assert refused.value.field


@pytest.mark.parametrize("name", [encodings.O200K, encodings.CL100K])
@pytest.mark.parametrize("run", [" ", "\n", "\t", "\u00a0", "a", "^", "中", " \n"])
def test_a_run_of_one_character_is_counted_however_long(name: str, run: str) -> None:
    assert encodings.tokens(name, run * 2_000_000) >= encodings.tokens(name, run * 1000)


@settings(max_examples=60)
@given(
    words=st.lists(st.text(max_size=12), min_size=1, max_size=30), slice_=st.integers(8, 200), cut=st.integers(4, 60)
)
def test_slices_are_the_text_and_change_no_count_where_words_begin(words: list[str], slice_: int, cut: int) -> None:
    text = " ".join([*words, "of plain words"] * 20)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(encodings, "_SLICE_CHARACTERS", slice_)
        patched.setattr(encodings, "_CUT_CHARACTERS", min(cut, slice_ - 1))
        cut_slices = list(encodings._slices(text))
    slices = [piece for piece, _ in cut_slices]
    assert "".join(slices) == text
    assert max(map(len, slices)) <= slice_
    tokenizer = encodings._load(encodings.O200K)
    assert tokenizer is not None
    clean = all(encodings._WORD_START.match(text, sum(map(len, slices[:n]))) for n in range(1, len(slices)))
    assert clean or any(torn for _, torn in cut_slices)
    if clean:
        assert sum(map(tokenizer, slices)) == tokenizer(text)
