"""OpenAI's Responses API. Each item of `input` is read as one message; `instructions` are one before them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mn_contract.errors import InvalidInput
from mn_tokens.reading.chat import tool_of
from mn_tokens.reading.json_values import as_text, is_list, listed, mapping, text, word
from mn_tokens.reading.shape import UNREAD, Item, Shape, beside
from mn_tokens.request import (
    Block,
    Call,
    Choice,
    Envelope,
    Message,
    Mode,
    Result,
    Schema,
    Strange,
    Text,
    Thought,
    Tool,
)

_ENVELOPE: Final = frozenset({"input", "instructions", "tools", "tool_choice", "text"})
_TEXT_PARTS: Final = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
_MESSAGE: Final = frozenset({"type", "role", "content", "id", "status", "phase"})
_CALL: Final = frozenset({"type", "arguments", "call_id", "name", "id", "status"})
_RESULT: Final = frozenset({"type", "call_id", "output", "id", "status"})
_PART: Final = frozenset({"type", "text", "refusal", "annotations", "logprobs"})
_KEPT: Final = ("previous_response_id", "conversation", "prompt")
_FORMATS: Final = frozenset({"text", "json_object", "json_schema"})
_MODES: Final[Mapping[str, Mode]] = {"auto": "auto", "none": "none", "required": "required"}
_IN_GROUP: Final = ("function_call", "function_call_output")


def _opens(item: Item, before: Item) -> bool:
    kind, last = item.get("type"), before.get("type")
    if kind == "function_call_output":
        return last not in _IN_GROUP
    return kind != "function_call" or last != "function_call"


def _names(group: Sequence[Item]) -> dict[str, str]:
    return {
        str(item.get("call_id")): as_text(item.get("name") or "")
        for item in group
        if item.get("type") == "function_call"
    }


def _read(item: Item, names: Mapping[str, str]) -> Message:
    kind = item.get("type", "message")
    if kind == "message":
        role = text(item.get("role"), "role")
        return Message(role, (*_said(item.get("content"), "content"), *beside(item, _MESSAGE)))
    if kind == "function_call":
        call = Call(
            as_text(item.get("name") or ""),
            as_text(item.get("arguments") or ""),
            kept=bool(item.get("id") and item.get("status")),
        )
        return Message("assistant", (call, *beside(item, _CALL)))
    if kind == "function_call_output":
        said = list(_said(item.get("output"), "output"))
        words = "".join(block.text for block in said if isinstance(block, Text))
        odd = [block for block in said if isinstance(block, Strange)]
        return Message("tool", (Result(names.get(str(item.get("call_id")), ""), words), *odd, *beside(item, _RESULT)))
    if kind == "reasoning":
        shown = listed(item.get("summary"), "summary")
        words = "".join(
            part["text"] for part in shown if isinstance(part, Mapping) and isinstance(part.get("text"), str)
        )
        return Message("assistant", (Thought(words, len(as_text(item.get("encrypted_content") or ""))),))
    return Message("assistant", (Strange("", as_text(item)),))


def _said(content: Any, field: str) -> Iterator[Block]:
    if content is None or isinstance(content, str):
        yield Text(content or "")
        return
    if not is_list(content):
        raise InvalidInput(f"{field} must be text or a list of parts", field=field)
    for index, part in enumerate(content):
        place = f"{field}[{index}]"
        kind = part.get("type") if isinstance(part, Mapping) else None
        if not isinstance(kind, str) or kind not in _TEXT_PARTS:
            raise InvalidInput(
                f"{place} is a part of type {kind!r:.40}, whose tokens cannot be counted; only text parts can",
                field=field,
            )
        yield Text(text(part.get(_TEXT_PARTS[kind]), place))
        yield from beside(part, _PART, place)


def _envelope(rest: Mapping[str, Any]) -> Envelope:
    for key in _KEPT:
        if rest.get(key):
            raise InvalidInput(f"{key} names what the provider keeps: its tokens cannot be counted", field=key)
    strange: list[Strange] = []
    tools: list[Tool] = []
    for index, given in enumerate(listed(rest.get("tools"), "tools")):
        tool = mapping(given, f"tools[{index}]")
        if tool.get("type", "function") == "function":
            tools.append(tool_of(tool, tool))
        else:
            strange.append(Strange(f"tools[{index}]", as_text(tool)))
    instructions = rest.get("instructions")
    before = () if instructions is None else (Message("system", tuple(_said(instructions, "instructions"))),)
    choice = _choice(rest.get("tool_choice"), strange)
    schema = _format(rest.get("text"), strange)
    strange += beside(rest, _ENVELOPE | UNREAD)
    return Envelope(instructions=before, tools=tuple(tools), choice=choice, schema=schema, strange=tuple(strange))


def _choice(given: Any, strange: list[Strange]) -> Choice:
    if not given:
        return Choice()
    if isinstance(given, str) and given in _MODES:
        return Choice(_MODES[given])
    if isinstance(given, Mapping):
        if given.get("type") == "function" and set(given) <= {"type", "name"}:
            return Choice("named", as_text(given.get("name") or ""))
        if given.get("type") == "allowed_tools" and word(given, "mode", "tool_choice") in _MODES:
            return Choice()
    strange.append(Strange("tool_choice", as_text(given)))
    return Choice()


def _format(given: Any, strange: list[Strange]) -> Schema | None:
    if given is None:
        return None
    holder = mapping(given, "text")
    strange += beside(holder, {"format", "verbosity"}, "text")
    wanted = holder.get("format")
    if not isinstance(wanted, Mapping) or word(wanted, "type", "text.format") not in _FORMATS:
        strange += [Strange("text.format", as_text(wanted))] if wanted else ()
        return None
    strange += beside(wanted, {"type", "name", "description", "schema", "strict"}, "text.format")
    if wanted["type"] != "json_schema":
        return None
    return Schema(
        name=as_text(wanted.get("name") or ""), description=wanted.get("description"), schema=wanted.get("schema")
    )


SHAPE: Final = Shape(
    items="input",
    opens=_opens,
    names=_names,
    read=_read,
    envelope=_envelope,
    said=lambda words: {"role": "user", "content": words},
)
