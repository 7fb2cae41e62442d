"""Which rules and margin a model's name is counted with: its own however it is spelled, and never one that only looks
like it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_tokens import count
from mn_tokens.families import GENERIC, Family, family_of

OPENAI = ["gpt-4o", "gpt-4o-mini-2024-07-18", "gpt-4.1-nano", "gpt-5.4-mini", "o3-mini", "gpt-4-1106-preview"]
UNRECORDED = ["o1", "o1-mini", "gpt-5-pro", "gpt-5.1-codex-max", "o3-deep-research", "gpt-3.5-turbo-instruct"]
CLAUDE = ["claude-opus-4-7", "claude-sonnet-4-5-20250929", "claude-3-7-sonnet-latest", "claude-sonnet-4"]
ESTIMATED = [
    *CLAUDE, "gemini-2.5-flash", "gemini-3-pro-preview", "deepseek-chat", "mistral-large-latest", "qwen3:0.6b",
    "llama-3.3-70b-versatile", "llama-guard3:1b", "gpt-oss-120b", "grok-4-fast", "amazon.nova-pro-v1:0", "glm-4.7",
]  # fmt: skip
ROUTERS = [
    "", "openai/", "azure/", "azure_ai/", "anthropic/", "vertex_ai/", "gemini/", "github_copilot/", "litellm_proxy/",
    "openrouter/anthropic/", "bedrock/anthropic.", "bedrock/us.anthropic.", "bedrock/converse/global.anthropic.",
]  # fmt: skip
WORDS = {"messages": [{"role": "user", "content": "word " * 1000}]}
TOOL = {
    "name": "find",
    "description": "Finds it.",
    "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
}
TOOLS = {**WORDS, "tools": [{"type": "function", "function": TOOL}]}


def is_as_wide(family: Family, other: Family) -> bool:
    return all(
        getattr(family.margin, kind.name).share >= getattr(other.margin, kind.name).share
        and getattr(family.margin, kind.name).constant >= getattr(other.margin, kind.name).constant
        for kind in fields(family.margin)
    )


@given(
    name=st.sampled_from([*OPENAI, *CLAUDE]),
    router=st.sampled_from(ROUTERS),
    separator=st.sampled_from(["-", ".", "@", "_", ":"]),
    release=st.sampled_from(["", "-v1:0", "-latest", "@20260101"]),
    upper=st.booleans(),
)
def test_a_known_model_has_its_margin_or_a_wider_one_however_it_is_spelled(
    name: str, router: str, separator: str, release: str, upper: bool
) -> None:
    vendor, dot, own = router.rpartition("anthropic.")
    spelled = vendor + dot + own + name.replace("-", separator) + release
    family, known = family_of(spelled.upper() if upper else spelled), family_of(name)
    assert is_as_wide(family, known)
    assert family in (known, GENERIC) or (family.rules == known.rules and family.margin == GENERIC.margin)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("openrouter/anthropic/claude-opus-4.7", "anthropic-5"),
        ("bedrock/anthropic.claude-opus-4-7-v1:0", "anthropic-5"),
        ("bedrock/converse/us.anthropic.claude-opus-4-7", "anthropic-5"),
        ("azure_ai/claude-opus-4-7", "anthropic-5"),
        ("vertex_ai/claude-sonnet-4-5@20250929", "anthropic-4-5"),
        ("anthropic/claude-3-opus-20240229", "anthropic-3-opus"),
        ("claude-opus-4-9", "generic"),
        ("claude-sonnet-6", "generic"),
        ("openrouter/google/gemini-2.5-flash", "gemini-2-5"),
        ("gemini/gemini-flash-latest", "gemini-3"),
        ("azure/gpt-35-turbo", "openai-classic"),
        ("gpt-4-1", "openai-omni"),
        ("groq/meta-llama/llama-4-scout-17b-16e-instruct", "llama-4"),
        ("bedrock/us.amazon.nova-2-lite-v1:0", "nova-2"),
        ("xai/grok-4-fast", "grok"),
    ],
)
def test_spellings_that_are_in_use_are_known(name: str, family: str) -> None:
    assert family_of(name).name == family


@given(name=st.sampled_from(OPENAI), tail=st.from_regex(r"[a-z0-9]{1,3}|-(my|x)[a-z]{0,6}|-\d", fullmatch=True))
def test_what_only_begins_like_a_known_model_is_not_exact(name: str, tail: str) -> None:
    assert family_of(f"openai/{name}{tail}") == GENERIC


@pytest.mark.parametrize("name", ["o1000/own", "openai/o3x-local", "azure/gpt-4-my-llama", "gpt-4o-2", "my/gpt-4o"])
def test_a_name_that_is_not_all_of_a_models_is_an_estimate(name: str) -> None:
    counted = count(WORDS, model=name)
    assert not counted.exact
    assert counted.margin >= counted.tokens * 0.9


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("gpt-5.9", "gpt-5"),
        ("gpt-5.7-mini", "gpt-5-mini"),
        ("gpt-5.12-2026-10-01", "gpt-5"),
        ("gpt-4o-2029-01-01", "gpt-4o"),
        ("gpt-5.4-mini-2027-02-03", "gpt-5.4-mini"),
        ("o3-2031-01-01", "o3"),
    ],
)
@pytest.mark.parametrize("router", ["", "azure/", "openrouter/openai/"])
def test_a_release_after_the_table_is_counted_as_the_nearest_and_is_an_estimate(
    router: str, name: str, nearest: str
) -> None:
    found = family_of(router + name)
    assert found.rules == family_of(nearest).rules
    assert (found.known, found.margin) == (False, GENERIC.margin)


@pytest.mark.parametrize("name", OPENAI)
@pytest.mark.parametrize("router", ["", "openai/", "azure/", "openrouter/openai/"])
def test_openais_models_are_exact_where_they_are_billed_as_openai_bills_them(router: str, name: str) -> None:
    found, own = family_of(router + name), family_of(name)
    assert found.rules == own.rules
    assert found.known
    assert is_as_wide(found, own)


@pytest.mark.parametrize("name", UNRECORDED)
@pytest.mark.parametrize("router", ["", "openai/", "azure/", "openrouter/openai/"])
def test_models_that_no_recording_is_known_of_are_estimates(router: str, name: str) -> None:
    counted = count(WORDS, model=router + name)
    assert not counted.exact
    assert "is estimated" in counted.reasons[0]
    assert counted.margin > 16


def test_hosts_and_apis_bill_the_same_model_differently() -> None:
    assert family_of("vertex_ai/gemini-2.5-flash").rules != family_of("gemini/gemini-2.5-flash").rules
    assert family_of("gpt-4o", "responses").rules != family_of("gpt-4o").rules


@pytest.mark.parametrize("request_", [WORDS, TOOLS])
@pytest.mark.parametrize("name", [*OPENAI, *ESTIMATED])
def test_what_no_line_knows_is_reckoned_as_whatever_one_does(name: str, request_: Any) -> None:
    assert family_of(name) != GENERIC
    assert is_as_wide(GENERIC, family_of(name))
    assert count(request_, model="nobody/knows").upper >= count(request_, model=name).upper
