"""Readers: one for each API's form of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from mn_tokens.reading import anthropic, chat, converse, gemini, responses
from mn_tokens.reading.shape import Shape

__all__ = ["SHAPES", "Api", "Shape", "api_of"]

Api = Literal["chat", "responses", "anthropic", "gemini", "converse"]

SHAPES: Final[Mapping[Api, Shape]] = {
    "chat": chat.SHAPE,
    "responses": responses.SHAPE,
    "anthropic": anthropic.SHAPE,
    "gemini": gemini.SHAPE,
    "converse": converse.SHAPE,
}

_CONVERSE: Final = frozenset({"inferenceConfig", "toolConfig", "additionalModelRequestFields"})


def api_of(body: Mapping[str, Any], path: str) -> Api | None:
    """Which API the body of a request to a URL's `path` is written for; None where it is none that is read here."""
    if isinstance(body.get("contents"), list):
        return "gemini"
    if isinstance(body.get("input"), list | str) and path.endswith("/responses"):
        return "responses"
    if not isinstance(body.get("messages"), list):
        return None
    if path.endswith(("/converse", "/converse-stream")) or not _CONVERSE.isdisjoint(body):
        return "converse"
    if path.endswith("/messages") or "anthropic_version" in body or "system" in body:
        return "anthropic"
    return "chat"
