"""Tools: what models and programs ask of memories, once for every face that speaks JSON.

A tool is an operation of the operation table with arguments as JSON: its schema is what is published and what is
checked. gRPC messages have the same fields under the same names and are read by the same decoders.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from jsonschema import Draft202012Validator

from mn_contract.canonical import encoded
from mn_contract.errors import InvalidInput
from mn_contract.limits import ID_BYTES_MAX
from mn_engine.domain.scope import Scope
from mn_engine.domain.times import parse_rfc3339

Arguments = dict[str, Any]
REF_BYTES_MAX: Final = 2 * ID_BYTES_MAX + 1
"""`principal:id`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool: the operation that it calls, and how its arguments become that operation's and the result JSON (or, of
    a pack in Markdown, text). `answers` is that JSON's schema; text stands in it under `markdown`. `writes` tells of
    tools that record something, or may, `repeatable` of those that change nothing more when they are called again;
    none destroys anything. `named` says which argument is meant by a name of the operation's, where it is another than
    its last part."""

    name: str
    operation: str
    title: str
    description: str
    properties: Mapping[str, Any]
    required: tuple[str, ...] = ()
    decode: Callable[[Arguments], Arguments]
    encode: Callable[[Any, Scope], Any]
    answers: Mapping[str, Any]
    named: Mapping[str, str] = field(default_factory=dict)
    writes: bool = False
    repeatable: bool = True
    _checked: list[Draft202012Validator] = field(default_factory=list)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments (Draft 2020-12)."""
        return {
            "type": "object",
            "properties": dict(self.properties),
            "required": list(self.required),
            "additionalProperties": False,
        }

    def read(self, arguments: Any) -> Arguments:
        """The operation's arguments. Raises InvalidInput naming what is wrong."""
        encoded(arguments, self.name)  # what JSON's readers let through and JSON does not know
        if not self._checked:
            self._checked.append(Draft202012Validator(self.schema))
        wrong = next(iter(self._checked[0].iter_errors(arguments)), None)
        if wrong is not None:
            at = ".".join(map(str, wrong.absolute_path)) or "arguments"
            raise InvalidInput(f"{self.name}: {at}: {_told(wrong)}", field=at)
        with self.naming():
            return self.decode({name: _whole(value, self.properties[name]) for name, value in arguments.items()})

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Errors of the operation name what is wrong as the tool's callers do: `task` for `decision.focus`."""
        try:
            yield
        except InvalidInput as error:
            told = self.named.get(error.field, error.field.rpartition(".")[2])
            if told == error.field or told not in self.properties:
                raise
            further = {name: value for name, value in error.detail.items() if name != "field"}
            raise InvalidInput(error.message.replace(error.field, told), field=told, **further) from error


def _whole(value: Any, schema: Mapping[str, Any]) -> Any:
    """A value whose schema wants a whole number, as one: JSON Schema takes 5.0 for one."""
    if schema.get("type") == "array":
        return [_whole(item, schema["items"]) for item in value]
    return int(value) if schema.get("type") == "integer" and isinstance(value, float) else value


def _told(wrong: Any) -> str:
    """What is wrong, without the value itself where that may be long."""
    message = str(wrong.message)
    return message if len(message) <= 200 else f"{message[:80]} ... is not what {wrong.validator!r} allows"


def text(description: str, bytes_max: int, *, least: int = 0) -> dict[str, Any]:
    return {"type": "string", "description": description, "minLength": least, "maxLength": bytes_max}


def texts(description: str, most: int, bytes_max: int) -> dict[str, Any]:
    items = {"type": "string", "minLength": 1, "maxLength": bytes_max}
    return {"type": "array", "description": description, "items": items, "maxItems": most}


def share(description: str) -> dict[str, Any]:
    return {"type": "number", "description": description, "minimum": 0, "maximum": 1}


def time(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description, "format": "date-time", "maxLength": 64}


def micros(arguments: Arguments, name: str) -> int | None:
    value = arguments.get(name)
    return None if value is None else parse_rfc3339(value, name)


def answers(properties: Mapping[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def written(answer: Any) -> bytes:
    """A tool's answer as bytes: canonical JSON, or the Markdown itself."""
    return answer.encode("utf-8") if isinstance(answer, str) else encoded(answer)


def read_json(text: bytes) -> Any:
    """A JSON text as RFC 8259 wants it exchanged: in UTF-8, each key once, and only numbers that JSON has. Raises
    InvalidInput."""
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("this is no JSON in UTF-8, with each key once", field="body") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        raise ValueError("a key stands there twice")
    return read


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")
