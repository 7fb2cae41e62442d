"""Which family a model belongs to: how its requests are counted, and how far off the count may be.

A table, first match first. Names are matched whole, however they are spelled (`openrouter/anthropic/claude-opus-4.7` is
`claude-opus-4-7`): a name that only begins like a known one is another model. What no line knows is counted as an
estimate with the widest margin, never as if it were known; so is a known model under a router that is not, and so is a
release that came after the table, by the rules of the one nearest to it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from mn_tokens import encodings, estimates, openai
from mn_tokens.margins import Bound, Margin
from mn_tokens.rules import Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How a family is counted. `known`: whether its tokenizer and framing are (an estimate otherwise). `responses` are
    the rules of OpenAI's other API, `under` those of hosts that bill the same model otherwise."""

    name: str
    rules: Rules
    margin: Margin
    known: bool = False
    responses: Rules | None = None
    under: Mapping[str, Rules] = field(default_factory=dict)


_OPENAI: Final = Margin(text=Bound(0.005), call=Bound(0.012, 1), tools=Bound(0.01, 1), schema=Bound(0.1, 8))
_REASONING: Final = Margin(text=Bound(0.005), call=Bound(0.5, 4), tools=Bound(0.08, 4), schema=Bound(0.1, 10))
_RESPONSES: Final = Margin(text=Bound(0.005), call=Bound(0.02, 2), tools=Bound(0.02, 2), schema=Bound(0.1, 8))
"""At least this much in OpenAI's other API, where calls that came back under their identity were billed differently."""


def _openai(name: str, rules: Rules, responses: Rules, margin: Margin = _OPENAI) -> Family:
    return Family(name=name, rules=rules, responses=responses, margin=margin, known=True)


def _estimated(name: str, rules: Rules, margin: Margin = estimates.OPEN_MARGIN, **under: Rules) -> Family:
    return Family(name=name, rules=rules, margin=margin, under=under)


_OPENAI_WORDS: Final = (
    r"mini|nano|pro|turbo|chat|codex|max|instruct|deep-research|vision|preview|latest|sol|luna|terra"
    r"|[01]\d[0-3]\d|202[3-6]-\d\d-\d\d|\d\dk"
)
_OTHER_WORDS: Final = (
    r"lite|thinking|exp|beta|preview|latest|free|image|instruct|fast|fp8|fp16|turbo|versatile|instant|\d{8}|\d{4}"
    r"|\d{3}|\d\d-\d\d|\d\d-\d\d-\d{4}|v\d(-\d)?|\d+(-\d)?b|\d+e|a\d+b"
)
"""What may stand after a known name and leave it the same model: sizes, dates, releases."""

_NAMES: Final[tuple[tuple[str, Family], ...]] = (
    (r"gpt-5(-[1-6])?", _openai("openai-5", openai.FIVE, openai.FIVE_RESPONSES, _REASONING)),
    (r"o3", _openai("openai-o3", openai.REASONING_O3, openai.REASONING_RESPONSES, _REASONING)),
    (r"o4", _openai("openai-o4", openai.REASONING_O4, openai.REASONING_RESPONSES, _REASONING)),
    (r"o1", _openai("openai-o1", openai.REASONING, openai.REASONING_RESPONSES, _REASONING)),
    (r"(chat)?gpt-4o|gpt-4-[15]", _openai("openai-omni", openai.OMNI, openai.OMNI_RESPONSES)),
    (r"gpt-3-?5-turbo-0301", _openai("openai-first", openai.FIRST, openai.CLASSIC_RESPONSES)),
    (r"gpt-4|gpt-3-?5", _openai("openai-classic", openai.CLASSIC, openai.CLASSIC_RESPONSES)),
    (r"claude-3-opus", _estimated("anthropic-3-opus", estimates.CLAUDE_3_OPUS, estimates.CLAUDE_MARGIN)),
    (r"claude-3(-[57])?-(sonnet|haiku)", _estimated("anthropic-3", estimates.CLAUDE_3, estimates.CLAUDE_MARGIN)),
    (r"claude-(opus-4-[78]|sonnet-5|opus-5)", _estimated("anthropic-5", estimates.CLAUDE_5, estimates.CLAUDE_MARGIN)),
    (
        r"claude-(opus|sonnet|haiku)-4-[56]",
        _estimated("anthropic-4-5", estimates.CLAUDE_4_5, estimates.CLAUDE_MARGIN),
    ),
    (r"claude-(opus|sonnet|haiku)-4(-[01])?", _estimated("anthropic-4", estimates.CLAUDE_4, estimates.CLAUDE_MARGIN)),
    (r"gemini-(1-5|2-0)-(pro|flash)", _estimated("gemini-2", estimates.GEMINI_2, estimates.GEMINI_2_MARGIN)),
    (
        r"gemini-2-5-(pro|flash)",
        _estimated("gemini-2-5", estimates.GEMINI_2_5, estimates.GEMINI_MARGIN, vertex_ai=estimates.GEMINI_2_5_VERTEX),
    ),
    (
        r"gemini(-(3|3-1|3-5))?-(pro|flash)",
        _estimated("gemini-3", estimates.GEMINI_3, estimates.GEMINI_MARGIN, vertex_ai=estimates.GEMINI_3_VERTEX),
    ),
    (
        r"deepseek-(chat|reasoner|v3|v4)(-flash|-pro)?",
        _estimated("deepseek", estimates.DEEPSEEK_CHAT, estimates.DEEPSEEK_MARGIN),
    ),
    (r"(mistral|magistral|ministral)-(small|medium|large|8b|3b)", _estimated("mistral", estimates.MISTRAL)),
    (r"qwen-?(\d(-\d)?)?(-(plus|turbo|max|next|coder))*", _estimated("qwen", estimates.QWEN, estimates.QWEN_MARGIN)),
    (r"llama-?guard-?\d?", _estimated("llama-guard", estimates.LLAMA_GUARD)),
    (r"(meta-)?llama-?3(-\d)?", _estimated("llama-3", estimates.LLAMA_3)),
    (r"llama-?4(-(maverick|scout))?", _estimated("llama-4", estimates.LLAMA_4)),
    (r"gpt-oss(-safeguard)?", _estimated("gpt-oss", estimates.GPT_OSS)),
    (
        r"grok-(\d(-\d)?|code)(-(non-reasoning|reasoning|mini))*",
        _estimated("grok", estimates.GROK, estimates.GROK_MARGIN),
    ),
    (r"(zai-)?glm-\d(-\d)?(-flash|-air)?", _estimated("glm", estimates.GLM)),
    (r"kimi-k\d(-\d)?", _estimated("kimi", estimates.KIMI)),
    (r"nova-2-(lite|pro)", _estimated("nova-2", estimates.NOVA_2, estimates.NOVA_2_MARGIN)),
    (r"nova-(lite|micro|pro|premier)", _estimated("nova", estimates.NOVA, estimates.NOVA_MARGIN)),
)
"""Names in `family_of`'s spelling: words that are no part of a known name make another model of it."""

