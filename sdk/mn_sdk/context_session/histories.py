"""Which message histories can be sent: shapes that every provider accepts, checked before anything is built on them.

Rules (invariant 12): known roles; text content; each tool call answered by exactly one result right after it, under an
id that no other call has; no result without its call; at least one user message; names and arguments that can be
written in every provider's format. What can be read in one way only is written out: a member that is null is left out,
a call that has a function is of type `function`, and an assistant that refused has said so: its refusal is its text.
What breaks a rule is refused with InvalidInput. What one provider asks beyond that is `check_for`'s, for the model that
is called.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

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
_REWRITTEN: Final = re.compile(r"[^A-Za-z0-9_-]")
"""What litellm writes as `_` in the id of a call, where a provider takes no other signs."""

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
    plain = {key: value for key, value in plain.items() if value is not None or key == "content"}
    if role == "assistant" and plain.get("content") is None and isinstance(plain.get("refusal"), str):
        plain["content"] = plain.pop("refusal")
    if plain.get("tool_calls"):
        plain["tool_calls"] = _typed(plain["tool_calls"])
    _check_content(plain, field)
    name = plain.get("name")
    if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise InvalidInput(
            f"{field}.name must be 1-64 characters without white space and <|\\/>", field=f"{field}.name"
        )
    return plain


def _typed(calls: Any) -> Any:
    """Tool calls, each with the type that its function says."""
    if not isinstance(calls, list | tuple):
        return calls
    return [
        {**call, "type": "function"}
        if isinstance(call, Mapping) and call.get("function") and call.get("type") is None
        else call
        for call in calls
    ]


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
        written = [_REWRITTEN.sub("_", one) for one in awaited]
        if len(set(written)) != len(written) or not used.isdisjoint(written):
            raise InvalidInput(
                f"{field}: each tool call needs an id of its own, in all of the history; ids that differ only in signs "
                "other than letters, digits, _ and - are one to some providers",
                field=field,
            )
        used.update(written)
    if awaited:
        raise InvalidInput(f"the history ends before the results of {len(awaited)} tool calls", field="messages")


def _calls(message: Message, field: str) -> Sequence[Any]:
    if "tool_calls" not in message:
        return ()
    calls = message["tool_calls"]
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
    if call.get("type", "function") != "function":
        raise InvalidInput(
            f"{field} is of type {call['type']!r}, and only calls of functions can be told to every provider",
            field=field,
        )
    function = call.get("function")
    if not isinstance(function, Mapping):
        raise InvalidInput(f"{field}.function must be an object", field=field)
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or not _FUNCTION.fullmatch(name):
        raise InvalidInput(f"{field}.function.name must be 1-128 of [A-Za-z0-9_.:-]", field=field)
    if not isinstance(arguments, str) or not _is_object(arguments or "{}"):
        raise InvalidInput(
            f"{field}.function.arguments must be the text of a JSON object, or empty; of a call that was cut, leave it "
            "empty and say so in its result",
            field=field,
        )
    return str(call["id"])


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text, parse_constant=_no_json), dict)
    except (ValueError, RecursionError):
        return False


def _no_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asks:
    """What a provider asks beyond the rules for all. `id_chars` and `calls` are the most that it takes."""

    provider: str
    models: re.Pattern[str]
    function: re.Pattern[str]
    id_chars: int | None = None
    calls: int | None = None
    tools: int | None = None
    members: Mapping[str, frozenset[str]] | None = None
    begins_with_user: bool = False


_SHARED: Final = frozenset({"role", "content", "name", "cache_control", "provider_specific_fields"})
_OPENAIS: Final = {
    **dict.fromkeys(("system", "developer", "user"), _SHARED),
    "tool": _SHARED | {"tool_call_id"},
    "assistant": _SHARED
    | {"tool_calls", "refusal", "audio", "annotations", "reasoning_content", "thinking_blocks", "images"},
}
"""OpenAI's members of a message, and what litellm keeps beside them in answers and leaves out itself."""
_ASKS: Final = (
    _Asks(
        provider="Bedrock",
        models=re.compile(r"bedrock/.*claude.*", re.I),
        function=re.compile(r"[A-Za-z0-9_-]{1,64}"),
        begins_with_user=True,
    ),
    _Asks(
        provider="Anthropic",
        models=re.compile(r".*claude.*", re.I),
        function=re.compile(r"[A-Za-z0-9_-]{1,128}"),
        begins_with_user=True,
    ),
    _Asks(
        provider="OpenAI",
        models=re.compile(r"((openai|azure)/)?(responses/)?(gpt|chatgpt|o[0-9])[^/]*", re.I),
        function=re.compile(r"[A-Za-z0-9_-]{1,64}"),
        id_chars=40,
        calls=128,
        tools=128,
        members=_OPENAIS,
    ),
)
"""As their references say it. A provider that is not here is asked itself: what it declines is not billed."""


def check_for(model: str, request: Mapping[str, Any]) -> None:
    """Raises InvalidInput where the model's provider would decline a request whose history `check_history` has passed,
    or take a part of it for another. `request` has its messages and tools."""
    asks = next((one for one in _ASKS if one.models.fullmatch(model)), None)
    if asks is None:
        return
    messages = request["messages"]
    for index, message in enumerate(messages):
        _check_message(asks, message, f"messages[{index}]")
    first = next(message["role"] for message in messages if message["role"] not in INSTRUCTING)
    if asks.begins_with_user and first != "user":
        raise InvalidInput(f"{asks.provider} takes no history that begins with the {first}", field="messages")
    tools = request.get("tools") or ()
    if asks.tools is not None and len(tools) > asks.tools:
        raise InvalidInput(f"{asks.provider} takes at most {asks.tools} tools", field="tools")
    for index, tool in enumerate(tools):
        function = tool.get("function")
        if isinstance(function, Mapping):
            _check_function(asks, function.get("name"), f"tools[{index}].function.name")


def _check_message(asks: _Asks, message: Message, field: str) -> None:
    others = set() if asks.members is None else message.keys() - asks.members[message["role"]]
    if others:
        raise InvalidInput(
            f"{field} has {', '.join(sorted(map(str, others)))[:200]}, which {asks.provider} does not take there",
            field=field,
        )
    calls = message.get("tool_calls", ())
    if asks.calls is not None and len(calls) > asks.calls:
        raise InvalidInput(f"{field} has {len(calls)} tool calls; {asks.provider} takes {asks.calls}", field=field)
    for place, call in enumerate(calls):
        _check_function(asks, call["function"]["name"], f"{field}.tool_calls[{place}].function.name")
        if asks.id_chars is not None and len(call["id"]) > asks.id_chars:
            raise InvalidInput(
                f"{field}.tool_calls[{place}].id is longer than {asks.id_chars} characters, the most that "
                f"{asks.provider} takes",
                field=f"{field}.tool_calls[{place}]",
            )


def _check_function(asks: _Asks, name: Any, field: str) -> None:
    if not isinstance(name, str) or not asks.function.fullmatch(name):
        raise InvalidInput(f"{field} is not what {asks.provider} takes: {asks.function.pattern}", field=field)
