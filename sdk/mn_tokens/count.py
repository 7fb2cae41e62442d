"""The count of a complete request: the family's ledger, its sum, and the margin that goes with it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mn_contract.errors import InvalidInput
from mn_tokens import encodings, openai_chat
from mn_tokens.families import Bound, Family, family_of
from mn_tokens.values import Count, Part


def count(request: Mapping[str, Any], *, model: str) -> Count:
    """The tokens of a Chat Completions request in OpenAI's format, as `model`'s provider would bill them.

    `request` has `messages` and whatever else is sent: tools, tool_choice, response_format. Keys that are not billed
    are ignored. Raises InvalidInput where the request has no such form, or holds what cannot be counted (images,
    audio, files).
    """
    _check(request)
    family = family_of(model)
    ledger = tuple(openai_chat.ledger(request, family.dialect))
    total = sum(part.tokens for part in ledger)
    encoding = family.dialect.encoding
    if not encodings.available(encoding):
        # `total` is in bytes: no byte-level tokenizer makes more tokens than that.
        return _count(ledger, total, family, Bound(1.0, 0), exact=False, tokenizer="utf-8 bytes")
    bound = _bound(request, family)
    named = encoding if family.known else f"{encoding} as an estimate for {family.name}"
    exact = family.known and not _has_schema(request)
    return _count(ledger, total, family, bound, exact=exact, tokenizer=named)


def _count(ledger: tuple[Part, ...], total: int, family: Family, bound: Bound, *, exact: bool, tokenizer: str) -> Count:
    margin = math.ceil((bound.factor - 1.0) * total) + bound.constant
    return Count(tokens=total, margin=margin, exact=exact, tokenizer=tokenizer, ledger=ledger)


def _bound(request: Mapping[str, Any], family: Family) -> Bound:
    """The widest bound of what the request holds."""
    tools = bool(openai_chat.functions_of(request)) or any(
        message.get("tool_calls") or message.get("role") == "tool" for message in request["messages"]
    )
    bounds = [family.plain, *([family.tools] if tools else ()), *([family.schema] if _has_schema(request) else ())]
    return Bound(max(bound.factor for bound in bounds), max(bound.constant for bound in bounds))


def _has_schema(request: Mapping[str, Any]) -> bool:
    wanted = request.get("response_format")
    return isinstance(wanted, Mapping) and wanted.get("type") == "json_schema"


_TEXT_PARTS = frozenset({"text", "refusal", "input_text", "output_text"})


def _check(request: Mapping[str, Any]) -> None:
    messages = request.get("messages") if isinstance(request, Mapping) else None
    if not isinstance(messages, list | tuple) or not messages:
        raise InvalidInput("a request has a list of messages", field="messages")
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise InvalidInput(f"messages[{index}] must be an object with a role", field=f"messages[{index}]")
        _check_content(message.get("content"), f"messages[{index}].content")


def _check_content(content: Any, field: str) -> None:
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list | tuple):
        raise InvalidInput(f"{field} must be text, a list of parts or null", field=field)
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind not in _TEXT_PARTS:
            raise InvalidInput(
                f"{field} holds a part of type {kind!r}, whose tokens cannot be counted; only text parts can",
                field=field,
            )
