"""Model profiles: the seed's table, whole words, budgets within bounds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mn_tokens
from mn_contract.errors import InvalidInput
from mn_engine.select.cmp.profiles import GENERIC, PROFILES, ModelProfile, Weights, resolve_profile


def test_the_table_is_the_protocols() -> None:
    told = {
        profile.name: (
            profile.pack_token_budget,
            profile.chars_per_token,
            (profile.weights.relevance, profile.weights.recency, profile.weights.trust),
            profile.knapsack,
        )
        for profile in (GENERIC, *PROFILES)
    }
    assert told == {
        "generic": (6000, 4.0, (600, 250, 150), False),
        "claude": (12000, 3.8, (580, 270, 150), True),
        "gpt": (8000, 4.0, (550, 250, 200), True),
        "cursor": (3000, 3.6, (720, 140, 140), True),
    }


@pytest.mark.parametrize(
    ("model", "profile"),
    [
        ("", "generic"),
        ("claude-3-5-sonnet", "claude"),
        ("anthropic", "claude"),
        ("openrouter/anthropic/claude-opus-4.7", "claude"),
        ("gpt-4o", "gpt"),
        ("ChatGPT", "gpt"),
        ("o1-mini", "gpt"),
        ("cursor-agent", "cursor"),
        ("copilot", "cursor"),
        ("windsurf", "cursor"),
        ("cline", "cursor"),
        ("zed", "cursor"),
        ("claude-3-5-sonnet cursor", "cursor"),
        ("gpt-4o zed", "cursor"),
        ("customized-model", "generic"),
        ("command-r-plus", "generic"),
        ("declined", "generic"),
        ("foo1", "generic"),
        ("claude3", "claude"),
        ("gpt41", "gpt"),
        ("gpt4o-mini", "gpt"),
        ("chatgpt4", "gpt"),
        ("zed2", "cursor"),
        ("marco-o1", "gpt"),  # a word is a word, wherever it stands
        ("opus-mt-en-de", "claude"),
        ("gpt-neox", "gpt"),
        ("gptneox", "generic"),
        ("gpt4all", "generic"),
        ("o11", "generic"),
        ("o1x", "generic"),
        ("3claude", "generic"),
        ("gpu-4", "generic"),
        ("llama-3", "generic"),
        ("\u0130", "generic"),
    ],
)
def test_a_name_is_matched_by_whole_words(model: str, profile: str) -> None:
    assert resolve_profile(model).name == profile


@given(
    before=st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=6),
    alias=st.sampled_from([name for profile in PROFILES for name in (profile.name, *profile.aliases)]),
    behind=st.booleans(),
)
def test_an_alias_inside_another_word_names_nothing(before: str, alias: str, behind: bool) -> None:
    word = alias + before if behind else before + alias
    known = {name for profile in PROFILES for name in (profile.name, *profile.aliases)}
    versioned = re.fullmatch(r"([a-z]+)[0-9]+[a-z]?", word)
    assert resolve_profile(word).name == "generic" or word in known or (versioned and versioned[1] in known)


@given(asked=st.integers(1, 1 << 24), profile=st.sampled_from((GENERIC, *PROFILES)))
def test_a_budget_is_clamped_into_the_profiles_range(asked: int, profile: ModelProfile) -> None:
    assert profile.budget(asked) == min(max(asked, 300), profile.pack_token_budget)
    assert profile.budget(None) == profile.pack_token_budget


def test_lines_of_the_users_own_come_first() -> None:
    own = ModelProfile(
        name="local",
        context_window=8000,
        pack_token_budget=2000,
        chars_per_token=3.0,
        weights=Weights(relevance=1000, recency=0, trust=0),
        aliases=("llama", "claude"),
    )
    assert resolve_profile("llama-3", (own,)) is own
    assert resolve_profile("claude-3", (own,)) is own
    assert resolve_profile("gpt-4", (own,)).name == "gpt"


def test_an_estimate_rounds_up() -> None:
    assert GENERIC.estimate("") == 0
    assert GENERIC.estimate("abcde") == 2
    cursor = resolve_profile("cursor")
    assert cursor.estimate("x" * 36) == 10
    assert cursor.estimate("x" * 37) == 11


@pytest.mark.parametrize(
    "text",
    [
        "> [note/6f1ed002ab5595859014ebf0951522d9, facts, 2026-11-30 22:01] The price cap is ten.\n",
        "> [pricing-observation/2026-11-30/0042, facts, 2026-11-30 22:01] Widget 42 costs 126 euros.\n",
        "See https://example.com/a/b?x=42&y=abc#frag and a.b@c.org for 1,204.50 USD.",
        "\u4eca\u65e5\u306f\u6674\u308c\u3002\u660e\u65e5\u306f\u96e8 (\u30c7\u30e2).",
        "Die Stra\u00dfe \u00fcber die Br\u00fccke ist f\u00fcr Fu\u00dfg\u00e4nger offen.",
        "def get(engine: Engine, *, pin: bool=False) -> dict[str, Any]:\n    return {k: v for k, v in x.items()}",
        "The contract caps the price at ten and a half until June, says the annex that Priya sent to Sam.",
    ],
)
def test_an_estimate_is_above_what_a_tokenizer_makes_of_a_line(text: str) -> None:
    """Invariant 11: an estimate has its margin; hashes, dates, code and other scripts take more than prose."""
    for profile in (GENERIC, *PROFILES):
        assert mn_tokens.text_tokens("o200k_base", text) <= profile.estimate(text) <= 2 * len(text)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "two words"},
        {"aliases": ("gpt-4",)},
        {"pack_token_budget": 299},
        {"pack_token_budget": 9000},
        {"chars_per_token": 0.5},
    ],
)
def test_a_line_that_cannot_be_is_refused(fields: dict[str, object]) -> None:
    line: dict[str, object] = {
        "name": "own",
        "context_window": 8000,
        "pack_token_budget": 2000,
        "chars_per_token": 4.0,
        "weights": Weights(relevance=600, recency=250, trust=150),
    }
    with pytest.raises(InvalidInput):
        ModelProfile(**{**line, **fields})  # type: ignore[arg-type]


def test_weights_are_shares_of_one() -> None:
    with pytest.raises(InvalidInput):
        Weights(relevance=600, recency=250, trust=100)
