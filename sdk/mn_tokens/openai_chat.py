"""OpenAI Chat Completions: framing and rendering as they are billed, found by fitting recorded requests.

Each function gives ledger lines; their sum is the count. What a model family does differently is a value of `Dialect`,
never a branch on a model's name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mn_tokens import openai_tools
from mn_tokens.encodings import CL100K, O200K, tokens
from mn_tokens.unknown import as_text, calls_of, is_function, names_of
from mn_tokens.values import Part

Message = Mapping[str, Any]

_REPLY: Final = 3
_PARALLEL_CALLS: Final = 6
_FORCED_FUNCTION: Final = 7
_SCHEMA_FRAMING: Final = 4
_SCHEMA_DROPPED: Final = frozenset({"additionalProperties", "strict", "$schema"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What differs between OpenAI's chat models. Numbers are tokens.

    `message`: framing of a message, its role aside; `name`: beside a name's own tokens; `reply`: priming beyond the
    usual; `history_text`: for each assistant text of the history; `tools`: for a tool section on a message of its own,
    `tools_merged`: for one on a system message; `tool_call`: for each call; `forced`: whether a forced function costs
    its name.
    """

    encoding: str = O200K
    message: int = 3
    name: int = 1
    reply: int = 0
    history_text: int = 0
    tools: int = -1
    tools_merged: int = -1
    tool_call: int = 0
    forced: bool = True


FIRST: Final = Dialect(encoding=CL100K, message=4, name=-1)
CLASSIC: Final = Dialect(encoding=CL100K)
OMNI: Final = Dialect()
REASONING: Final = Dialect(reply=-1)
REASONING_O3: Final = Dialect(reply=-1, tools=0, tools_merged=0)
REASONING_O4: Final = Dialect(reply=-1, tools=3, tools_merged=3)
FIVE: Final = Dialect(reply=-1, history_text=2, tools=81, tools_merged=84, tool_call=6, forced=False)


def ledger(request: Mapping[str, Any], dialect: Dialect) -> Iterator[Part]:
    """What each part of a Chat Completions request costs."""
    messages: Sequence[Message] = request.get("messages") or ()
    names = names_of(messages)
    index = 0
    while index < len(messages):
        message = messages[index]
        yield Part(f"messages[{index}]", _message(message, dialect, names))
        index += 1
        if len(calls_of(message)) > 1:
            results = _results(messages, index)
            if results:
                yield Part(f"messages[{index}:{index + len(results)}]", _parallel_results(results, dialect))
            index += len(results)
    yield from _tools(request, messages, dialect)
    yield from _response_format(request, dialect)
    yield Part("reply", _REPLY + dialect.reply)


