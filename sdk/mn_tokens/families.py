"""Which family a model belongs to: how its requests are counted, and how far off the count may be.

A table, first match first. Names are matched whole, however they are spelled (`openrouter/anthropic/claude-opus-4.7` is
`claude-opus-4-7`): a name that only begins like a known one is another model. What no line knows is counted as an
estimate with the widest margin, never as if it were known; so is a known model under a router that is not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
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


_OPENAI_WORDS: Final = (
    r"mini|nano|pro|turbo|chat|codex|max|instruct|deep-research|search|vision|preview|latest|sol|luna|terra"
    r"|\d{4}(-\d\d-\d\d)?|\d\dk"
)
_OTHER_WORDS: Final = r"lite|thinking|exp|beta|preview|latest|\d{8}|\d{4}|\d{3}|\d\d-\d\d|v\d(-\d)?"
"""What may stand after a known name and leave it the same model: sizes, dates, releases."""

_TABLE: Final[tuple[tuple[re.Pattern[str], Family], ...]] = tuple(
    (re.compile(f"({pattern})(-({_OPENAI_WORDS if family.known else _OTHER_WORDS}))*"), family)
    for pattern, family in (
        (r"gpt-5(-\d)?", _openai("openai-5", FIVE, tools=Bound(1.05, 16))),
        (r"o3", _openai("openai-o3", REASONING_O3)),
        (r"o4", _openai("openai-o4", REASONING_O4)),
        (r"o1", _openai("openai-o1", REASONING, tools=Bound(1.05, 16))),
        (r"(chat)?gpt-4o|gpt-4-[15]", _openai("openai-omni", OMNI)),
        (r"gpt-3-?5-turbo-0301", _openai("openai-first", FIRST)),
        (r"gpt-4|gpt-3-?5", _openai("openai-classic", CLASSIC)),
        (
            r"claude-3(-[57])?-(opus|sonnet|haiku)",
            _estimated("anthropic-3", Bound(1.4, 100), Bound(1.5, 560), Bound(1.8, 640)),
        ),
        (
            r"claude-(opus-4-[78]|sonnet-5|opus-5)",
            _estimated("anthropic-5", Bound(1.9, 40), Bound(1.9, 560), Bound(2.2, 640)),
        ),
        (
            r"claude-(opus|sonnet|haiku)-4(-[0-6])?",
            _estimated("anthropic-4", Bound(1.6, 40), Bound(1.5, 660), Bound(1.8, 740)),
        ),
        (
            r"gemini(-(1-5|2-0|2-5|3|3-1|3-5))?-(pro|flash)",
            _estimated("gemini", Bound(1.35, 8), Bound(1.95, 32), Bound(1.5, 128)),
        ),
    )
)
"""Names in `family_of`'s spelling, whole: words that are no part of a known name make another model of it."""


def _widest(*bounds: Bound) -> Bound:
    return Bound(max(bound.factor for bound in bounds), max(bound.constant for bound in bounds))


_ALL: Final = tuple(family for _, family in _TABLE)
GENERIC: Final = _estimated(
    "generic",
    _widest(Bound(1.6, 64), *(family.plain for family in _ALL)),
    _widest(Bound(1.6, 700), *(family.tools for family in _ALL)),
    _widest(Bound(1.8, 300), *(family.schema for family in _ALL)),
)
"""What no line knows: at least the widest bound of what one does, for it may be any of that in disguise."""

_EXACT_UNDER: Final = frozenset({"", "openai", "azure", "openrouter/openai"})
"""What stands before a name where OpenAI's models are billed as OpenAI does. Others may add something of their own."""
_VENDOR: Final = re.compile(r"^([a-z-]+\.)+")
"""Bedrock's region and vendor: `us.anthropic.`."""
_SEPARATORS: Final = re.compile(r"[.:@_]")


def family_of(model: str) -> Family:
    """The family of `model`, GENERIC where no line knows it."""
    router, _, name = model.lower().rpartition("/")
    spelling = _SEPARATORS.sub("-", _VENDOR.sub("", name))
    found = next((family for pattern, family in _TABLE if pattern.fullmatch(spelling)), GENERIC)
    if not found.known or router in _EXACT_UNDER:
        return found
    return replace(found, known=False, plain=GENERIC.plain, tools=GENERIC.tools, schema=GENERIC.schema)
