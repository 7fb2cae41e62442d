"""What a JSON Schema is made of, without following its references: linear in its size, however it refers to itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mn_tokens.reading.json_values import as_text, is_list

_NAMED: Final = ("properties", "$defs", "definitions", "patternProperties")
"""Keywords under which keys are names and values are schemas."""
_KEYWORDS: Final = frozenset({
    *_NAMED, "type", "items", "required", "anyOf", "oneOf", "allOf", "not", "$ref", "$schema", "additionalProperties",
    "title", "description", "enum", "default", "const", "examples", "format", "minimum", "maximum", "nullable",
    "strict",
})  # fmt: skip
"""Keywords that are no words themselves."""
_TYPES: Final = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_WORDED: Final = ("title", "description", "enum", "default", "const", "examples")
"""Keywords whose values are words."""


@dataclass(frozen=True, slots=True)
class Outline:
    """`words` are names, titles, descriptions and values; `fields` how many properties there are, `nested` how many
    objects with some inside of others, `references` how many references."""

    words: tuple[str, ...]
    fields: int
    nested: int
    references: int


def outlined(schema: Any) -> Outline:
    """The outline of a schema; of what is none, its JSON text as one word."""
    words: list[str] = []
    fields = objects = references = 0
    pending = [schema]
    while pending:
        one = pending.pop()
        if is_list(one):
            pending.extend(one)
        elif isinstance(one, Mapping):
            words.extend(key for key in one if key not in _KEYWORDS)
            for key, value in one.items():
                if key in _NAMED and isinstance(value, Mapping):
                    words.extend(value)
                    if key == "properties" and value:
                        fields += len(value)
                        objects += 1
                    pending.extend(value.values())
                elif key == "$ref" and isinstance(value, str) and value.startswith("#/"):
                    references += 1
                elif key in _WORDED:
                    words.append(as_text(value))
                elif isinstance(value, Mapping) or is_list(value):
                    pending.append(value)
                elif isinstance(value, str) and value.lower() not in _TYPES:
                    words.append(value)
        elif one is not None and not isinstance(one, bool):
            words.append(as_text(one))
    return Outline(tuple(words), fields, max(objects - 1, 0), references)