def functions_of(request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The functions that a request offers, in order, however they are written."""
    return [tool.get("function", tool) for tool in offered_of(request)]


def offered_of(request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """As `functions_of`, with what was written around each."""
    return [*filter(is_function, request.get("tools") or ()), *(request.get("functions") or ())]


def text_of(content: Any) -> str:
    """A message's text; the text parts of a list of parts, joined."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        parts = (part.get("text") or part.get("refusal") or "" for part in content if isinstance(part, Mapping))
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def _message(message: Message, dialect: Dialect, names: Mapping[str, str]) -> int:
    role = str(message.get("role", ""))
    if role in ("tool", "function"):
        return _result(message, dialect, names)
    text = text_of(message.get("content")) or text_of(message.get("refusal"))
    calls = calls_of(message)
    cost = 0
    if text or not calls:
        cost += dialect.message + tokens(dialect.encoding, role) + tokens(dialect.encoding, text)
        cost += dialect.history_text if role == "assistant" else 0
        if message.get("name"):
            cost += dialect.name + tokens(dialect.encoding, str(message["name"]))
    if len(calls) == 1:
        name, arguments = _call(calls[0])
        cost += 2 + dialect.message + tokens(dialect.encoding, "assistant") + dialect.tool_call
        cost += tokens(dialect.encoding, f" to=functions.{name}") + tokens(dialect.encoding, arguments)
    elif calls:
        cost += _parallel_calls(calls, dialect)
    return cost


def _parallel_calls(calls: Sequence[Mapping[str, Any]], dialect: Dialect) -> int:
    uses = ",".join(
        f'{{"recipient_name":"functions.{name}","parameters":{arguments}}}'
        for name, arguments in (_call(call) for call in calls)
    )
    cost = (
        dialect.message
        + tokens(dialect.encoding, "assistant")
        + tokens(dialect.encoding, " to=multi_tool_use.parallel")
    )
    return (
        cost + _PARALLEL_CALLS + tokens(dialect.encoding, f'{{"tool_uses":[{uses}]}}') + dialect.tool_call * len(calls)
    )


def _result(message: Message, dialect: Dialect, names: Mapping[str, str]) -> int:
    name = names.get(str(message.get("tool_call_id", "")), "") or str(message.get("name") or "")
    text = text_of(message.get("content"))
    return dialect.message + 1 + tokens(dialect.encoding, name) + tokens(dialect.encoding, text)


def _parallel_results(results: Sequence[Message], dialect: Dialect) -> int:
    joined = json.dumps([text_of(message.get("content")) for message in results])
    return dialect.message + 1 + tokens(dialect.encoding, joined)


def _results(messages: Sequence[Message], start: int) -> list[Message]:
    """The run of tool results that begins at `start`."""
    end = start
    while end < len(messages) and messages[end].get("role") == "tool":
        end += 1
    return list(messages[start:end])


def _call(call: Mapping[str, Any]) -> tuple[str, str]:
    """(name, arguments as compact JSON, or as they are where they are none)."""
    function: Mapping[str, Any] = call.get("function") or {}
    arguments = function.get("arguments") or ""
    try:
        compact = json.dumps(json.loads(arguments), separators=(",", ":"), ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        compact = as_text(arguments)
    return str(function.get("name", "")), compact


def _tools(request: Mapping[str, Any], messages: Sequence[Message], dialect: Dialect) -> Iterator[Part]:
    functions = functions_of(request)
    if not functions:
        return
    host = next((m for m in messages if m.get("role") in ("system", "developer")), None)
    section = openai_tools.section(functions)
    if host is None:
        whole = dialect.message + tokens(dialect.encoding, "system") + tokens(dialect.encoding, section) + dialect.tools
    else:
        text = text_of(host.get("content"))
        joined = tokens(dialect.encoding, f"{text}\n\n{section}") - tokens(dialect.encoding, text)
        whole = joined + dialect.tools_merged
    spent = 0
    for index, entry in enumerate(functions):
        cost = tokens(dialect.encoding, openai_tools.function(entry))
        spent += cost
        yield Part(f"tools[{index}] {entry.get('name', '')}", cost)
    yield Part("tools", whole - spent + _tool_choice(request, dialect))


def _tool_choice(request: Mapping[str, Any], dialect: Dialect) -> int:
    choice = request.get("tool_choice") or request.get("function_call")
    if choice == "none":
        return 1
    if isinstance(choice, Mapping) and dialect.forced:
        named = choice.get("function") or choice
        return _FORCED_FUNCTION + tokens(dialect.encoding, str(named.get("name", "")))
    return 0


def _response_format(request: Mapping[str, Any], dialect: Dialect) -> Iterator[Part]:
    wanted = request.get("response_format")
    if not isinstance(wanted, Mapping) or not isinstance(wanted.get("json_schema"), Mapping):
        return
    named: Mapping[str, Any] = wanted["json_schema"]
    description = f"// {named['description']}\n" if named.get("description") else ""
    schema = json.dumps(_shown(named.get("schema")), separators=(",", ":"), ensure_ascii=False)
    text = f"# Response Formats\n\n## {named.get('name', '')}\n\n{description}{schema}"
    yield Part("response_format", tokens(dialect.encoding, text) + (0 if functions_of(request) else _SCHEMA_FRAMING))


def _shown(schema: Any) -> Any:
    """A response schema as a model is shown it: without the keywords that are not rendered, where they say little."""
    if isinstance(schema, list):
        return [_shown(value) for value in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        name: {key: _shown(inner) for key, inner in value.items()} if _names_schemas(name, value) else _shown(value)
        for name, value in schema.items()
        if not (name in _SCHEMA_DROPPED and openai_tools.is_small(value)) and not _is_required(name, value, schema)
    }


def _is_required(keyword: str, value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether it is the list of an object's required properties, which are shown themselves."""
    return keyword == "required" and openai_tools.names_only(value, schema.get("properties"))


def _names_schemas(keyword: str, value: Any) -> bool:
    # Under these a key is a name of the user's, and may be spelled like a keyword.
    return keyword in ("properties", "$defs", "definitions") and isinstance(value, Mapping)
