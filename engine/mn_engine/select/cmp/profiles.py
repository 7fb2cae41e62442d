"""Model profiles: what a pack is calibrated to, by who is going to read it. A table; users add lines of their own.

A caller says what it is in free text (`claude-3-5-sonnet`, `gpt-4o`, `cursor-agent`). Names are matched by whole words,
wherever they stand: `zed` is not in `customized-model`, nor `cline` in `declined`. A version may follow without a sign
between: `claude3`, `gpt41`, `gpt4o`. What no line knows is generic.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mn_contract.errors import InvalidInput
from mn_contract.limits import PACK_BUDGET_TOKENS_DEFAULT, PACK_BUDGET_TOKENS_MIN, PACKET_BUDGET_TOKENS_MAX

_WORD: Final = re.compile(r"[a-z0-9]+")
_NO_PROSE: Final = re.compile(r"""(?<!\S)[A-Za-z.,;:!?'"()\-]*+\S\S*+""")
"""A piece between spaces in which there is something else than letters and the marks of sentences."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9]")
_VERSION: Final = re.compile(r"(?<=[a-z])[0-9]+[a-z]?\Z")
"""What may follow a name in its word: `3`, `41`, `4o`."""
_THOUSAND: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What relevance, recency and trust are worth, in thousandths; together 1000."""

    relevance: int
    recency: int
    trust: int

    def __post_init__(self) -> None:
        if min(self.relevance, self.recency, self.trust) < 0 or self.relevance + self.recency + self.trust != _THOUSAND:
            raise InvalidInput(
                "weights of relevance, recency and trust must be shares that add up to 1", field="weights"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """One line. `chars_per_token` is the estimate where the model's tokenizer is not known; `knapsack` false fills
    layer by layer, without folding or compressing anything. `aliases` are words that name it, besides `name`."""

    name: str
    context_window: int
    pack_token_budget: int
    chars_per_token: float
    weights: Weights
    knapsack: bool = True
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for word in (self.name, *self.aliases):
            if not _WORD.fullmatch(word):
                raise InvalidInput(
                    f"a profile's name and its aliases are words of a-z and 0-9, not {word!r}", field="profile"
                )
        if not PACK_BUDGET_TOKENS_MIN <= self.pack_token_budget <= min(self.context_window, PACKET_BUDGET_TOKENS_MAX):
            raise InvalidInput(
                f"profile {self.name!r}: pack_token_budget must be {PACK_BUDGET_TOKENS_MIN} or more, and no more than "
                "its context_window",
                field="pack_token_budget",
            )
        if not 1.0 <= self.chars_per_token <= 16.0:
            raise InvalidInput(f"profile {self.name!r}: chars_per_token must be 1 to 16", field="chars_per_token")

    def budget(self, asked: int | None) -> int:
        """The tokens that a pack may take: what was asked, within [PACK_BUDGET_TOKENS_MIN, the profile's budget]."""
        if asked is None:
            return self.pack_token_budget
        return min(max(asked, PACK_BUDGET_TOKENS_MIN), self.pack_token_budget)

    def estimate(self, text: str) -> int:
        """Tokens of a text by its length, rounded up: prose at the profile's rate. What is no prose (hashes, dates,
        paths, code, other scripts) takes more of any tokenizer: three tokens for five letters or digits, and one for
        every other sign."""
        odd = "".join(_NO_PROSE.findall(text))
        plain = len(_PLAIN.findall(odd))
        prose = -(-(len(text) - len(odd)) * _THOUSAND // round(self.chars_per_token * _THOUSAND))
        return prose + -(-plain * 3 // 5) + len(odd) - plain


GENERIC: Final = ModelProfile(
    name="generic",
    context_window=32_000,
    pack_token_budget=PACK_BUDGET_TOKENS_DEFAULT,
    chars_per_token=4.0,
    weights=Weights(relevance=600, recency=250, trust=150),
    knapsack=False,
)
PROFILES: Final = (
    ModelProfile(
        name="cursor",
        context_window=128_000,
        pack_token_budget=3_000,
        chars_per_token=3.6,
        weights=Weights(relevance=720, recency=140, trust=140),
        aliases=("copilot", "windsurf", "cline", "zed"),
    ),
    ModelProfile(
        name="claude",
        context_window=200_000,
        pack_token_budget=12_000,
        chars_per_token=3.8,
        weights=Weights(relevance=580, recency=270, trust=150),
        aliases=("anthropic", "sonnet", "opus", "haiku"),
    ),
    ModelProfile(
        name="gpt",
        context_window=128_000,
        pack_token_budget=8_000,
        chars_per_token=4.0,
        weights=Weights(relevance=550, recency=250, trust=200),
        aliases=("chatgpt", "openai", "o1", "o3", "o4"),
    ),
)
"""First match first: a surface with little room decides, whatever model runs in it."""


def resolve_profile(model: str, added: Sequence[ModelProfile] = ()) -> ModelProfile:
    """The profile that `model`, a model's or a surface's name or both, asks for; lines of the user's own come first."""
    words = frozenset(_WORD.findall(model.lower()))
    words |= {_VERSION.sub("", word) for word in words}
    for profile in (*added, *PROFILES):
        if words & {*profile.aliases, profile.name}:
            return profile
    return GENERIC
