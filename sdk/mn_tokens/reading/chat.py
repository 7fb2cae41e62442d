"""Chat Completions, as OpenAI writes them and most others after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mn_contract.errors import InvalidInput
from mn_tokens.reading.json_values import as_text, is_list, listed, mapping, text, word
from mn_tokens.reading.shape import UNREAD, Item, Shape, beside, thinks
from mn_tokens.request import Block, Call, Choice, Envelope, Message, Mode, Result, Schema, Strange, Text, Tool

_ENVELOPE: Final = frozenset({"messages", "tools", "functions", "tool_choice", "function_call", "response_format"})
_MESSAGE: Final = frozenset({"role", "content", "tool_calls", "function_call", "name", "cache_control", "prefix"})
_PART: Final = frozenset({"type", "text", "cache_control"})
_CALL: Final = frozenset({"type", "index", "cache_control", "function"})
_FUNCTION: Final = frozenset({"name", "arguments"})
_FUNCTIONS: Final = frozenset({"function", "name"})
"""What a function on offer has, where no type is written."""
_FORMATS: Final = frozenset({"text", "json_object", "json_schema"})
_MODES: Final[Mapping[str, Mode]] = {"auto": "auto", "none": "none", "required": "required", "any": "required"}
_PARTS: Final = {"text": "text", "refusal": "refusal"}
"""Parts that are text, and where their text stands; a refusal is an assistant's only."""
_ANSWERS: Final = ("tool", "function")
_ID_CHARACTERS_MAX: Final = 64
"""A longer id of a tool call carries something: litellm packs a model's thoughts into it."""


def _opens(item: Item, before: Item) -> bool:
    return item.get("role") not in _ANSWERS


def _names(group: Sequence[Item]) -> dict[str, str]:
    return {
        identity: name
        for item in group
        for call in _calls(item)
        if isinstance(call, Mapping) and isinstance(identity := call.get("id"), str)
        for name in [_name(call)]
    }


def _read(item: Item, names: Mapping[str, str]) -> Message:
    role = text(item.get("role"), "role")
    if role in _ANSWERS:
        return _result(item, role, names)
    calls = _calls(item)
    said = list(_said(item, role, bool(calls)))
    known = _MESSAGE | ({"refusal"} if not item.get("content") and isinstance(item.get("refusal"), str) else set())
    blocks: list[Block] = [*said, *beside(item, known)]
    for index, call in enumerate(calls):
        blocks += _call(call, f"tool_calls[{index}]")
    return Message(role, tuple(blocks), text(item.get("name") or "", "name"))


def _result(item: Item, role: str, names: Mapping[str, str]) -> Message:
    identity, own = item.get("tool_call_id"), item.get("name")
    called = names.get(identity, "") if isinstance(identity, str) else ""
    known = {"role", "content", "cache_control", *({"tool_call_id"} if _is_short(identity) else ())}
    if own is None or not called or own == called:
        known.add("name")
    said = list(_said(item, role, False))
    words = "".join(block.text for block in said if isinstance(block, Text))
    odd = [block for block in said if isinstance(block, Strange)]
    return Message(role, (Result(called or as_text(own or ""), words), *odd, *beside(item, known)))


def _said(item: Item, role: str, calls: bool) -> Iterator[Text | Strange]:
    content = item.get("content")
    if content is None:
        refusal = item.get("refusal")
        if isinstance(refusal, str):
            yield Text(refusal)
        return
    if isinstance(content, str):
        refusal = item.get("refusal")
        yield Text(content or (refusal if isinstance(refusal, str) else ""))
        return
    if not is_list(content) or not (content or calls):
        raise InvalidInput("content must be text, a list of parts or null", field="content")
    for index, part in enumerate(content):
        field = f"content[{index}]"
        kind = part.get("type") if isinstance(part, Mapping) else None
        if not isinstance(kind, str) or kind not in _PARTS or (kind == "refusal" and role != "assistant"):
            raise InvalidInput(
                f"{field} is a part of type {kind!r:.40}, whose tokens cannot be counted; only text parts can: of type "
                "'text', or an assistant's 'refusal'",
                field="content",
            )
        yield Text(text(part.get(_PARTS[kind]), field))
        yield from beside(part, _PART | {_PARTS[kind]}, field)


def _calls(item: Item) -> Sequence[Any]:
    if item.get("role") in _ANSWERS:
        return ()
    calls = listed(item.get("tool_calls"), "tool_calls")
    return [*calls, {"function": item["function_call"]}] if item.get("function_call") else calls


