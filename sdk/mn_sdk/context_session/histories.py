"""Which message histories can be sent: shapes that every provider accepts, checked before anything is built on them.

Rules (invariant 12): known roles; text content; each tool call answered by exactly one result right after it, under an
id that no other call has; no result without its call; at least one user message; names and arguments that can be
written in every provider's format. What breaks one is refused with InvalidInput; nothing is repaired. Where limits are
a provider's own, such as how long an id may be, it is asked: what it declines is not billed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mn_contract.errors import InvalidInput
from mn_tokens.reading.json_values import plain_json

ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool"})
INSTRUCTING: Final = frozenset({"system", "developer"})
"""Roles whose messages carry authority; they are never altered (invariant 12)."""
MESSAGES_MAX: Final = 100_000
_NAME: Final = re.compile(r"[^\s<|\\/>]{1,64}")
"""OpenAI's rule for the name of who speaks."""
_FUNCTION: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
"""What at least one provider takes as the name of a function."""

Message = Mapping[str, Any]


def check_history(messages: Any) -> list[dict[str, Any]]:
    """`messages` as a list of plain objects. Raises InvalidInput naming the message that is wrong."""
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes) or not messages:
        raise InvalidInput("messages must be a list of messages", field="messages")
    if len(messages) > MESSAGES_MAX:
        raise InvalidInput(f"at most {MESSAGES_MAX} messages", field="messages")
    history = [_plain(message, index) for index, message in enumerate(messages)]
    _check_tools(history)
    if not any(message["role"] == "user" for message in history):
        raise InvalidInput("a request needs a user message", field="messages")
    return history


def _plain(message: Any, index: int) -> dict[str, Any]:
    field = f"messages[{index}]"
    if hasattr(message, "model_dump"):  # an assistant message of litellm's or openai's
        message = message.model_dump(mode="json", exclude_none=True)
    if not isinstance(message, Mapping):
        raise InvalidInput(f"{field} must be an object", field=field)
    plain: dict[str, Any] = plain_json(dict(message), field)
    role = plain.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise InvalidInput(f"{field}.role must be one of {', '.join(sorted(ROLES))}", field=field)
    if plain.get("function_call"):
        raise InvalidInput(f"{field}: function_call is the old form; use tool_calls", field=field)
    _check_content(plain, field)
    name = plain.get("name")
    if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise InvalidInput(
            f"{field}.name must be 1-64 characters without white space and <|\\/>", field=f"{field}.name"
        )
    return plain


def _check_content(message: Message, field: str) -> None:
    content = message.get("content")
    if message["role"] != "assistant" and content is None:
        raise InvalidInput(f"{field} has no content", field=field)
    if isinstance(content, list | tuple) and not content:
        raise InvalidInput(f"{field} has an empty list for its content; leave it out, or write a text", field=field)
    if content is None and not message.get("tool_calls"):
        raise InvalidInput(f"{field} has neither content nor tool calls", field=field)
    if message["role"] in INSTRUCTING and content and _is_blank(content):
        raise InvalidInput(
            f"{field} instructs with white space only, which Anthropic refuses; leave it out", field=field
        )


def _is_blank(content: Any) -> bool:
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    return all(isinstance(text, str) and not text.strip() for text in texts)


def _check_tools(history: Sequence[Message]) -> None:
    awaited: list[str] = []
    used: set[str] = set()
    for index, message in enumerate(history):
        field = f"messages[{index}]"
        if message["role"] == "tool":
            called = message.get("tool_call_id")
            if called not in awaited:
                raise InvalidInput(f"{field} is a tool result without its call right before it", field=field)
            awaited.remove(called)
            continue
        if awaited:
            raise InvalidInput(f"{field} stands before the results of {len(awaited)} tool calls", field=field)
        awaited = [_call_id(call, f"{field}.tool_calls[{place}]") for place, call in enumerate(_calls(message, field))]
        if len(set(awaited)) != len(awaited) or not used.isdisjoint(awaited):
            raise InvalidInput(f"{field}: each tool call needs an id of its own, in all of the history", field=field)
        used.update(awaited)
    if awaited:
        raise InvalidInput(f"the history ends before the results of {len(awaited)} tool calls", field="messages")


def _calls(message: Message, field: str) -> Sequence[Any]:
    calls = message.get("tool_calls")
    if calls is None:
        return ()
    if not isinstance(calls, list | tuple) or not calls:
        raise InvalidInput(
            f"{field}.tool_calls must be a list of tool calls; leave it out where there are none", field=field
        )
    if message["role"] != "assistant":
        raise InvalidInput(f"{field}: only an assistant calls tools", field=field)
    return calls


def _call_id(call: Any, field: str) -> str:
    """The id of a call that can be written in every provider's format."""
    if not isinstance(call, Mapping) or not isinstance(call.get("id"), str) or not call["id"]:
        raise InvalidInput(f"{field} needs an id", field=field)
    function = call.get("function")
    if not isinstance(function, Mapping):
        raise InvalidInput(f"{field}.function must be an object", field=field)
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or not _FUNCTION.fullmatch(name):
        raise InvalidInput(f"{field}.function.name must be 1-128 of [A-Za-z0-9_.:-]", field=field)
    if not isinstance(arguments, str) or not _is_object(arguments or "{}"):
        raise InvalidInput(f"{field}.function.arguments must be the text of a JSON object, or empty", field=field)
    return str(call["id"])


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
