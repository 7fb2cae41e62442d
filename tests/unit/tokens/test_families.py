"""Which bound a model's name is counted with: its own however it is spelled, and never one that only looks like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_tokens import count
from mn_tokens.families import GENERIC, Bound, Family, family_of

OPENAI = ["gpt-4o", "gpt-4o-mini-2024-07-18", "gpt-4.1-nano", "gpt-5.4-mini", "o3-mini", "o1", "gpt-4-1106-preview"]
ESTIMATED = ["claude-opus-4-7", "claude-sonnet-4-5-20250929", "claude-3-7-sonnet-latest", "gemini-2.5-flash"]
ROUTERS = [
    "", "openai/", "azure/", "azure_ai/", "anthropic/", "vertex_ai/", "gemini/", "github_copilot/", "litellm_proxy/",
    "openrouter/anthropic/", "bedrock/anthropic.", "bedrock/us.anthropic.", "bedrock/converse/global.anthropic.",
]  # fmt: skip


def bounds(family: Family) -> tuple[Bound, Bound, Bound]:
    return family.plain, family.tools, family.schema


def is_as_wide(family: Family, other: Family) -> bool:
    pairs = zip(bounds(family), bounds(other), strict=True)
    return all(one.factor >= two.factor and one.constant >= two.constant for one, two in pairs)


@given(
    name=st.sampled_from([*OPENAI, *ESTIMATED]),
    router=st.sampled_from(ROUTERS),
    separator=st.sampled_from(["-", ".", "@", "_", ":"]),
    release=st.sampled_from(["", "-v1:0", "-latest", "@20260101"]),
    upper=st.booleans(),
)
def test_a_known_model_has_its_bound_or_a_wider_one_however_it_is_spelled(
    name: str, router: str, separator: str, release: str, upper: bool
) -> None:
    vendor, dot, own = router.rpartition("anthropic.")
    spelled = vendor + dot + own + name.replace("-", separator) + release
    family, known = family_of(spelled.upper() if upper else spelled), family_of(name)
    assert is_as_wide(family, known)
    assert family in (known, GENERIC) or (family.dialect == known.dialect and bounds(family) == bounds(GENERIC))


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("openrouter/anthropic/claude-opus-4.7", "anthropic-5"),
        ("bedrock/anthropic.claude-opus-4-7-v1:0", "anthropic-5"),
        ("bedrock/converse/us.anthropic.claude-opus-4-7", "anthropic-5"),
        ("azure_ai/claude-opus-4-7", "anthropic-5"),
        ("vertex_ai/claude-sonnet-4-5@20250929", "anthropic-4"),
        ("claude-opus-4-9", "generic"),
        ("claude-sonnet-6", "generic"),
        ("openrouter/google/gemini-2.5-flash", "gemini"),
        ("azure/gpt-35-turbo", "openai-classic"),
        ("gpt-4-1", "openai-omni"),
    ],
)
def test_spellings_that_are_in_use_are_known(name: str, family: str) -> None:
    assert family_of(name).name == family


@given(name=st.sampled_from(OPENAI), tail=st.from_regex(r"[a-z0-9]{1,3}|-(my|x)[a-z]{0,6}|-\d", fullmatch=True))
def test_what_only_begins_like_a_known_model_is_not_exact(name: str, tail: str) -> None:
    assert family_of(f"openai/{name}{tail}") == GENERIC


@pytest.mark.parametrize("name", ["o1000/own", "openai/o3x-local", "azure/gpt-4-my-llama", "gpt-4o-2", "my/gpt-4o"])
def test_a_name_that_is_not_all_of_a_models_is_an_estimate(name: str) -> None:
    counted = count({"messages": [{"role": "user", "content": "word " * 1000}]}, model=name)
    assert not counted.exact
    assert counted.margin >= counted.tokens * 0.9


@pytest.mark.parametrize("name", OPENAI)
@pytest.mark.parametrize("router", ["", "openai/", "azure/", "openrouter/openai/"])
def test_openais_models_are_exact_where_they_are_billed_as_openai_bills_them(router: str, name: str) -> None:
    assert family_of(router + name) == family_of(name)
    assert family_of(name).known


def test_what_no_line_knows_has_the_widest_bound() -> None:
    assert all(is_as_wide(GENERIC, family_of(name)) for name in [*OPENAI, *ESTIMATED])
