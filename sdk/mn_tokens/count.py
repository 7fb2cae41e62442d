"""The count of a complete request: the family's ledger, its sum, and the margin that goes with it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from mn_contract.canonical import encoded
from mn_contract.errors import InvalidInput
from mn_tokens import encodings, openai_chat, openai_tools, unknown
from mn_tokens.families import Bound, Family, family_of
from mn_tokens.values import Count

_TEXT_PARTS: Final = {"text": "text", "refusal": "refusal"}
"""The parts that a chat completion takes as text, and where their text stands; a refusal is an assistant's only."""


def count(request: Mapping[str, Any], *, model: str) -> Count:
    """The tokens of a Chat Completions request in OpenAI's format, as `model`'s provider would bill them.

    `request` has `messages` and whatever else is sent: tools, tool_choice, response_format. What no rule knows is
    counted as its JSON text, and the count is then an estimate; what is known not to be read by a model costs nothing.
    Raises InvalidInput as `check_request` does.
    """
    check_request(request)
    family = family_of(model)
    encoding = family.dialect.encoding
    unknown_parts = tuple(unknown.ledger(request, encoding))
    ledger = (*openai_chat.ledger(request, family.dialect), *unknown_parts)
    total = sum(part.tokens for part in ledger)
    unshown = [pair for tool in openai_chat.offered_of(request) for pair in openai_tools.unshown(tool)]
    beyond = sum(encodings.tokens(encoding, unknown.as_text({key: value})) for key, value in unshown)
    if not encodings.available(encoding):
        # Both are in bytes: no byte-level tokenizer makes more tokens than that.
        return Count(tokens=total, margin=beyond, exact=False, tokenizer="utf-8 bytes", ledger=ledger)
    bound = _bound(request, family)
    named = encoding if family.known else f"{encoding} as an estimate for {family.name}"
    strange = unknown_parts or any(key not in openai_tools.UNBILLED for key, _ in unshown)
    exact = family.known and not _has_schema(request) and not strange
    margin = math.ceil((bound.factor - 1.0) * total + bound.factor * beyond) + bound.constant
    return Count(tokens=total, margin=margin, exact=exact, tokenizer=named, ledger=ledger)


def check_request(request: Mapping[str, Any]) -> None:
    """Raises InvalidInput where a request has no form that can be counted: no messages, parts that are no text
    (images, audio, files), tools that are none, or what is no JSON."""
    messages = request.get("messages") if isinstance(request, Mapping) else None
    if not isinstance(messages, list | tuple) or not messages:
        raise InvalidInput("a request has a list of messages", field="messages")
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise InvalidInput(f"messages[{index}] must be an object with a role", field=f"messages[{index}]")
        _check_content(message, f"messages[{index}].content")
        _check_calls(message, f"messages[{index}]")
    for key in ("tools", "functions"):
        _check_functions(request.get(key), key)
    for key, value in request.items():
        if key != "messages":
            _check_json(value, key)


def _bound(request: Mapping[str, Any], family: Family) -> Bound:
    """The widest bound of what the request holds."""
    tools = bool(request.get("tools") or request.get("functions")) or any(
        message.get("tool_calls") or message.get("role") == "tool" for message in request["messages"]
    )
    bounds = [family.plain, *([family.tools] if tools else ()), *([family.schema] if _has_schema(request) else ())]
    return Bound(max(bound.factor for bound in bounds), max(bound.constant for bound in bounds))


def _has_schema(request: Mapping[str, Any]) -> bool:
    wanted = request.get("response_format")
    return isinstance(wanted, Mapping) and wanted.get("type") == "json_schema"


def _check_content(message: Mapping[str, Any], field: str) -> None:
    content = message.get("content")
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list | tuple) or not content:
        raise InvalidInput(f"{field} must be text, a list of parts or null", field=field)
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, Mapping) else None
        known = isinstance(kind, str) and kind in _TEXT_PARTS
        if not known or (kind == "refusal" and message["role"] != "assistant"):
            raise InvalidInput(
                f"{field} holds a part of type {kind!r:.40}, whose tokens cannot be counted; only text parts can: "
                "of type 'text', or an assistant's 'refusal'",
                field=field,
            )
        if not isinstance(part.get(_TEXT_PARTS[str(kind)]), str):
            raise InvalidInput(f"{field}[{index}] is a text part without text", field=f"{field}[{index}]")


def _check_calls(message: Mapping[str, Any], field: str) -> None:
    calls = message.get("tool_calls") or ()
    if not isinstance(calls, list | tuple):
        raise InvalidInput(f"{field}.tool_calls must be a list", field=f"{field}.tool_calls")
    for index, call in enumerate(unknown.calls_of(message)):
        path = f"{field}.tool_calls[{index}]"
        if not isinstance(call, Mapping) or not isinstance(call.get("id", ""), str):
            raise InvalidInput(f"{path} must be an object whose id is text", field=path)
        if unknown.is_function(call) and not isinstance(call.get("function"), Mapping):
            raise InvalidInput(f"{path} calls no function; give it one, with name and arguments", field=path)


def _check_functions(offered: Any, field: str) -> None:
    if offered is None:
        return
    if not isinstance(offered, list | tuple):
        raise InvalidInput(f"{field} must be a list", field=field)
    for index, tool in enumerate(offered):
        if not isinstance(tool, Mapping) or not isinstance(tool.get("function", tool), Mapping):
            raise InvalidInput(
                f"{field}[{index}] must be an object that describes a function", field=f"{field}[{index}]"
            )


def _check_json(value: Any, field: str) -> None:
    try:
        encoded(value)
    except InvalidInput as error:
        raise InvalidInput(f"{field}: {error.message}", field=field) from error
