"""Anthropic's Messages API: content in blocks, instructions beside the messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mn_contract.errors import InvalidInput
from mn_tokens.reading.json_values import as_text, is_list, listed, mapping, text, word
from mn_tokens.reading.shape import UNREAD, Item, Shape, beside, thinks
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

_ENVELOPE: Final = frozenset({"messages", "system", "tools", "tool_choice", "output_config", "output_format"})
_BINARY: Final = frozenset({"image", "document", "container_upload", "file"})
"""Blocks that hold no text of their own: their tokens cannot be counted here."""
_MODES: Final[Mapping[str, Mode]] = {"auto": "auto", "none": "none", "any": "required", "tool": "named"}
_TOOL: Final = frozenset({"name", "description", "input_schema", "cache_control", "type", "strict"})


def _opens(item: Item, before: Item) -> bool:
    return True


def _names(group: Sequence[Item]) -> dict[str, str]:
    return {}


def _read(item: Item, names: Mapping[str, str]) -> Message:
    blocks = (*_blocks(item.get("content"), "content"), *beside(item, {"role", "content", "cache_control"}))
    return Message(text(item.get("role"), "role"), blocks)


def _blocks(content: Any, field: str) -> Iterator[Block]:
    if isinstance(content, str):
        yield Text(content)
        return
    if not is_list(content):
        raise InvalidInput(f"{field} must be text or a list of blocks", field=field)
    for index, given in enumerate(content):
        place = f"{field}[{index}]"
        block = mapping(given, place)
        kind = word(block, "type", place)
        if kind in _BINARY:
            raise InvalidInput(f"{place} is a block of type {kind!r}, whose tokens cannot be counted", field=field)
        if kind == "text":
            yield Text(text(block.get("text"), place))
        elif kind == "tool_use":
            yield Call(as_text(block.get("name") or ""), as_text(block.get("input") or {}))
        elif kind == "tool_result":
            yield from _result(block.get("content"), place)
        elif kind == "thinking":
            yield Thought(as_text(block.get("thinking") or ""), len(as_text(block.get("signature") or "")))
        elif kind == "redacted_thinking":
            yield Thought("", len(as_text(block.get("data") or "")))
        else:
            yield Strange(place, as_text(block))


def _result(content: Any, place: str) -> Iterator[Block]:
    blocks = list(_blocks("" if content is None else content, f"{place}.content"))
    yield Result("", "".join(block.text for block in blocks if isinstance(block, Text)))
    yield from (block for block in blocks if not isinstance(block, Text))


def _envelope(rest: Mapping[str, Any]) -> Envelope:
    strange: list[Strange] = []
    tools: list[Tool] = []
    for index, given in enumerate(listed(rest.get("tools"), "tools")):
        tool = mapping(given, f"tools[{index}]")
        if tool.get("type", "custom") == "custom":
            tools.append(
                Tool(
                    name=as_text(tool.get("name") or ""),
                    description=tool.get("description"),
                    parameters=tool.get("input_schema"),
                    beside={key: value for key, value in tool.items() if key not in _TOOL},
                )
            )
        else:
            strange.append(Strange(f"tools[{index}]", as_text(tool)))
    system = rest.get("system")
    before = () if system is None else (Message("system", tuple(_blocks(system, "system"))),)
    choice = _choice(rest.get("tool_choice"), strange)
    schema = _schema(rest, strange)
    strange += beside(rest, _ENVELOPE | UNREAD)
    return Envelope(
        instructions=before,
        tools=tuple(tools),
        choice=choice,
        schema=schema,
        strange=tuple(strange),
        thinks=thinks(rest.get("thinking")),
    )


def _choice(given: Any, strange: list[Strange]) -> Choice:
    if not given:
        return Choice()
    mode = _MODES.get(str(given.get("type"))) if isinstance(given, Mapping) else None
    if mode is None:
        strange.append(Strange("tool_choice", as_text(given)))
        return Choice()
    return Choice(mode, as_text(given.get("name") or ""))


def _schema(rest: Mapping[str, Any], strange: list[Strange]) -> Schema | None:
    config = mapping(rest.get("output_config") or {}, "output_config")
    strange += beside(config, {"format", "effort"}, "output_config")
    wanted = config.get("format") or rest.get("output_format")
    if wanted is None:
        return None
    if not isinstance(wanted, Mapping) or wanted.get("schema") is None:
        strange.append(Strange("output_format", as_text(wanted)))
        return None
    strange += beside(wanted, {"type", "name", "schema", "strict"}, "output_format")
    return Schema(name=as_text(wanted.get("name") or ""), description=None, schema=wanted["schema"])


SHAPE: Final = Shape(items="messages", opens=_opens, names=_names, read=_read, envelope=_envelope)
