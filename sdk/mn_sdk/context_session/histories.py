"""Which message histories can be sent: shapes that every provider accepts, checked before anything is built on them.

Rules (invariant 12): known roles; text content; each tool call answered by exactly one result right after it; no
result without its call; at least one user message. What breaks one is refused with InvalidInput; nothing is repaired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mn_contract.errors import InvalidInput

ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool"})
INSTRUCTING: Final = frozenset({"system", "developer"})
"""Roles whose messages carry authority; they are never altered (invariant 12)."""
MESSAGES_MAX: Final = 100_000

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
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise InvalidInput(f"{field}.role must be one of {', '.join(sorted(ROLES))}", field=field)
    if message.get("function_call"):
        raise InvalidInput(f"{field}: function_call is the old form; use tool_calls", field=field)
    if message["role"] != "assistant" and message.get("content") is None:
        raise InvalidInput(f"{field} has no content", field=field)
    if message["role"] == "assistant" and message.get("content") is None and not message.get("tool_calls"):
        raise InvalidInput(f"{field} has neither content nor tool calls", field=field)
    return dict(message)


def _check_tools(history: Sequence[Message]) -> None:
    awaited: list[str] = []
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
        awaited = _call_ids(message, field)
    if awaited:
        raise InvalidInput(f"the history ends before the results of {len(awaited)} tool calls", field="messages")


def _call_ids(message: Message, field: str) -> list[str]:
    calls = message.get("tool_calls") or []
    if calls and message["role"] != "assistant":
        raise InvalidInput(f"{field}: only an assistant calls tools", field=field)
    ids = [call.get("id") if isinstance(call, Mapping) else None for call in calls]
    if any(not isinstance(one, str) or not one for one in ids) or len(set(ids)) != len(ids):
        raise InvalidInput(f"{field}: each tool call needs an id of its own", field=field)
    return [str(one) for one in ids]
