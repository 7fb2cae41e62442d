"""Limits of models are read from litellm's table, and never guessed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mn_contract.errors import InvalidInput
from mn_sdk.context_session import ContextPolicy
from mn_tokens import limits, model_limits
from mn_tokens.limits import ModelLimits


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {
        "small": {"litellm_provider": "openai", "max_input_tokens": 8192, "max_output_tokens": 1024},
        "azure/small": {"litellm_provider": "azure", "max_input_tokens": 4096},
        "odd": {"litellm_provider": "openai", "max_input_tokens": "many", "max_output_tokens": 0},
    }
    monkeypatch.setattr(limits, "_table", lambda: entries)


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("small", ModelLimits(input_tokens=8192, output_tokens=1024)),
        ("openai/small", ModelLimits(input_tokens=8192, output_tokens=1024)),
        ("azure/small", ModelLimits(input_tokens=4096, output_tokens=None)),
        ("mistral/small", None),
        ("azure/other", None),
        ("odd", None),
        ("", None),
        ("/", None),
    ],
)
@pytest.mark.usefixtures("table")
def test_a_model_is_found_under_its_own_provider_only(model: str, found: ModelLimits | None) -> None:
    assert model_limits(model) == found


@pytest.mark.usefixtures("table")
def test_a_known_window_bounds_the_policys() -> None:
    policy = ContextPolicy()
    assert (policy.window_of("small"), policy.window_of("unknown")) == (8192, 16384)
    assert ContextPolicy(window_tokens=5000).window_of("small") == 5000
    assert ContextPolicy(model_limits=False).window_of("small") == 16384
    assert policy.budget_of("small") == 8192 - 2048 - 512
    assert policy.budget_of("azure/small", output_tokens=3000) == 4096 - 3000 - 512
    with pytest.raises(InvalidInput) as refused:
        policy.budget_of("azure/small", output_tokens=3900)
    assert refused.value.field == "max_tokens"
    with pytest.raises(InvalidInput) as refused:
        ContextPolicy(output_tokens=8000).budget_of("small")
    assert refused.value.field == "output_tokens"


@pytest.mark.usefixtures("table")
def test_a_policy_for_a_model_has_its_window_unless_it_is_stated() -> None:
    policy = ContextPolicy.for_model("small")
    assert (policy.window_tokens, policy.output_tokens) == (8192, 1024)
    stated = ContextPolicy.for_model("small", window_tokens=6000, output_tokens=100, max_calls=3)
    assert (stated.window_tokens, stated.output_tokens, stated.max_calls) == (6000, 100, 3)
    with pytest.raises(InvalidInput, match="state it"):
        ContextPolicy.for_model("unknown")


def test_the_table_is_litellms_and_is_read_without_loading_it() -> None:
    code = "import sys, mn_tokens; print(mn_tokens.model_limits('gpt-4o').input_tokens, 'litellm' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.split() == ["128000", "False"]


def test_without_a_table_nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limits, "_TABLE", str(tmp_path / "none.json"))
    limits._table.cache_clear()
    assert model_limits("gpt-4o") is None
    limits._table.cache_clear()


@pytest.mark.parametrize("model", [None, 5, "", ["small"]])
def test_a_policy_for_what_is_no_model_is_refused(model: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        ContextPolicy.for_model(model)
    assert refused.value.field == "model"
