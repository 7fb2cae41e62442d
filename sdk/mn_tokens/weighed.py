"""Requests to models whose provider's rendering is not known to the token: weights on what a request is made of.

What a provider bills is close to linear in its parts: the texts, in a tokenizer that is like its own, and constants for
each message, call, result and tool, and for the hidden prompt that comes with tools. The numbers of a family are one
`Weighed`, fitted to recorded requests; how far off they are is the family's margin, never theirs.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mn_tokens.encodings import O200K
from mn_tokens.outlines import outlined
from mn_tokens.reading.json_values import as_text
from mn_tokens.request import Envelope, Message, Result, Strange, Text, Thought, Tool
from mn_tokens.rules import Line, Tokens, kind_of, strange_lines
from mn_tokens.values import Part

_VARIED: Final = 0.1
"""How far off a text of a hundred different words may be, as a share: that much is in the families' margins."""
_WORDS_MIN: Final = 64
"""A shorter text is never far off, whatever it says."""
_STRING_MIN: Final = 256
_NO_STRING: Final = re.compile(r"[^\w+/=-]+")
"""Between strings that are no words, as of base64: from `_STRING_MIN` characters on they are doubted, for half a token
each; and so are runs of one character, which some tokenizers have tokens for."""
_RUN: Final = re.compile(r"(.)\1{31,}", re.DOTALL)
_FOREIGN: Final = re.compile(r"[^\x00-\u02ff\u2000-\u206f]+")
"""What is neither Latin nor punctuation."""
_STEERING: Final = frozenset({"type", "strict"})
_DIGITS: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """Numbers are tokens; scales are factors on tokens of `encoding`."""

    encoding: str = O200K
    digits: bool = False
    """Whether each digit is a token of its own."""
    scale: float = 1.0
    """On what is said, called and answered."""
    foreign: float = 0.6
    """How many tokens more a character of another script than Latin may be. Of short texts in Chinese, Japanese,
    Korean, Hindi, Arabic, Russian and Greek, cl100k and Claude's old tokenizer make .2 to .8 more than o200k."""

    start: int = 3
    """For any request."""
    message: int = 4
    """For each message but instructions, which cost `system`; `reply` more for one of the assistant."""
    system: int = 4
    reply: int = 0
    turn: int = 0
    """For a message with calls; `call` for each of them, `argument` for each of their arguments."""
    call: int = 8
    argument: float = 0.0
    result: int = 4
    thinking: int = 0
    """Where the model is asked to think."""
    sealed: float = 0.0
    """For each character of a sealed thought; `sealed_beyond` where that may be billed or not."""
    sealed_beyond: float = 0.0

    offer: int = 0
    """For tools at all; `forced` more where one must be called."""
    forced: int = 0
    none_hides: bool = False
    """Whether tools that must not be called are not shown."""
    tool: int = 0
    """For each tool; `tool_scale` on its JSON."""
    tool_scale: float = 1.0
    words: float = 0.0
    """On a tool's names, descriptions and values, for providers that rewrite its JSON; with them `parameters` where it
    has any, `field` for each, `nested` for each object in them and `reference` for each reference."""
    parameters: int = 0
    field: int = 0
    nested: int = 0
    reference: int = 0

    schema: int = 0
    """For an answer's schema; `schema_scale` on its JSON, `schema_beyond` where that may be billed or not."""
    schema_scale: float = 1.0
    schema_beyond: float = 0.0

    def _size(self, text: str, tokens: Tokens) -> int:
        return tokens(text) + (_split(text) if self.digits else 0)

    def _doubted(self, text: str) -> int:
        """How many tokens more a text may be in the provider's tokenizer than in Latin prose of its length."""
        foreign = 0 if text.isascii() else sum(map(len, _FOREIGN.findall(text)))
        return _monotone(text) + _unworded(text) + math.ceil(self.foreign * foreign)

    def _tool(self, tool: Tool, tokens: Tokens) -> int:
        cost = self.tool + self.tool_scale * self._size(_tool_text(tool), tokens)
        if self.words:
            outline = outlined(tool.parameters)
            said = [tool.name, as_text(tool.description or ""), *outline.words, *_beside(tool)]
            cost += self.words * sum(self._size(word, tokens) for word in said)
            cost += self.parameters * (outline.fields > 0) + self.field * outline.fields
            cost += self.reference * outline.references + self.nested * outline.nested
        return math.ceil(cost)

    def group(self, messages: Sequence[Message], tokens: Tokens) -> Iterator[Line]:
        """See Rules."""
        for index, message in enumerate(messages):
            fields = tuple(self._fields(message, tokens))
            yield Line(
                index,
                index + 1,
                sum(cost for _, cost in fields),
                kind_of(message),
                fields,
                beyond=self._beyond(message),
            )
        yield from strange_lines(messages, tokens)

    def _fields(self, message: Message, tokens: Tokens) -> Iterator[tuple[str, int]]:
        instructs = message.role in ("system", "developer")
        framing = self.system if instructs else self.message
        framing += self.reply if message.role in ("assistant", "model") else 0
        yield "framing", framing + (self.turn if message.calls else 0)
        text = message.text
        if text:
            yield "content", round(self.scale * self._size(text, tokens))
        if message.name:
            yield "name", 1 + tokens(message.name)
        for call in message.calls:
            size = self.call + self.scale * (tokens(call.name) + self._size(call.arguments, tokens))
            yield f"call {call.name}", math.ceil(size + self.argument * _arguments(call.arguments))
        for result in message.results:
            yield "result", self.result + math.ceil(self.scale * self._size(result.text, tokens))
        for block in message.blocks:
            if isinstance(block, Thought):
                yield "thought", math.ceil(self.scale * tokens(block.text) + self.sealed * block.sealed_characters)

    def _beyond(self, message: Message) -> int:
        sealed = sum(block.sealed_characters for block in message.blocks if isinstance(block, Thought))
        texts = [block.text for block in message.blocks if isinstance(block, Text | Result | Thought | Strange)]
        texts += [call.arguments for call in message.calls]
        return math.ceil(self.sealed_beyond * sealed) + sum(map(self._doubted, texts))

    def envelope(self, envelope: Envelope, host: Message | None, tokens: Tokens) -> Iterator[Part]:
        """See Rules."""
        if envelope.tools and not (self.none_hides and envelope.choice.mode == "none"):
            for index, tool in enumerate(envelope.tools):
                yield Part(
                    f"tools[{index}] {tool.name}",
                    self._tool(tool, tokens),
                    "tools",
                    beyond=self._doubted(_tool_text(tool)),
                )
            forced = self.forced if envelope.choice.mode in ("required", "named") else 0
            yield Part("tools", self.offer + forced, "tools")
        if envelope.schema is not None:
            said = as_text(envelope.schema.description or "")
            text = f"{envelope.schema.name} {said} {json.dumps(envelope.schema.schema, ensure_ascii=False)}"
            size = tokens(text)
            yield Part(
                "response_format",
                self.schema + math.ceil(self.schema_scale * size),
                "schema",
                beyond=math.ceil(self.schema_beyond * size) + self._doubted(text),
            )
        yield Part("reply", self.start + (self.thinking if envelope.thinks else 0))


