"""OpenAI's chat models: framing and rendering as they are billed, found by fitting recorded requests.

One set of rules for both of its APIs. What a model family or an API does differently is a value of `OpenAI`, never a
branch on a name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mn_tokens import openai_tools
from mn_tokens.encodings import CL100K, O200K
from mn_tokens.reading.json_values import as_text
from mn_tokens.request import Call, Envelope, Message, Schema, Thought
from mn_tokens.rules import Line, Tokens, kind_of, strange_lines
from mn_tokens.values import Part

_REPLY: Final = 3
_PARALLEL_CALLS: Final = 6
_WRITTEN_SHARE: Final = 0.5
_WRITTEN_TOKENS: Final = 16
"""How far arguments as they were sent may be from compact JSON by white space and escapes that are usual."""
_SCHEMA_DROPPED: Final = frozenset({"additionalProperties", "strict", "$schema"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAI:
    """Numbers are tokens."""

    encoding: str = O200K
    message: int = 3
    """Framing of a message, its role aside."""
    name: int = 1
    """Beside a name's own tokens; one less where it repeats the role."""
    reply: int = 0
    """Priming of the reply, beyond the usual."""
    history_text: int = 0
    """For each text of the assistant in the history."""

    tool_call: int = 0
    """For a call; `tool_call_kept` for one alone that came back with the identity it is kept under."""
    tool_call_kept: int = 0
    parallel: bool = True
    """Whether calls of one message are shown as one call of a function that makes them all."""
    compact: bool = True
    """Whether arguments are shown as compact JSON, not as they were sent."""

    tools_alone: int = 3
    """For a tool section in a message of its own; `tools_hosted` for one on a system message."""
    tools_hosted: int = -1
    joins: bool = True
    """Whether a section is tokenized together with its host's text."""
    whole: bool = False
    """Whether the description of a tool's parameters as a whole is shown."""
    named: int | None = 7
    """For a function that must be called, beside its name's tokens; None where it costs nothing."""
    required: int = 0
    none: int = 1
    """For the choices of these names."""

    schema_alone: int = 8
    schema_hosted: int = 4
    schema_with_tools: int = 1
    """For an answer's schema: in a message of its own, on a system message, and after tools."""

    def group(self, messages: Sequence[Message], tokens: Tokens) -> Iterator[Line]:
        """See Rules."""
        calls = [call for message in messages for call in message.calls]
        results = [result for message in messages for result in message.results]
        parallel = self.parallel and len(calls) > 1
        for index, message in enumerate(messages):
            fields = [*self._fields(message, len(calls) == 1, parallel, tokens)]
            if fields:
                spent = sum(cost for _, cost in fields)
                odd = 0 if parallel else self._oddly_written(message.calls, tokens)
                yield Line(index, index + 1, spent, kind_of(message), tuple(fields), beyond=odd, certain=not odd)
        if parallel:
            at = next(index for index, message in enumerate(messages) if message.calls)
            odd = self._oddly_written(calls, tokens)
            cost = self._parallel_calls(calls, tokens)
            yield Line(at, at + 1, cost, "call", beyond=odd, certain=not odd)
            places = [index for index, message in enumerate(messages) if message.results]
            if places:
                said = [result.text for result in results]
                cost = tokens(json.dumps(said, ensure_ascii=False))
                escaped = tokens(json.dumps(said))  # as they were shown until early in 2026
                yield Line(places[0], places[-1] + 1, self.message + 1 + cost, "call", beyond=max(escaped - cost, 0))
        yield from strange_lines(messages, tokens)

    def _fields(self, message: Message, alone: bool, parallel: bool, tokens: Tokens) -> Iterator[tuple[str, int]]:
        calls, results = message.calls, message.results
        thoughts = [block for block in message.blocks if isinstance(block, Thought)]
        text = message.text
        if text or not (calls or results or thoughts):
            yield (
                "framing",
                self.message + tokens(message.role) + (self.history_text if message.role == "assistant" else 0),
            )
            yield "content", tokens(text)
        if message.name and not results:
            yield "name", self._name(message, tokens)
        for thought in thoughts:
            yield "thought", tokens(thought.text) + thought.sealed_characters // 4
        if not parallel:
            for call in calls:
                yield f"call {call.name}", self._call(call, alone, tokens)
            for result in results:
                yield "result", self.message + 1 + tokens(result.name) + tokens(result.text)

    def _name(self, message: Message, tokens: Tokens) -> int:
        return self.name + tokens(message.name) - (1 if message.name == message.role else 0)

    def _call(self, call: Call, alone: bool, tokens: Tokens) -> int:
        framing = (
            2 + self.message + tokens("assistant") + (self.tool_call_kept if call.kept and alone else self.tool_call)
        )
        return (
            framing
            + tokens(f" to=functions.{call.name}")
            + tokens(_compact(call.arguments) if self.compact else call.arguments)
        )

    def _oddly_written(self, calls: Sequence[Call], tokens: Tokens) -> int:
        """How many tokens arguments cost more or less as they were sent than as they are shown, where that is much: no
        recording has such, so that nobody knows which of the two is billed."""
        if not self.compact:
            return 0
        apart = 0
        for call in calls:
            compact = _compact(call.arguments)
            if len(compact) != len(call.arguments):
                shown = tokens(compact)
                differs = abs(tokens(call.arguments) - shown)
                apart += differs if differs > _WRITTEN_SHARE * shown + _WRITTEN_TOKENS else 0
        return apart

    def _parallel_calls(self, calls: Sequence[Call], tokens: Tokens) -> int:
        uses = ",".join(
            f'{{"recipient_name":"functions.{call.name}","parameters":{_compact(call.arguments)}}}' for call in calls
        )
        framing = self.message + tokens("assistant") + tokens(" to=multi_tool_use.parallel")
        return framing + _PARALLEL_CALLS + tokens(f'{{"tool_uses":[{uses}]}}') + self.tool_call

    def envelope(self, envelope: Envelope, host: Message | None, tokens: Tokens) -> Iterator[Part]:
        """See Rules."""
        yield from self._tools(envelope, host, tokens)
        if envelope.schema is not None:
            yield Part(
                "response_format",
                self._schema(envelope.schema, bool(envelope.tools), host, tokens),
                "schema",
                certain=False,
            )
        yield Part("reply", _REPLY + self.reply)

    def _tools(self, envelope: Envelope, host: Message | None, tokens: Tokens) -> Iterator[Part]:
        if not envelope.tools:
            return
        section = openai_tools.section(envelope.tools, whole=self.whole)
        if host is None:
            whole = tokens(section) + self.tools_alone
        elif self.joins:
            whole = tokens(f"{host.text}\n\n{section}") - tokens(host.text) + self.tools_hosted
        else:
            whole = tokens(section) + self.tools_hosted
        spent = 0
        for index, tool in enumerate(envelope.tools):
            declared, complete = openai_tools.declaration(tool, whole=self.whole)
            cost = tokens(declared)
            spent += cost
            unshown = list(openai_tools.unshown(tool))
            left = 0 if complete else tokens(as_text(tool.parameters))
            yield Part(
                f"tools[{index}] {tool.name}",
                cost,
                "tools",
                beyond=sum(tokens(as_text({key: value})) for key, value in unshown)
                + sum(map(tokens, openai_tools.doubtful(tool)))
                + left,
                certain=complete and all(key in openai_tools.UNBILLED for key, _ in unshown),
            )
        yield Part("tools", whole - spent + self._choice(envelope, tokens), "tools")

    def _schema(self, schema: Schema, tools: bool, host: Message | None, tokens: Tokens) -> int:
        section = _format_section(schema)
        if tools:
            return tokens(section) + self.schema_with_tools
        if host is None or not self.joins:
            return tokens(section) + self.schema_alone
        return tokens(f"{host.text}\n\n{section}") - tokens(host.text) + self.schema_hosted

    def _choice(self, envelope: Envelope, tokens: Tokens) -> int:
        choice = envelope.choice
        if choice.mode == "named" and self.named is not None:
            return self.named + tokens(choice.name)
        return {"none": self.none, "required": self.required}.get(choice.mode, 0)


