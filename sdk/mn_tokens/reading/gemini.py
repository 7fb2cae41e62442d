"""Gemini's generateContent, as the Gemini API and Vertex AI take it: keys in camel case or with underscores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mn_contract.errors import InvalidInput
from mn_tokens.reading.json_values import as_text, is_list, listed, mapping, text
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

_ENVELOPE: Final = frozenset({
    "contents", "system_instruction", "tools", "tool_config", "generation_config", "safety_settings", "labels",
})  # fmt: skip
_UNREAD_CONFIG: Final = frozenset({
    "temperature", "top_p", "top_k", "candidate_count", "max_output_tokens", "stop_sequences", "response_mime_type",
    "response_modalities", "thinking_config", "seed", "presence_penalty", "frequency_penalty", "response_logprobs",
    "logprobs", "media_resolution", "speech_config", "audio_timestamp", "image_config",
})  # fmt: skip
"""Keys of a generation config that steer how it is answered and are read by no model."""
_SCHEMAS: Final = frozenset({"response_schema", "response_json_schema"})
_BINARY: Final = frozenset({"inline_data", "file_data"})
_KNOWN_PART: Final = frozenset({
    "text", "function_call", "function_response", "thought", "thought_signature",
})  # fmt: skip
_DECLARATION: Final = frozenset({"name", "description", "parameters", "parameters_json_schema"})
_MODES: Final[Mapping[str, Mode]] = {"AUTO": "auto", "NONE": "none", "ANY": "required", "VALIDATED": "auto"}


def _snake(key: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)


def _plain(holder: Mapping[str, Any]) -> dict[str, Any]:
    """The object with its keys in the one spelling that is read here."""
    return {_snake(key): value for key, value in holder.items()}


def _opens(item: Item, before: Item) -> bool:
    return True


def _names(group: Sequence[Item]) -> dict[str, str]:
    return {}


def _read(item: Item, names: Mapping[str, str]) -> Message:
    blocks = (*_parts(item.get("parts"), "parts"), *beside(item, {"role", "parts"}))
    return Message(text(item.get("role") or "user", "role"), blocks)


def _parts(parts: Any, field: str) -> Iterator[Block]:
    if isinstance(parts, Mapping):
        parts = [parts]
    if isinstance(parts, str):
        yield Text(parts)
        return
    if not is_list(parts):
        raise InvalidInput(f"{field} must be a list of parts", field=field)
    for index, given in enumerate(parts):
        place = f"{field}[{index}]"
        part = {"text": given} if isinstance(given, str) else _plain(mapping(given, place))
        binary = _BINARY.intersection(part)
        if binary:
            raise InvalidInput(f"{place} is {min(binary)}, whose tokens cannot be counted", field=field)
        if part.get("text") is not None:
            yield Text(text(part["text"], place))
        called, answered = part.get("function_call"), part.get("function_response")
        if called is not None:
            call = mapping(called, place)
            yield Call(as_text(call.get("name") or ""), as_text(call.get("args") or {}))
        if answered is not None:
            result = mapping(answered, place)
            yield Result(as_text(result.get("name") or ""), as_text(result.get("response") or {}))
        if part.get("thought_signature"):
            yield Thought("", len(as_text(part["thought_signature"])))
        yield from beside(part, _KNOWN_PART, place)


def _envelope(rest: Mapping[str, Any]) -> Envelope:
    strange: list[Strange] = []
    plain = _plain(rest)
    tools = tuple(_tools(plain.get("tools"), strange))
    instruction = plain.get("system_instruction")
    before: tuple[Message, ...] = ()
    if instruction is not None:
        parts = instruction.get("parts") if isinstance(instruction, Mapping) else instruction
        before = (Message("system", tuple(_parts(parts, "systemInstruction.parts"))),)
    choice = _choice(plain.get("tool_config"), strange)
    if plain.get("cached_content"):
        raise InvalidInput("cachedContent is kept by the provider: its tokens cannot be counted", field="cachedContent")
    config = _plain(mapping(plain.get("generation_config") or {}, "generationConfig"))
    strange += beside(config, _UNREAD_CONFIG | _SCHEMAS, "generationConfig")
    schema = _schema(config)
    strange += beside(plain, _ENVELOPE | UNREAD)
    return Envelope(instructions=before, tools=tools, choice=choice, schema=schema, strange=tuple(strange))


def _tools(given: Any, strange: list[Strange]) -> Iterator[Tool]:
    for index, one in enumerate([given] if isinstance(given, Mapping) else listed(given, "tools")):
        holder = _plain(mapping(one, f"tools[{index}]"))
        declared = listed(holder.get("function_declarations"), f"tools[{index}].functionDeclarations")
        for place, each in enumerate(declared):
            entry = _plain(mapping(each, f"tools[{index}].functionDeclarations[{place}]"))
            yield Tool(
                name=as_text(entry.get("name") or ""),
                description=entry.get("description"),
                parameters=entry.get("parameters") or entry.get("parameters_json_schema"),
                beside={key: value for key, value in entry.items() if key not in _DECLARATION},
            )
        strange += beside(holder, {"function_declarations"}, f"tools[{index}]")


def _choice(given: Any, strange: list[Strange]) -> Choice:
    if not given:
        return Choice()
    config = _plain(given).get("function_calling_config") if isinstance(given, Mapping) else None
    mode = _MODES.get(str(config.get("mode", "AUTO"))) if isinstance(config, Mapping) else None
    if mode is None:
        strange.append(Strange("toolConfig", as_text(given)))
        return Choice()
    strange += beside(_plain(given), {"function_calling_config"}, "toolConfig")
    return Choice(mode)


def _schema(config: Mapping[str, Any]) -> Schema | None:
    schema = config.get("response_schema") or config.get("response_json_schema")
    return Schema(name="", description=None, schema=schema) if schema else None


SHAPE: Final = Shape(
    items="contents",
    opens=_opens,
    names=_names,
    read=_read,
    envelope=_envelope,
    said=lambda words: {"role": "user", "parts": [{"text": words}]},
)
