"""A request of any API as a chat completion, the only form that peers count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mn_tokens import Api
from mn_tokens.reading import SHAPES
from mn_tokens.reading.walk import groups_of, items_of, read_group
from mn_tokens.request import Choice, Message, Tool


def as_chat(request: Mapping[str, Any], *, api: Api) -> dict[str, Any]:
    """`messages` and, where there are some, `tools` and `tool_choice`. Raises InvalidInput for what cannot be read."""
    if api == "chat":
        return {key: request[key] for key in ("messages", "tools", "tool_choice") if request.get(key)}
    shape = SHAPES[api]
    envelope = shape.envelope({key: value for key, value in request.items() if key != shape.items})
    messages = [entry for message in envelope.instructions for entry in _entries(message)]
    for start, group in groups_of(items_of(request, shape), shape):
        for message in read_group(group, start, shape):
            messages += _entries(message)
    tools = [{"type": "function", "function": _function(tool)} for tool in envelope.tools]
    return {"messages": messages, **({"tools": tools, "tool_choice": _choice(envelope.choice)} if tools else {})}


def _choice(choice: Choice) -> Any:
    return {"type": "function", "function": {"name": choice.name}} if choice.mode == "named" else choice.mode


def _entries(message: Message) -> Iterator[dict[str, Any]]:
    role = "assistant" if message.role == "model" else message.role
    for result in message.results:
        yield {"role": "tool", "tool_call_id": "0", "content": result.text}
    if message.text or message.calls:
        calls = [
            {"id": "0", "type": "function", "function": _called(call.name, call.arguments)} for call in message.calls
        ]
        yield {"role": role, "content": message.text, **({"tool_calls": calls} if calls else {})}


def _called(name: str, arguments: str) -> dict[str, str]:
    return {"name": name, "arguments": arguments}


def _function(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters or {}}
