"""Readers: one for each API's form of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mn_tokens.reading import anthropic, chat, converse, gemini, responses
from mn_tokens.reading.shape import Shape

__all__ = ["SHAPES", "Shape"]

SHAPES: Final[Mapping[str, Shape]] = {
    "chat": chat.SHAPE,
    "responses": responses.SHAPE,
    "anthropic": anthropic.SHAPE,
    "gemini": gemini.SHAPE,
    "converse": converse.SHAPE,
}
