"""Bedrock's Converse API: blocks that are named by their only key."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mn_contract.errors import InvalidInput
from mn_tokens.reading.json_values import as_text, is_list, listed, mapping, text
from mn_tokens.reading.shape import Item, Shape, beside, thinks
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

_ENVELOPE: Final = frozenset({"messages", "system", "toolConfig", "outputConfig"})
_UNREAD: Final = frozenset({
    "modelId", "model", "inferenceConfig", "additionalModelRequestFields", "additionalModelResponseFieldPaths",
    "performanceConfig", "requestMetadata", "schemaVersion", "guardrailConfig", "serviceTier",
})  # fmt: skip
_BINARY: Final = frozenset({"image", "document", "video", "audio"})
_MODES: Final[Mapping[str, Mode]] = {"auto": "auto", "any": "required", "tool": "named"}
_SPEC: Final = frozenset({"name", "description", "inputSchema", "strict"})


def _opens(item: Item, before: Item) -> bool:
    return True


def _names(group: Sequence[Item]) -> dict[str, str]:
    return {}


def _read(item: Item, names: Mapping[str, str]) -> Message:
    blocks = (*_blocks(item.get("content"), "content"), *beside(item, {"role", "content"}))
    return Message(text(item.get("role"), "role"), blocks)


def _blocks(content: Any, field: str) -> Iterator[Block]:
    if not is_list(content):
        raise InvalidInput(f"{field} must be a list of blocks", field=field)
    for index, given in enumerate(content):
        place = f"{field}[{index}]"
        for kind, value in mapping(given, place).items():
            if kind in _BINARY:
                raise InvalidInput(f"{place} is a block of type {kind!r}, whose tokens cannot be counted", field=field)
            yield from _block(kind, value, place, field)


def _block(kind: str, value: Any, place: str, field: str) -> Iterator[Block]:
    if kind == "text":
        yield Text(text(value, place))
    elif kind == "json":
        yield Text(as_text(value))
    elif kind == "toolUse":
        use = mapping(value, place)
        yield Call(as_text(use.get("name") or ""), as_text(use.get("input") or {}))
    elif kind == "toolResult":
        inner = list(_blocks(mapping(value, place).get("content") or [], f"{place}.content"))
        yield Result("", "".join(block.text for block in inner if isinstance(block, Text)))
        yield from (block for block in inner if not isinstance(block, Text))
    elif kind == "reasoningContent":
        said = mapping(value, place).get("reasoningText")
        shown = said if isinstance(said, Mapping) else {}
        yield Thought(as_text(shown.get("text") or ""), len(as_text(shown.get("signature") or "")))
    elif kind != "cachePoint":
        yield Strange(place, as_text({kind: value}))


def _envelope(rest: Mapping[str, Any]) -> Envelope:
    strange: list[Strange] = []
    config = rest.get("toolConfig")
    holder = mapping(config, "toolConfig") if config is not None else {}
    tools = tuple(_tools(holder, strange))
    system = rest.get("system")
    before = (Message("system", tuple(_blocks(system, "system"))),) if system else ()
    choice = _choice(holder.get("toolChoice"), strange)
    schema = _schema(rest.get("outputConfig"))
    strange += beside(rest, _ENVELOPE | _UNREAD)
    more = mapping(rest.get("additionalModelRequestFields") or {}, "additionalModelRequestFields")
    return Envelope(
        instructions=before,
        tools=tools,
        choice=choice,
        schema=schema,
        strange=tuple(strange),
        thinks=thinks(more.get("thinking")),
    )


def _tools(holder: Mapping[str, Any], strange: list[Strange]) -> Iterator[Tool]:
    for index, given in enumerate(listed(holder.get("tools"), "toolConfig.tools")):
        place = f"toolConfig.tools[{index}]"
        tool = mapping(given, place)
        spec = tool.get("toolSpec")
        if isinstance(spec, Mapping):
            schema = spec.get("inputSchema")
            yield Tool(
                name=as_text(spec.get("name") or ""),
                description=spec.get("description"),
                parameters=schema.get("json") if isinstance(schema, Mapping) else schema,
                beside={key: value for key, value in spec.items() if key not in _SPEC},
            )
        strange += beside(tool, {"toolSpec", "cachePoint"}, place)


def _choice(given: Any, strange: list[Strange]) -> Choice:
    if not given:
        return Choice()
    for kind, value in given.items() if isinstance(given, Mapping) else ():
        if kind in _MODES:
            named = value.get("name") if isinstance(value, Mapping) else None
            return Choice(_MODES[kind], as_text(named or ""))
    strange.append(Strange("toolConfig.toolChoice", as_text(given)))
    return Choice()


def _schema(config: Any) -> Schema | None:
    wanted: Any = config
    for key in ("textFormat", "structure", "jsonSchema"):
        wanted = wanted.get(key) if isinstance(wanted, Mapping) else None
    if not isinstance(wanted, Mapping):
        return None
    schema = wanted.get("schema")
    if isinstance(schema, str):
        with contextlib.suppress(ValueError, RecursionError):  # what is no JSON is counted as it stands
            schema = json.loads(schema)
    return Schema(name=as_text(wanted.get("name") or ""), description=None, schema=schema)


SHAPE: Final = Shape(items="messages", opens=_opens, names=_names, read=_read, envelope=_envelope)