def _call(call: Any, path: str) -> Iterator[Block]:
    call = mapping(call, path)
    identity = call.get("id")
    if identity is not None:
        text(identity, f"{path}.id")
    if call.get("type", "function") != "function":
        yield Strange(path, as_text(call))
        return
    function = mapping(call.get("function"), path, "a call of a function, with name and arguments")
    yield Call(_name(call), as_text(function.get("arguments") or ""))
    yield from beside(call, _CALL | ({"id"} if _is_short(identity) else set()), path)
    yield from beside(function, _FUNCTION, f"{path}.function")


def _envelope(rest: Mapping[str, Any]) -> Envelope:
    strange: list[Strange] = []
    tools: list[Tool] = []
    for key in ("tools", "functions"):
        for index, given in enumerate(listed(rest.get(key), key)):
            field = f"{key}[{index}]"
            tool = mapping(given, field, "an object that describes a function")
            if is_function(tool):
                tools.append(tool_of(mapping(tool.get("function", tool), field), tool))
            else:
                strange.append(Strange(field, as_text(tool)))
    choice = _choice(rest, tools, strange)
    schema = format_of(rest.get("response_format"), "response_format", strange)
    body = rest.get("extra_body")
    inner = isinstance(body, Mapping)
    strange += beside(rest, _ENVELOPE | UNREAD | ({"extra_body"} if inner else set()))
    strange += beside(body, UNREAD, "extra_body") if isinstance(body, Mapping) else ()
    return Envelope(tools=tuple(tools), choice=choice, schema=schema, strange=tuple(strange), thinks=_thinks(rest))


def _thinks(rest: Mapping[str, Any]) -> bool:
    """Whether the model is asked to think, in OpenAI's, OpenRouter's or Anthropic's words."""
    reasoning, effort = rest.get("reasoning"), rest.get("reasoning_effort")
    asked = isinstance(reasoning, Mapping) and reasoning.get("enabled") is not False
    return thinks(rest.get("thinking")) or asked or effort not in (None, "none")


def tool_of(function: Mapping[str, Any], tool: Mapping[str, Any]) -> Tool:
    """A function on offer, `tool` being what is written around it, or the same."""
    around = {} if function is tool else {key: value for key, value in tool.items() if key != "function"}
    return Tool(
        name=as_text(function.get("name") or ""),
        description=function.get("description"),
        parameters=function.get("parameters"),
        beside={
            **{key: value for key, value in around.items() if key != "cache_control"},
            **{
                key: value
                for key, value in function.items()
                if key not in ("name", "description", "parameters", "cache_control")
            },
        },
    )


def _choice(rest: Mapping[str, Any], tools: Sequence[Tool], strange: list[Strange]) -> Choice:
    found = Choice()
    for key in ("tool_choice", "function_call"):
        given = rest.get(key)
        if not given:
            continue
        named = given.get("function", given) if isinstance(given, Mapping) else {}
        if isinstance(given, str) and given in _MODES:
            found = Choice(_MODES[given])
        elif (
            isinstance(given, Mapping)
            and isinstance(named, Mapping)
            and {*given, *named} <= {"type", "function", "name"}
            and named.get("name") in [tool.name for tool in tools]
        ):
            found = Choice("named", str(named["name"]))
        else:
            strange.append(Strange(key, as_text(given)))
    return found


def format_of(wanted: Any, path: str, strange: list[Strange]) -> Schema | None:
    """The form that is asked for, what is not known of it added to `strange`."""
    if not isinstance(wanted, Mapping) or word(wanted, "type", path) not in _FORMATS:
        strange += [Strange(path, as_text(wanted))] if wanted else ()
        return None
    strange += beside(wanted, {"type", "json_schema"}, path)
    named = wanted.get("json_schema")
    if not isinstance(named, Mapping):
        strange += [Strange(f"{path}.json_schema", as_text(named))] if named else ()
        return None
    strange += beside(named, {"name", "description", "schema", "strict"}, f"{path}.json_schema")
    return Schema(
        name=as_text(named.get("name") or ""), description=named.get("description"), schema=named.get("schema")
    )


def is_function(tool: Mapping[str, Any]) -> bool:
    """Whether an offered tool is a function; others, such as a web search, have rules with their provider only."""
    return bool(tool.get("type", "function" if tool.keys() & _FUNCTIONS else None) == "function")


def _name(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    return as_text(function.get("name") or "") if isinstance(function, Mapping) else ""


def _is_short(identity: Any) -> bool:
    return identity is None or (isinstance(identity, str) and len(identity) <= _ID_CHARACTERS_MAX)


SHAPE: Final = Shape(items="messages", opens=_opens, names=_names, read=_read, envelope=_envelope)
