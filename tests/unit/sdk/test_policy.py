"""A policy that makes no sense cannot be built."""

from __future__ import annotations

from typing import Any

import pytest

from mn_contract.errors import InvalidInput
from mn_sdk.context_session import ContextPolicy


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
