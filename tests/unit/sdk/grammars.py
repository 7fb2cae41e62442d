"""What OpenAI and Anthropic take as messages, written down on its own: nothing here uses the code that it judges.

Each grammar answers what is wrong with a list of messages, in words; an empty list means that the provider takes it.
OpenAI: the reference of chat completions. Anthropic: the reference of messages, for a request as litellm translates it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

Message = dict[str, Any]

_PARTS = {
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    **{role: {"text"} for role in ("system", "developer", "tool")},
}
_MEMBERS = {
    **{role: {"role", "content", "name"} for role in ("system", "developer", "user")},
    "assistant": {"role", "content", "name", "refusal", "audio", "tool_calls"},
    "tool": {"role", "content", "tool_call_id", "name"},
}
"""Others are answered with 400. OpenAI's own examples give results a name."""
_ID_CHARS_MAX = 40
_TOOLS_MAX = 128
_RESULT_PARTS = {"text", "image", "document", "search_result"}
_NAME = re.compile(r"[^\s<|\\/>]{1,64}")
_FUNCTION = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TOOL = re.compile(r"[A-Za-z0-9_-]{1,128}")
"""Of an Anthropic tool: the API refuses others by this pattern, and OpenAI names of more than 64."""
_TOOL_USE = re.compile(r"[A-Za-z0-9_-]+")
_CALLS_MAX = 128


def openai(request: dict[str, Any]) -> list[str]:
    """What is wrong with the messages and tools of a chat completion."""
    return [*_openai(request["messages"]), *_openai_tools(request)]


def anthropic(body: dict[str, Any]) -> list[str]:
    """What is wrong with `system`, `messages` and tools of a request to Anthropic."""
    return [
        *_anthropic_system(body.get("system", [])),
        *_anthropic(body["messages"]),
        *_anthropic_ends(body["messages"]),
        *_anthropic_tools(body),
    ]


def _openai_tools(request: dict[str, Any]) -> Iterator[str]:
    tools = request.get("tools", [])
    names = [tool.get("function", {}).get("name") for tool in tools]
    if "tools" in request and not 1 <= len(tools) <= _TOOLS_MAX:
        yield "an empty or too long list of tools"
    if any(not isinstance(name, str) or not _FUNCTION.fullmatch(name) for name in names):
        yield f"tools: names {names}"
    choice = request.get("tool_choice", "none")
    if isinstance(choice, dict) and choice["function"]["name"] not in names:
        yield "tool_choice: no such tool"
    if "tool_choice" in request and not tools:
        yield "tool_choice without tools"


def _anthropic_tools(body: dict[str, Any]) -> Iterator[str]:
    names = [tool["name"] for tool in body.get("tools", [])]
    if any(not _TOOL.fullmatch(name) for name in names) or len(set(names)) != len(names):
        yield f"tools: names {names}"
    choice = body.get("tool_choice", {})
    if choice.get("type") == "tool" and choice["name"] not in names:
        yield "tool_choice: no such tool"
    if not names and any(block["type"] == "tool_use" for block in _blocks(body["messages"])):
        yield "a tool use and no tools"


def _anthropic_ends(messages: Sequence[Message]) -> Iterator[str]:
    if messages and messages[0]["role"] != "user":
        yield f"messages[0]: the {messages[0]['role']} begins"
    if messages and messages[-1]["role"] == "assistant":
        *_, last = [{}, *_blocks(messages[-1:])]
        if last.get("type") == "text" and last["text"] != last["text"].rstrip():
            yield "the last text ends in white space"


def _blocks(messages: Sequence[Message]) -> Iterator[Message]:
    for message in messages:
        content = message["content"]
        yield from [{"type": "text", "text": content}] if isinstance(content, str) else content


def _openai(messages: Sequence[Message]) -> Iterator[str]:
    if not messages:
        yield "no messages"
    awaited: set[str] = set()
    for index, message in enumerate(messages):
        at, role = f"messages[{index}]", message.get("role")
        if role not in _PARTS:
            yield f"{at}: role {role!r}"
            continue
        yield from (f"{at}: {member}" for member in sorted(message.keys() - _MEMBERS[role]))
        yield from (f"{at}: {wrong}" for wrong in _openai_content(message, role))
        if "name" in message and not (isinstance(message["name"], str) and _NAME.fullmatch(message["name"])):
            yield f"{at}: name"
        if role == "tool":
            if message.get("tool_call_id") not in awaited:
                yield f"{at}: a result without its call before it"
            awaited.discard(message.get("tool_call_id", ""))
            continue
        if awaited:
            yield f"{at}: stands before the results of {sorted(awaited)}"
        awaited = set()
        if "tool_calls" in message:
            yield from (f"{at}: {wrong}" for wrong in _openai_calls(message))
            awaited = {call.get("id") for call in message["tool_calls"] or () if isinstance(call, dict)}
    if awaited:
        yield f"no results of {sorted(awaited)}"


