"""How one family bills requests: the port that families implement.

Rules are pure. They take texts' sizes from `tokens`, the family's tokenizer, and answer ledger lines whose paths are
relative: a group's to its first item, an envelope's to the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from mn_tokens.request import Envelope, Message, Strange
from mn_tokens.values import Kind, Part

Tokens = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Line:
    """What items `start` to `end` of a group cost; `path` goes on from there."""

    start: int
    end: int
    tokens: int
    kind: Kind = "text"
    fields: tuple[tuple[str, int], ...] = ()
    path: str = ""
    beyond: int = 0
    certain: bool = True


class Rules(Protocol):
    """One family's. An implementation is a frozen value: equal rules bill equally."""

    @property
    def encoding(self) -> str:
        """The tokenizer that `tokens` is of."""

    def group(self, messages: Sequence[Message], tokens: Tokens) -> Iterator[Line]:
        """A message with the results that answer it; a message of `instructions` likewise."""

    def envelope(self, envelope: Envelope, host: Message | None, tokens: Tokens) -> Iterator[Part]:
        """Everything else: tools, choice, schema, framing. `host` is the first system message of all."""


def kind_of(message: Message) -> Kind:
    """What a message's own tokens are spent on."""
    return "call" if message.calls or message.results else "text"


def strange_lines(messages: Sequence[Message], tokens: Tokens) -> Iterator[Line]:
    """What no reader knew in a group, as its text."""
    for index, message in enumerate(messages):
        for block in message.blocks:
            if isinstance(block, Strange):
                yield Line(index, index + 1, tokens(block.text), "strange", path=block.path, certain=False)
