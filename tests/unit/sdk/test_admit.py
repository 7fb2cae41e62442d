"""Admission: what is admitted fits, always; what cannot fit is refused with what each part costs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mn_contract.errors import InvalidInput, NeedsPartition
from mn_sdk.context_session import ContextPolicy
from mn_sdk.context_session.admit import ROUNDS_MAX, Admission, Admitted
from mn_sdk.context_session.assemble import read_form
from mn_sdk.context_session.call import read_call
from tests.unit.sdk.sessions import card, compiler, counter

WORDS = st.lists(
    st.sampled_from(["alpha", "β-ray", "価格", "0x1f", "\n", '"', "}{", "the quick brown fox"]), max_size=400
)


def admission(
    messages: list[dict[str, Any]], cards: list[Any], *, window: int, fields: Any = None, required: int = 0, **call: Any
) -> Admission:
    asked = read_call({"model": "gpt-4o", "messages": messages, **call}, response_format=None)
    return Admission(
        policy=ContextPolicy(window_tokens=window, output_tokens=100, safety_tokens=20),
        call=asked,
        form=read_form(asked.asked["messages"], fields),
        compile=compiler(cards, required),
        counter=counter,
    )


def admitted_or_not(asked: Admission) -> Admitted | NeedsPartition:
    try:
        return asked.admit()
    except NeedsPartition as split:
        return split


@settings(max_examples=60, deadline=None)
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


def test_a_split_plan_groups_the_callers_keys() -> None:
    current = {"a": "word " * 200, "b": "word " * 200, "c": "word " * 200}
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": json.dumps(current)}]
    with pytest.raises(NeedsPartition) as split:
        admission(messages, [], window=700).admit()
    assert split.value.detail["reason"] == "current_over_budget"
    assert split.value.detail["plan"]["decisions"] == [["a", "b"], ["c"]]