def _openai_content(message: Message, role: str) -> Iterator[str]:
    content = message.get("content")
    if content is None:
        if role != "assistant" or not message.get("tool_calls"):
            yield "no content"
    elif isinstance(content, list):
        if not content:
            yield "no parts"
        for part in content:
            if not isinstance(part, dict) or part.get("type") not in _PARTS[role]:
                yield f"a part that {role} cannot have"
            elif part["type"] == "text" and (not isinstance(part.get("text"), str) or len(part) != 2):
                yield "a text part without text, or with more"
            elif part["type"] == "image_url" and not isinstance((part.get("image_url") or {}).get("url"), str):
                yield "an image without an address"
    elif not isinstance(content, str):
        yield "content is neither text nor parts"


def _openai_calls(message: Message) -> Iterator[str]:
    calls = message["tool_calls"]
    if message["role"] != "assistant":
        yield "tool calls of somebody else"
    if not isinstance(calls, list) or not 1 <= len(calls) <= _CALLS_MAX:
        yield "an empty or too long list of tool calls"
        return
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or call.get("type") != "function":
            yield "no function call"
        elif not (isinstance(function.get("name"), str) and _FUNCTION.fullmatch(function["name"])):
            yield "name of the function"
        elif not isinstance(function.get("arguments"), str):
            yield "arguments are no text"
        elif not isinstance(call.get("id"), str) or not 1 <= len(call["id"]) <= _ID_CHARS_MAX:
            yield "id of the call"
    ids = [call.get("id") for call in calls if isinstance(call, dict)]
    if len(set(map(str, ids))) != len(calls):
        yield "two calls with one id"


def _anthropic_system(system: Any) -> Iterator[str]:
    for block in [{"type": "text", "text": system}] if isinstance(system, str) else system:
        if block.get("type") != "text" or not str(block.get("text", "")).strip():
            yield "system: an empty block"


def _anthropic(messages: Sequence[Message]) -> Iterator[str]:
    if not messages:
        yield "no messages"
    used: set[str] = set()
    awaited: list[str] = []
    for index, message in enumerate(messages):
        at, role, blocks = f"messages[{index}]", message["role"], message["content"]
        if role not in ("user", "assistant"):
            yield f"{at}: {role}"
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        if not blocks:
            yield f"{at}: empty"
        yield from (f"{at}: {wrong}" for block in blocks for wrong in _anthropic_block(block, role))
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(awaited):
            yield f"{at}: results of {results}, not of {awaited}"
        if any(block["type"] == "tool_result" for block in blocks[len(results) :]):
            yield f"{at}: a result after other content"
        awaited = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if used.intersection(awaited) or len(set(awaited)) != len(awaited):
            yield f"{at}: an id of a tool use that was used before"
        used.update(awaited)
    if awaited:
        yield f"no results of {awaited}"


def _anthropic_block(block: Message, role: str) -> Iterator[str]:
    kind = block["type"]
    if kind == "text":
        if not block["text"].strip():
            yield "an empty text"
    elif kind == "tool_use":
        if role != "assistant" or not isinstance(block["input"], dict):
            yield "a tool use"
        if not _TOOL_USE.fullmatch(block["id"]):
            yield f"id of a tool use: {block['id']!r}"
        if not _TOOL.fullmatch(block["name"]):
            yield "name of a tool"
    elif kind == "tool_result":
        if role != "user":
            yield "a result of somebody else"
        content = block.get("content", "")
        if not isinstance(content, str | list) or any(
            part.get("type") not in _RESULT_PARTS for part in content if isinstance(content, list)
        ):
            yield "content of a result"
    elif kind == "thinking":
        if role != "assistant" or not isinstance(block.get("signature"), str):
            yield "a thought"
    elif kind == "image":
        if role != "user" or "source" not in block:
            yield "an image"
    else:
        yield f"a block of {kind}"
