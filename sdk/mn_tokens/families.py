"""Which family a model belongs to: how its requests are counted, and how far off the count may be.

A table, first match first. Names are matched without the router's provider prefix; a name that no line knows is
counted as an estimate with a wide margin, never as if it were known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from mn_tokens.openai_chat import CLASSIC, FIRST, FIVE, OMNI, REASONING, REASONING_O3, REASONING_O4, Dialect


@dataclass(frozen=True, slots=True)
class Bound:
    """How many tokens the provider may bill for a count of n: `factor` x n + `constant`."""

    factor: float
    constant: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How a family is counted. `known`: whether its tokenizer and framing are (an estimate otherwise).

    The bounds were read off recorded requests: `plain` for text, `tools` for requests with tools or tool calls,
    `schema` for those with a response schema.
    """

    name: str
    dialect: Dialect
    known: bool
    plain: Bound
    tools: Bound
    schema: Bound


def _openai(name: str, dialect: Dialect, *, tools: Bound | None = None) -> Family:
    return Family(
        name=name,
        dialect=dialect,
        known=True,
        plain=Bound(1.01, 0),
        tools=tools or Bound(1.02, 12),
        schema=Bound(1.05, 20),
    )


def _estimated(name: str, plain: Bound, tools: Bound, schema: Bound) -> Family:
    return Family(name=name, dialect=OMNI, known=False, plain=plain, tools=tools, schema=schema)


GENERIC: Final = _estimated("generic", Bound(1.6, 64), Bound(1.6, 700), Bound(1.8, 300))

_TABLE: Final[tuple[tuple[re.Pattern[str], Family], ...]] = tuple(
    (re.compile(pattern), family)
    for pattern, family in (
        (r"gpt-5", _openai("openai-5", FIVE, tools=Bound(1.05, 16))),
        (r"o3", _openai("openai-o3", REASONING_O3)),
        (r"o4", _openai("openai-o4", REASONING_O4)),
        (r"o1", _openai("openai-o1", REASONING, tools=Bound(1.05, 16))),
        (r"gpt-4o|gpt-4\.1|gpt-4\.5|chatgpt-4o", _openai("openai-omni", OMNI)),
        (r"gpt-3\.5-turbo-0301", _openai("openai-first", FIRST)),
        (r"gpt-4|gpt-3\.5", _openai("openai-classic", CLASSIC)),
        (r"claude-3", _estimated("anthropic-3", Bound(1.4, 100), Bound(1.5, 560), Bound(1.8, 640))),
        (
            r"claude-(opus-4-[78]|sonnet-5|opus-5)",
            _estimated("anthropic-5", Bound(1.9, 40), Bound(1.9, 560), Bound(2.2, 640)),
        ),
        (r"claude", _estimated("anthropic-4", Bound(1.6, 40), Bound(1.5, 660), Bound(1.8, 740))),
        (r"gemini", _estimated("gemini", Bound(1.35, 8), Bound(1.95, 32), Bound(1.5, 128))),
    )
)

_PREFIX: Final = re.compile(r"^(openai|azure|anthropic|gemini|vertex_ai|bedrock|openrouter)/")
_PREFIXES_MAX: Final = 3


def family_of(model: str) -> Family:
    """The family of `model`, GENERIC where no line knows it."""
    name = model.lower()
    for _ in range(_PREFIXES_MAX):
        name = _PREFIX.sub("", name)
    return next((family for pattern, family in _TABLE if pattern.match(name)), GENERIC)
