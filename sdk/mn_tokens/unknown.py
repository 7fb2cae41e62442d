"""What no rule knows of a request: counted as its JSON text, never as nothing (invariant 11).

A provider is sent whatever a request holds, so a key that is new, or the provider's own, may be billed. Only what is
known not to be read by a model costs nothing; it is listed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mn_contract.canonical import encoded
from mn_tokens.encodings import tokens
from mn_tokens.values import Part

_COUNTED: Final = frozenset({"messages", "tools", "functions", "tool_choice", "function_call", "response_format"})
"""Keys of a request that have rules of their own."""

_UNREAD: Final = frozenset({
    "model", "temperature", "top_p", "top_k", "min_p", "n", "seed", "random_seed", "stop", "user", "max_tokens",
    "max_completion_tokens", "stream", "stream_options", "logprobs", "top_logprobs", "logit_bias", "presence_penalty",
    "frequency_penalty", "repetition_penalty", "parallel_tool_calls", "reasoning_effort", "reasoning", "thinking",
    "verbosity", "modalities", "service_tier", "store", "metadata", "safety_identifier", "prompt_cache_key",
    "prompt_cache_retention", "usage", "provider", "custom_llm_provider", "drop_params",
    "additional_drop_params", "allowed_openai_params", "mock_response", "mock_tool_calls", "mock_timeout",
    "mock_delay", "input_cost_per_token", "output_cost_per_token", "cache_control_injection_points", "moderation",
    "clear_thinking", "enable_thinking", "reasoning_format", "safe_prompt", "transforms", "options", "keep_alive",
})  # fmt: skip
"""Keys of a request that steer how it is answered, or how litellm sends it, and are read by no model."""

_MESSAGE: Final = frozenset({"role", "content", "tool_calls", "function_call", "cache_control"})
_PART: Final = frozenset({"type", "text", "cache_control"})
_CALL: Final = frozenset({"type", "index", "cache_control"})
_FUNCTION: Final = frozenset({"name", "arguments"})
_FORMAT: Final = frozenset({"type", "json_schema"})
_SCHEMA: Final = frozenset({"name", "description", "schema", "strict"})
_FORMATS: Final = frozenset({"text", "json_object", "json_schema"})
_CHOICES: Final = frozenset({"auto", "none", "required", "any"})
_ID_BYTES_MAX: Final = 64
"""A longer id of a tool call carries something: litellm packs a model's thoughts into it."""


def ledger(request: Mapping[str, Any], encoding: str) -> Iterator[Part]:
    """What each thing that no rule knows costs. Raises InvalidInput where one is no JSON."""
    for path, value in _found(request):
        yield Part(path, tokens(encoding, as_text(value)))


def as_text(value: Any) -> str:
    """A value as the text that it is counted as."""
    return value if isinstance(value, str) else encoded(value).decode("utf-8")


def calls_of(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The tool calls of a message, the old form's among them."""
    calls = list(message.get("tool_calls") or ())
    return [*calls, {"function": message["function_call"]}] if message.get("function_call") else calls


def names_of(messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The function's name for each tool call of a history, by the call's id."""
    return {call["id"]: _name(call) for message in messages for call in calls_of(message) if "id" in call}


def is_function(tool: Mapping[str, Any]) -> bool:
    """Whether an offered tool, or a call of one, is a function; others have rules with their provider only."""
    return bool(tool.get("type", "function") == "function")


def _found(request: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(path, value) of everything in a request that no rule knows."""
    names = names_of(request["messages"])
    for index, message in enumerate(request["messages"]):
        yield from _of_message(message, names, f"messages[{index}]")
    for index, tool in enumerate(request.get("tools") or ()):
        if not is_function(tool):
            yield f"tools[{index}]", tool
    yield from _of_choice(request)
    yield from _of_format(request.get("response_format"))
    body = request.get("extra_body")
    yield from _beside(request, _COUNTED | _UNREAD | ({"extra_body"} if isinstance(body, Mapping) else set()), "")
    if isinstance(body, Mapping):
        yield from _beside(body, _UNREAD, "extra_body")


def _of_message(message: Mapping[str, Any], names: Mapping[str, str], path: str) -> Iterator[tuple[str, Any]]:
    role, calls, content = message["role"], calls_of(message), message.get("content")
    answers = role in ("tool", "function")
    known = set(_MESSAGE)
    if (answers and message.get("name") == names.get(str(message.get("tool_call_id", "")), message.get("name"))) or (
        not answers and (content or not calls)
    ):
        known.add("name")
    if not content and not answers and isinstance(message.get("refusal"), str):
        known.add("refusal")
    if _is_short(message.get("tool_call_id")):
        known.add("tool_call_id")
    if answers:
        known -= {"tool_calls", "function_call"}
    yield from _beside(message, known, path)
    for index, part in enumerate(content if isinstance(content, Sequence) and not isinstance(content, str) else ()):
        yield from _beside(part, _PART | ({"refusal"} if not part.get("text") else set()), f"{path}.content[{index}]")
    for index, call in enumerate(calls if not answers else ()):
        yield from _of_call(call, f"{path}.tool_calls[{index}]")


def _of_call(call: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    yield from _beside(call, _CALL | {"function"} | ({"id"} if _is_short(call.get("id")) else set()), path)
    function = call.get("function")
    if isinstance(function, Mapping):
        yield from _beside(function, _FUNCTION, f"{path}.function")


def _of_choice(request: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    offered = {str(tool.get("function", tool).get("name")) for tool in request.get("tools") or () if is_function(tool)}
    offered |= {str(function.get("name")) for function in request.get("functions") or ()}
    for key in ("tool_choice", "function_call"):
        choice = request.get(key)
        if isinstance(choice, Mapping):
            named = choice.get("function", choice)
            keys = {*choice, *named} if isinstance(named, Mapping) else {""}
            known = keys <= {"type", "function", "name"} and str(named.get("name")) in offered
        else:
            known = choice in _CHOICES
        if choice and not known:
            yield key, choice


def _of_format(wanted: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(wanted, Mapping) or wanted.get("type") not in _FORMATS:
        if wanted:
            yield "response_format", wanted
        return
    yield from _beside(wanted, _FORMAT, "response_format")
    schema = wanted.get("json_schema")
    if isinstance(schema, Mapping):
        yield from _beside(schema, _SCHEMA, "response_format.json_schema")
    elif schema:
        yield "response_format.json_schema", schema


def _beside(holder: Mapping[str, Any], known: Any, path: str) -> Iterator[tuple[str, Any]]:
    """What a holder has beside its known keys; what is empty or off says nothing to a model."""
    for key, value in holder.items():
        if key not in known and value is not None and value not in ("", [], {}, False):
            yield (f"{path}.{key}" if path else key), {key: value}


def _name(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    return str(function.get("name", "")) if isinstance(function, Mapping) else ""


def _is_short(identity: Any) -> bool:
    return identity is None or (isinstance(identity, str) and len(identity) <= _ID_BYTES_MAX)
