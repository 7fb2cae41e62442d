"""Admission: what is admitted fits, always; what cannot fit is refused with what each part costs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mn_contract.errors import InvalidInput, NeedsPartition
from mn_sdk.context_session import ContextPolicy
from mn_sdk.context_session.admit import ROUNDS_MAX, Admission, Admitted, recalled_of
from mn_sdk.context_session.assemble import read_form
from mn_sdk.context_session.call import read_call
from tests.unit.sdk.sessions import card, compiler, counter

WORDS = st.lists(
    st.sampled_from(["alpha", "β-ray", "価格", "0x1f", "\n", '"', "}{", "the quick brown fox"]), max_size=400
)


def admission(
    messages: list[dict[str, Any]],
    cards: list[Any],
    *,
    window: int,
    fields: Any = None,
    required: int = 0,
    standing: int = 0,
    **call: Any,
) -> Admission:
    asked = read_call({"model": "gpt-4o", **call, "messages": messages}, response_format=None)
    return Admission(
        policy=ContextPolicy(window_tokens=window, output_tokens=100, safety_tokens=20),
        call=asked,
        form=read_form(asked.asked["messages"], fields),
        compile=compiler(cards, required, standing),
        counter=counter,
    )


def admitted_or_not(asked: Admission) -> Admitted | NeedsPartition:
    try:
        return asked.admit()
    except NeedsPartition as split:
        return split


@settings(max_examples=60)
@given(
    texts=st.lists(WORDS, max_size=12),
    current=st.dictionaries(st.sampled_from(["goal", "control", "notes", "history"]), WORDS.map(" ".join), max_size=4),
    window=st.integers(130, 4000),
    required=st.integers(0, 3),
    packet_form=st.booleans(),
)
def test_an_admitted_request_is_never_over_its_budget(
    texts: list[list[str]], current: dict[str, str], window: int, required: int, packet_form: bool
) -> None:
    """Invariant 1, by a count of our own over exactly what would be sent."""
    cards = [card(f"o{n}", " ".join(words) or "x") for n, words in enumerate(texts)]
    content = json.dumps(current) if packet_form else " ".join(current.values()) or "x"
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": content}]
    must = min(required, len(cards))
    asked = admission(messages, cards, window=window, fields=("goal", "control"), required=must)
    admitted = admitted_or_not(asked)
    if isinstance(admitted, NeedsPartition):
        assert admitted.detail["input_budget"] == asked.input_budget
        assert admitted.detail["parts"]
        return
    assert counter(admitted.call.asked, "gpt-4o").upper <= window - 100 - 20
    assert admitted.rounds <= ROUNDS_MAX
    sent = admitted.call.asked["messages"][-2 if not packet_form and cards else -1]["content"]
    for one in cards[:must]:
        assert json.dumps(one.text, ensure_ascii=False)[1:-1] in sent
    if packet_form:
        kept = json.loads(sent)["current"]
        assert {name: kept[name] for name in ("goal", "control") if name in current} == {
            name: current[name] for name in ("goal", "control") if name in current
        }
        assert set(kept) | set(admitted.left_out) == set(current)


def test_the_packet_shrinks_until_the_whole_request_fits() -> None:
    dense = "".join(f"{n * 7919 % 256:02x}" for n in range(300))  # about two bytes a token
    cards = [card(f"o{n}", dense) for n in range(40)]
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": '{"goal": "g"}'}]
    admitted = admission(messages, cards, window=3000).admit()
    assert admitted.rounds > 1
    assert 0 < len(admitted.packet.items) < 40


def test_tools_and_schemas_are_counted() -> None:
    """Invariant 11: what is billed is in the count."""
    messages = [{"role": "user", "content": "go"}]
    tool = {
        "type": "function",
        "function": {
            "name": "f",
            "description": "word " * 500,
            "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
        },
    }
    admission(messages, [], window=400).admit()
    with pytest.raises(NeedsPartition) as split:
        admission(messages, [], window=400, tools=[tool]).admit()
    assert max(split.value.detail["parts"], key=lambda part: part["tokens"])["part"] == "tools[0] f"


def test_a_call_that_allows_more_output_gets_less_input() -> None:
    messages = [{"role": "user", "content": "go"}]
    assert admission(messages, [], window=1000).input_budget == 880
    assert admission(messages, [], window=1000, max_tokens=400).input_budget == 580
    with pytest.raises(InvalidInput):
        admission(messages, [], window=1000, max_tokens=2000).admit()


def packet_form(current: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "system", "content": "s"}, {"role": "user", "content": json.dumps(current)}]


KEYS = st.dictionaries(
    st.text(st.sampled_from("abcdef_価"), min_size=1, max_size=24),
    st.one_of(st.integers(), WORDS.map(" ".join)),
    max_size=30,
)
MODELS = st.sampled_from(["gpt-4o", "anthropic/claude-sonnet-4", "of-no-known-family"])


@settings(max_examples=60)
@given(current=KEYS, window=st.integers(130, 6000), records=st.integers(0, 5), model=MODELS)
def test_keys_are_left_out_only_where_they_do_not_fit(
    current: dict[str, Any], window: int, records: int, model: str
) -> None:
    """Invariant 13: neither all of them, nor the first of those that were left out, would have fitted."""
    cards = [card(f"o{n}", "word " * 40) for n in range(records)]
    asked = admission(packet_form(current), cards, window=window, fields=(), model=model)
    admitted = admitted_or_not(asked)
    if isinstance(admitted, NeedsPartition) or not admitted.left_out:
        return
    beside = recalled_of(admitted.packet)
    for back in ({admitted.left_out[0]}, set(admitted.left_out)):
        messages = asked.form.messages(beside, frozenset(admitted.left_out) - back)
        assert counter({**asked.call.asked, "messages": messages}, model).upper > asked.input_budget


def test_many_small_keys_cost_what_they_cost_together() -> None:
    current = {f"k{n}": n for n in range(400)}
    cards = [card(f"o{n}", "filler words here " * 12) for n in range(300)]
    for model in ("gpt-4o", "anthropic/claude-sonnet-4", "of-no-known-family"):
        assert admission(packet_form(current), cards, window=16384, fields=(), model=model).admit().left_out == ()


def test_what_is_required_comes_before_keys_that_may_be_left_out() -> None:
    current = {"goal": "g", "notes": "word " * 700}
    admitted = admission(packet_form(current), [card("o1", "word " * 2200)], window=3000, fields=("goal",), required=1)
    assert admitted.admit().left_out == ("notes",)


@settings(max_examples=60)
@given(
    current=KEYS,
    window=st.integers(200, 1500),
    model=MODELS,
    standing=st.integers(0, 3),
    words=st.sampled_from([10, 60, 400]),
)
def test_every_part_of_a_split_plan_can_be_carried_out(
    current: dict[str, Any], window: int, model: str, standing: int, words: int
) -> None:
    """Invariant 2: each group is admitted beside what stands in every part; what is admitted nowhere is named, and no
    more; where nothing is admitted beside it, no group is offered."""
    records = [card(f"o{n}", "word " * words) for n in range(standing)]
    recalling: dict[str, Any] = {"cards": records, "standing": standing, "window": window, "model": model}
    split = admitted_or_not(admission(packet_form(current), **recalling))
    if isinstance(split, Admitted):
        return
    plan = split.detail["plan"]
    assert [item["id"] for item in split.detail.get("items", [])] == [record.id for record in records]
    if isinstance(admitted_or_not(admission(packet_form({}), **recalling)), NeedsPartition):
        assert plan["decisions"] == []
        assert "no split helps" in split.message
        alone = {**recalling, "cards": [], "standing": 0}
        if isinstance(admitted_or_not(admission(packet_form({}), **alone)), NeedsPartition):
            return
        for one in records:
            fits = admitted_or_not(admission(packet_form({}), **{**recalling, "cards": [one], "standing": 1}))
            assert isinstance(fits, NeedsPartition) == (one.id in plan["oversize"])
        return
    assert sorted([*plan["oversize"], *(name for part in plan["decisions"] for name in part)]) == sorted(current)
    for part in plan["decisions"]:
        admission(packet_form({name: current[name] for name in part}), **recalling).admit()
    for name in plan["oversize"]:
        with pytest.raises(NeedsPartition):
            admission(packet_form({name: current[name]}), **recalling).admit()


def test_a_split_plan_groups_the_callers_keys() -> None:
    current = {"a": "word " * 200, "b": "word " * 200, "c": "word " * 200}
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": json.dumps(current)}]
    with pytest.raises(NeedsPartition) as split:
        admission(messages, [], window=700).admit()
    assert split.value.detail["reason"] == "current_over_budget"
    assert split.value.detail["plan"]["decisions"] == [["a", "b"], ["c"]]
    assert {part["part"]: part["tokens"] for part in split.value.detail["parts"]}["current.a"] == 204


@pytest.mark.parametrize(
    ("user", "advice"),
    [("word " * 1000, "messages that are no object"), (json.dumps({"only": "word " * 1000}), "nothing to split")],
)
def test_where_there_is_nothing_to_split_no_split_is_advised(user: str, advice: str) -> None:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": user}]
    with pytest.raises(NeedsPartition) as split:
        admission(messages, [], window=700).admit()
    assert split.value.detail["plan"]["decisions"] == []
    assert advice in split.value.message
    assert "split the decision" not in split.value.message


@pytest.mark.parametrize("current", [{"goal": "g"}, {"goal": "word " * 500}])
def test_constraints_that_exceed_the_window_are_named_and_no_split_is_offered(current: dict[str, Any]) -> None:
    rules = [card("large", "word " * 500), *(card(f"rule{n}", "word " * 100) for n in range(6))]
    with pytest.raises(NeedsPartition) as split:
        admission(packet_form(current), rules, window=520, standing=7).admit()
    detail = split.value.detail
    assert detail["plan"]["decisions"] == []
    assert detail["plan"]["oversize"] == [*(name for name in current if len(current[name]) > 1), "large"]
    assert {item["id"]: item["bytes"] > 0 for item in detail["items"]} == {rule.id: True for rule in rules}
    assert "no split helps" in split.value.message


def test_what_is_only_named_is_left_to_other_parts_of_a_split() -> None:
    """Keys are grouped beside what no split takes out; the engine's plan says which named records go together."""
    current = {"a": "word " * 250, "b": "word " * 250}
    records = [card("rule", "word " * 20), *(card(f"o{n}", "word " * 150) for n in range(3))]
    with pytest.raises(NeedsPartition) as split:
        admission(packet_form(current), records, window=700, standing=1, required=4).admit()
    assert split.value.detail["plan"]["decisions"] == [["a"], ["b"]]
    assert [item["id"] for item in split.value.detail["items"]] == ["rule", "o0", "o1", "o2"]


def test_a_key_that_is_too_large_by_itself_is_named() -> None:
    with pytest.raises(NeedsPartition) as split:
        admission(packet_form({"a": "word " * 2000, "b": "x", "c": "y"}), [], window=700).admit()
    assert split.value.detail["plan"]["oversize"] == ["a"]
    assert split.value.detail["plan"]["decisions"] == [["b", "c"]]