_TABLE: Final = tuple(
    (re.compile(f"({pattern})(-({_OPENAI_WORDS if family.known else _OTHER_WORDS}))*"), family)
    for pattern, family in _NAMES
)

_LATER: Final = re.compile(
    rf"(?P<model>gpt-5)-([7-9]|\d\d)(?P<rest>(-({_OPENAI_WORDS}))*)|(?P<dated>.+)-20(2[7-9]|[3-9]\d)-\d\d-\d\d"
)
"""Releases that came after this table: nobody can know how they are billed, and the nearest one is the best guess."""

GENERIC: Final = Family(
    name="generic",
    rules=estimates.UNKNOWN,
    margin=functools.reduce(Margin.widest, (family.margin for _, family in _NAMES), estimates.UNKNOWN_MARGIN),
)
"""What no line knows: reckoned as at least what any line's model may cost, for it may be that in disguise."""

_UNRECORDED: Final = re.compile(r"o1(-.*)?|.*-(instruct|deep-research|vision|pro|codex|max)(-.*)?")
"""OpenAI's models of which no recorded request is known: counted by their family's rules, as estimates."""
_UNRECORDED_MARGIN: Final = Margin(
    text=Bound(0.02, 16), call=Bound(0.5, 8), tools=Bound(0.1, 16), schema=Bound(0.1, 16)
)
_PASSING: Final = {
    **dict.fromkeys(("", "openai", "azure", "responses", "openai/responses", "azure/responses"), _OPENAI),
    "openrouter/openai": Margin(text=Bound(0.005), call=Bound(0.15, 4), tools=Bound(0.1, 8), schema=Bound(0.1, 10)),
}
"""What stands before a name where OpenAI's models are billed as OpenAI does, and the least margin there: OpenRouter
calls whichever of its APIs it likes. Others may add something of their own."""
_VENDOR: Final = re.compile(r"^([a-z-]+\.)+")
"""Bedrock's region and vendor: `us.anthropic.`."""
_SEPARATORS: Final = re.compile(r"[.:@_]")


def tokenizer_of(model: str) -> str | None:
    """The encoding of `model`'s own tokenizer, where it is known and its file is on this machine."""
    family = family_of(model)
    return family.rules.encoding if family.known and encodings.available(family.rules.encoding) else None


@functools.lru_cache(maxsize=1024)
def family_of(model: str, api: str = "chat") -> Family:
    """The family of `model` as it is called by `api`, GENERIC where no line knows it."""
    router, _, name = model.lower().rpartition("/")
    spelling = _SEPARATORS.sub("-", _VENDOR.sub("", name))
    later = _LATER.fullmatch(spelling)
    nearest = spelling if later is None else later["dated"] or f"{later['model']}{later['rest']}"
    found = next((family for pattern, family in _TABLE if pattern.fullmatch(nearest)), GENERIC)
    if api == "responses" and found.responses is not None:
        found = replace(found, rules=found.responses, margin=found.margin.widest(_RESPONSES))
    found = replace(found, rules=found.under.get(router, found.rules))
    if not found.known:
        return found
    if later is not None or router not in _PASSING:
        return replace(found, known=False, margin=GENERIC.margin)
    found = replace(found, margin=found.margin.widest(_PASSING[router]))
    if _UNRECORDED.fullmatch(nearest):
        return replace(found, known=False, margin=found.margin.widest(_UNRECORDED_MARGIN))
    return found
