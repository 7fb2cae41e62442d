"""The caller's object in packet form: what is kept of it is kept as it was written (invariant 2)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mn_contract.errors import InvalidInput
from mn_sdk.context_session.assemble import Form, Recalled, read_form

SYSTEM = {"role": "system", "content": "s"}


def form_of(content: str, required: tuple[str, ...] | None = None) -> Form:
    return read_form([SYSTEM, {"role": "user", "content": content}], required)


def said(form: Form, dropped: frozenset[str] = frozenset()) -> str:
    content: str = form.messages(Recalled(), dropped)[1]["content"]
    return content


@pytest.mark.parametrize(
    "value",
    [
        "-0",
        "12345678901234567890.123456789",
        "0.10000000000000000001",
        "1E2",
        "1e999",
        "9" * 5000,
        '"\\ud83d"',
        '"\\u00e4\\/"',
        '{"b": 1, "a": 2, "a": 3}',
        "[ 1 ,\n 2 ]",
    ],
)
def test_a_value_is_kept_byte_for_byte(value: str) -> None:
    """Invariant 2."""
    form = form_of(f' {{ "goal" : {value} ,\n"rest": null}} ', ("goal",))
    assert f'"current":{{"goal" : {value},"rest": null}}' in said(form)
    assert f'"current":{{"goal" : {value}}}' in said(form, frozenset({"rest"}))
    assert form.droppable == ("rest",)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200)
@given(
    st.dictionaries(st.text(st.characters(codec="utf-8")), JSON_VALUES, max_size=5),
    st.sampled_from([None, 0, 3, "\t"]),
    st.booleans(),
)
def test_any_object_is_read_as_json_reads_it(current: dict[str, Any], indent: Any, plain: bool) -> None:
    text = json.dumps(current, indent=indent, ensure_ascii=plain)
    form = form_of(text)
    assert form.current is not None
    assert list(form.current) == list(current)
    assert all(member in text for member in form.current.values())
    assert json.loads(said(form))["current"] == current


@settings(max_examples=300)
@given(st.text('{}[]",: \n\\1-ea', max_size=24))
def test_what_is_no_json_object_is_no_packet(text: str) -> None:
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    try:
        form = form_of(text)
    except InvalidInput:
        assert len(json.loads(text, object_pairs_hook=list)) > len(json.loads(text)), "a key stood there twice"
        return
    assert (form.current is not None) == isinstance(parsed, dict)


@pytest.mark.parametrize(
    "content",
    [
        '{"goal": 1, "goal": 2}',
        '{"a": 1, "\\u0061": 2}',
        '{"a": ' + "[" * 20_000 + "]" * 20_000 + "}",
        '{"\\ud800": 1}',
    ],
)
def test_an_object_that_cannot_be_kept_exactly_is_refused(content: str) -> None:
    """Of a key that stands there twice, JSON readers keep one or the other."""
    with pytest.raises(InvalidInput) as refused:
        form_of(content)
    assert "messages[1].content" in refused.value.field


@pytest.mark.parametrize("content", ['{"goal": NaN}', '{"goal": -Infinity}', '{"a": 1,}', '{"a": 1} x', "{1: 2}", "{"])
def test_what_only_looks_like_an_object_is_kept_whole_in_the_general_form(content: str) -> None:
    form = form_of(content)
    assert form.current is None
    assert said(form) == content