def _split(text: str) -> int:
    """How many tokens more a text is where each digit is one, than where up to three digits are."""
    return sum(len(run) - -(-len(run) // 3) for run in _DIGITS.findall(text))


def _tool_text(tool: Tool) -> str:
    shown: dict[str, Any] = {"name": tool.name}
    if tool.description:
        shown["description"] = tool.description
    if tool.parameters is not None:
        shown["parameters"] = tool.parameters
    return " ".join([json.dumps(shown, ensure_ascii=False), *_beside(tool)])


def _beside(tool: Tool) -> list[str]:
    """What else was written of a tool, but for what steers how it is called."""
    return [as_text({key: value}) for key, value in tool.beside.items() if key not in _STEERING]


def _arguments(text: str) -> int:
    """How many arguments a call has; none where they are no object."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return 0
    return len(given) if isinstance(given, dict) else 0


def _unworded(text: str) -> int:
    """How many tokens more because it is long strings and runs."""
    strings = sum(len(run) for run in _NO_STRING.split(text) if len(run) >= _STRING_MIN)
    runs = sum(found.end() - found.start() for found in _RUN.finditer(text))
    return (strings + runs + 1) // 2


def _monotone(text: str) -> int:
    """How many tokens more because it says few words often.

    What two tokenizers make of a word differs at random, so that over a text they are off by the root of the summed
    squares of its words' shares: little in prose, but a text that is one word a thousand times may be off by a
    thousand.
    """
    words = text.split()
    if len(words) < _WORDS_MIN:
        return 0
    concentration = math.sqrt(sum(count * count for count in Counter(words).values())) / len(words)
    return math.ceil(len(words) * max(0.0, concentration - _VARIED))
