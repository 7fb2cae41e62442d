"""A request as rules see it: one form, whatever API it was written for.

Readers (`mn_tokens.reading`) make it, rules count it; neither knows the other. Nothing of a request is lost on the way:
what no reader knows becomes a `Strange` with its path, and is counted as its text (invariant 11).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Mode = Literal["auto", "none", "required", "named"]


@dataclass(frozen=True, slots=True)
class Text:
    """What is said. Texts of one message are read in a row, as one."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A tool's call; `arguments` is the JSON text that was sent, or an object's compact JSON. `kept` says whether it
    came back with the identity under which the provider keeps it."""

    name: str
    arguments: str
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What a call came to; `name` is the called function's where it is known."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """A model's earlier thinking, sent back: its text, and how many characters of sealed thinking come with it."""

    text: str
    sealed_characters: int


@dataclass(frozen=True, slots=True)
class Strange:
    """What no reader knows: where it stands, and the text that it is counted as."""

    path: str
    text: str


Block = Text | Call | Result | Thought | Strange


@dataclass(frozen=True, slots=True)
class Message:
    """One message: who speaks, and what, in order."""

    role: str
    blocks: tuple[Block, ...]
    name: str = ""

    @property
    def text(self) -> str:
        """All that it says, in a row."""
        return "".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def calls(self) -> tuple[Call, ...]:
        """The tools that it calls."""
        return tuple(block for block in self.blocks if isinstance(block, Call))

    @property
    def results(self) -> tuple[Result, ...]:
        """The results that it brings."""
        return tuple(block for block in self.blocks if isinstance(block, Result))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function on offer. `beside` is what else was written of it."""

    name: str
    description: Any
    parameters: Any
    beside: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which tool must be called; `name` where the mode is `named`."""

    mode: Mode = "auto"
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The form that an answer must have."""

    name: str
    description: Any
    schema: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What a request holds beside its messages. `instructions` stand before all of them; `thinks` says whether the
    model is asked to think before it answers."""

    instructions: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    choice: Choice = Choice()
    schema: Schema | None = None
    strange: tuple[Strange, ...] = ()
    thinks: bool = False
