"""Every request that is built is one that OpenAI and Anthropic take, or it is refused with a reason (invariant 12)."""

from __future__ import annotations

import copy
import os
from collections import Counter
from typing import Any

import pytest

from mn_contract.errors import InvalidInput, NeedsPartition
from mn_sdk.context_session import ContextPolicy, provider
from mn_sdk.context_session.admit import Admission
from mn_sdk.context_session.assemble import Form, Recalled, read_form
from mn_sdk.context_session.call import read_call
from tests.unit.sdk import grammars
from tests.unit.sdk.generated import Histories, Message
from tests.unit.sdk.sessions import card, compiler, counter

SEED = int(os.environ.get("MN_TEST_SEED", "1"))
RECALLED = "recalled-record"


def built(generated: Histories) -> list[Message]:
    """The messages of the request that is sent for a history. Raises InvalidInput, NeedsPartition."""
    call = read_call({"model": "gpt-4o", "messages": generated.messages}, response_format=None)
    chance = generated.chance
    cards = [card(f"{RECALLED}-{number}", "Brackets nest. " * 5) for number in range(chance.randrange(5))]
    admission = Admission(
        policy=ContextPolicy(
            window_tokens=chance.choice([600, 2_000, 8_000, 60_000]), output_tokens=100, safety_tokens=20
        ),
        call=call,
        form=read_form(call.asked["messages"], chance.choice([None, ("goal",)])),
        compile=compiler(cards, required=chance.choice([0, 0, 1])),
        counter=counter,
    )
    messages: list[Message] = list(admission.admit().call.asked["messages"])
    return messages


def translated(messages: list[Message]) -> dict[str, Any]:
    """The request to Anthropic that litellm makes of these messages; developers' instructions are system ones there."""
    provider.load()
    from litellm.llms.anthropic.chat.transformation import AnthropicConfig

    roles = {"developer": "system"}
    body: dict[str, Any] = AnthropicConfig().transform_request(
        model="claude-sonnet-4-5",
        messages=[{**copy.deepcopy(one), "role": roles.get(one["role"], one["role"])} for one in messages],  # type: ignore[misc]
        optional_params={"max_tokens": 1},
        litellm_params={},
        headers={},
    )
    return body


def wrong(generated: Histories, messages: list[Message]) -> list[str]:
    """What is wrong with the request that was built for a history."""
    found = [*grammars.openai(messages), *grammars.anthropic(translated(messages))]
    said = generated.messages
    data = [one for one in messages if one not in said]
    if [one for one in messages if one["role"] in ("system", "developer")] != [
        one for one in said if one["role"] in ("system", "developer")
    ]:
        found.append("instructions were altered")
    if len(data) > 1 or any(one["role"] != "user" for one in data):
        found.append(f"{len(data)} messages are ours")
    if len(messages) > len(said) and [one for one in messages if one not in data] != said:
        found.append("what was said was altered")
    return found


def outcome(seed: int) -> tuple[str, list[str]]:
    """What becomes of a seed's history: `built`, or the reason of its refusal; and what is wrong with that."""
    generated = Histories(str(seed))
    try:
        messages = built(generated)
    except NeedsPartition as split:
        return split.reason, [] if split.detail["reason"] else ["no reason is told"]
    except InvalidInput as refused:
        told = bool(refused.field and generated.broken)
        return refused.reason, [] if told else [f"refused, though nobody broke it: {refused.message}"]
    return "built", wrong(generated, messages)


@pytest.mark.parametrize(
    "count", [pytest.param(300, id="300"), pytest.param(10_000, id="10000", marks=pytest.mark.full)]
)
@pytest.mark.timeout(900)
def test_what_is_built_of_any_history_is_taken_or_refused(count: int) -> None:
    """Parallel calls, orphans, interleaved roles, huge messages; and what nobody broke is refused for its size only."""
    outcomes: Counter[str] = Counter()
    for seed in range(SEED, SEED + count):
        what, found = outcome(seed)
        assert found == [], f"MN_TEST_SEED={seed}"
        outcomes[what] += 1
    assert outcomes["built"] > count // 2, outcomes
    assert outcomes["NEEDS_PARTITION"] > count // 100, outcomes
    assert outcomes["INVALID_ARGUMENT"] > count // 10, outcomes


def test_the_grammars_notice_records_that_are_put_between_a_call_and_its_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def before_the_last(form: Form, recalled: Recalled) -> list[dict[str, Any]]:
        return [*form.history[:-1], {"role": "user", "content": RECALLED}, form.history[-1]]

    monkeypatch.setattr(Form, "_general", before_the_last)
    found = [wrong for seed in range(40) for wrong in outcome(seed)[1]]
    assert any("stands before the results" in one for one in found)
    assert any("results of [" in one for one in found)
