"""A policy that makes no sense cannot be built."""

from __future__ import annotations

from typing import Any

import pytest

from mn_contract.errors import InvalidInput
from mn_sdk.context_session import ContextPolicy
from mn_sdk.context_session.admit import Admission, Admitted
from mn_sdk.context_session.assemble import read_form
from mn_sdk.context_session.call import read_call
from tests.unit.sdk.sessions import compiler, counter

USER = {"role": "user", "content": "hello"}


def test_defaults_are_the_designs() -> None:
    policy = ContextPolicy()
    assert (policy.window_tokens, policy.output_tokens, policy.safety_tokens) == (16384, 2048, 512)
    assert policy.input_budget == 16384 - 2048 - 512
    assert (policy.packet_target, policy.counter_evidence_share, policy.supporting_evidence_share) == (0.7, 0.2, 0.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("window_tokens", 2560),
        ("window_tokens", -1),
        ("window_tokens", 1.5),
        ("window_tokens", True),
        ("output_tokens", "many"),
        ("safety_tokens", -1),
        ("packet_target", 1.1),
        ("packet_target", float("nan")),
        ("counter_evidence_share", -0.1),
        ("supporting_evidence_share", 0.9),
        ("max_calls", -1),
        ("final_call_reserve", None),
        ("max_storage_bytes", 1.0),
        ("max_storage_bytes", 0),
        ("deadline_seconds", 0),
        ("deadline_seconds", float("inf")),
        ("deadline_seconds", "soon"),
    ],
)
def test_a_value_out_of_range_is_named(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput):
        ContextPolicy(**{field: value})


def admitted(policy: ContextPolicy, model: str, **more: Any) -> Admitted:
    call = read_call({"model": model, "messages": [USER], **more}, response_format=None)
    form = read_form([USER], None)
    return Admission(policy=policy, call=call, form=form, compile=compiler([]), counter=counter).admit()


def test_a_model_that_must_be_told_how_much_to_write_is_told_what_room_is_left() -> None:
    """litellm would ask Anthropic's models for all that they can write, whatever the input leaves."""
    claude, wide = "anthropic/claude-sonnet-4-5", ContextPolicy(window_tokens=200_000)
    for policy in (wide, ContextPolicy(window_tokens=4000)):
        found = admitted(policy, claude)
        limit = found.call.asked["max_tokens"]
        assert limit >= min(policy.output_tokens, 64_000)
        assert found.count.upper + limit + policy.safety_tokens <= policy.window_tokens
    assert admitted(wide, claude, max_tokens=9).call.asked["max_tokens"] == 9
    assert "max_tokens" not in admitted(wide, "gpt-4o").call.asked


def test_no_model_is_asked_for_more_than_it_writes() -> None:
    with pytest.raises(InvalidInput, match="16384 tokens at most"):
        ContextPolicy(window_tokens=128_000).budget_of("gpt-4o", output_tokens=50_000)
    assert ContextPolicy(window_tokens=128_000, model_limits=False).budget_of("gpt-4o", output_tokens=50_000) > 0