FIRST: Final = OpenAI(encoding=CL100K, message=4, name=-1)
CLASSIC: Final = OpenAI(encoding=CL100K)
OMNI: Final = OpenAI()
REASONING: Final = OpenAI(reply=-1)
REASONING_O3: Final = OpenAI(reply=-1, tools_alone=4, tools_hosted=0)
REASONING_O4: Final = OpenAI(reply=-1, tools_alone=7, tools_hosted=3, tool_call=3)
FIVE: Final = OpenAI(
    reply=-1, history_text=2, whole=True, tools_alone=85, tools_hosted=84, tool_call=6, named=None, schema_alone=4,
    schema_hosted=4,
)  # fmt: skip
OMNI_RESPONSES: Final = OpenAI(
    tools_alone=-3, tools_hosted=-3, joins=False, parallel=False, compact=False, tool_call=-2, tool_call_kept=1,
    required=9, none=0, schema_alone=1,
)  # fmt: skip
CLASSIC_RESPONSES: Final = replace(OMNI_RESPONSES, encoding=CL100K)
REASONING_RESPONSES: Final = replace(
    OMNI_RESPONSES, reply=-1, tools_alone=0, tools_hosted=0, tool_call=4, tool_call_kept=7, required=0, named=None,
    schema_alone=0, schema_with_tools=0,
)  # fmt: skip
FIVE_RESPONSES: Final = replace(
    REASONING_RESPONSES, history_text=2, whole=True, tools_alone=3, tools_hosted=3, tool_call=7
)


def _compact(arguments: str) -> str:
    """Arguments as compact JSON, or as they are where they are none."""
    try:
        return json.dumps(json.loads(arguments), separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments


def _format_section(schema: Schema) -> str:
    description = f"// {schema.description}\n" if schema.description else ""
    shown = json.dumps(_shown(schema.schema), separators=(",", ":"), ensure_ascii=False)
    return f"# Response Formats\n\n## {schema.name}\n\n{description}{shown}"


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
