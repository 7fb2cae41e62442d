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
from mn_sdk.context_session.histories import check_for, check_history
from tests.unit.sdk import grammars
from tests.unit.sdk.generated import Histories, Message
from tests.unit.sdk.sessions import card, compiler, counter

SEED = int(os.environ.get("MN_TEST_SEED", "1"))
RECALLED = "recalled-record"


def built(generated: Histories) -> dict[str, Any]:
    """The request that is sent for a history. Raises InvalidInput, NeedsPartition."""
    given = {"model": generated.model, "messages": generated.messages, **generated.asked}
    call = read_call(given, response_format=None)
    check_for(call.model, call.asked)
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
    return dict(admission.admit().call.asked)


def translated(request: dict[str, Any]) -> dict[str, Any]:
    """The request to Anthropic that litellm makes of this one; developers' instructions are system ones there."""
    provider.load()
    from litellm.llms.anthropic.chat.transformation import AnthropicConfig

    config, roles = AnthropicConfig(), {"developer": "system"}
    asked = {name: copy.deepcopy(request[name]) for name in ("tools", "tool_choice") if name in request}
    body: dict[str, Any] = config.transform_request(
        model="claude-sonnet-4-5",
        messages=[{**copy.deepcopy(one), "role": roles.get(one["role"], one["role"])} for one in request["messages"]],  # type: ignore[misc]
        optional_params=config.map_openai_params(asked, {"max_tokens": 1}, "claude-sonnet-4-5", drop_params=False),
        litellm_params={},
        headers={},
    )
    return body


def wrong(generated: Histories, request: dict[str, Any]) -> list[str]:
    """What is wrong with the request that was built for a history."""
    messages: list[Message] = request["messages"]
    judged = grammars.anthropic(translated(request)) if "claude" in generated.model else grammars.openai(request)
    found = list(judged)
    said = check_history(generated.messages)
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
        request = built(generated)
    except NeedsPartition as split:
        return split.reason, [] if split.detail["reason"] else ["no reason is told"]
    except InvalidInput as refused:
        told = bool(refused.field and generated.broken)
        return refused.reason, [] if told else [f"refused, though nobody broke it: {refused.message}"]
    return "built", wrong(generated, request)


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
    found = [wrong for seed in range(80) for wrong in outcome(seed)[1]]
    assert any("stands before the results" in one for one in found)
    assert any("results of [" in one for one in found)
