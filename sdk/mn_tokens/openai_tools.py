"""How OpenAI's chat models are shown tools: a TypeScript namespace, as text (found by fitting recorded requests).

Pure text in, text out. What is not rendered (minimum, format, pattern, additionalProperties, strict) is not billed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

_DEPTH_MAX: Final = 64
_ANY: Final = "any"


def section(functions: Sequence[Mapping[str, Any]]) -> str:
    """The section that all tools together make."""
    rendered = "".join(function(entry) for entry in functions)
    return f"# Tools\n\n## functions\n\nnamespace functions {{\n\n{rendered}}} // namespace functions"


def function(entry: Mapping[str, Any]) -> str:
    """One function's declaration, with the blank line after it."""
    comment = _comment(entry.get("description"))
    schema = entry.get("parameters")
    schema = schema if isinstance(schema, Mapping) else {}
    if not isinstance(schema.get("properties"), Mapping) or not schema["properties"]:
        return f"{comment}type {entry.get('name', '')} = () => any;\n\n"
    title = schema.get("title")
    head = f"// {title}\n" if isinstance(title, str) and title else ""
    body = _type(schema, schema, 0)
    return f"{comment}type {entry.get('name', '')} = (_: {head}{body}) => any;\n\n"


def _comment(text: Any) -> str:
    if not isinstance(text, str) or not text.strip():
        return ""
    return "".join(f"// {line.strip()}\n" if line.strip() else "//\n" for line in text.strip().split("\n"))


def _type(schema: Any, root: Mapping[str, Any], depth: int) -> str:
    if not isinstance(schema, Mapping) or depth > _DEPTH_MAX:
        return _ANY
    schema = _resolved(schema, root)
    for rule in (_enum, _union, _object, _array):
        rendered = rule(schema, root, depth)
        if rendered:
            return rendered
    named = schema.get("type")
    return "number" if named == "integer" else named if isinstance(named, str) else _ANY


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that a local `$ref` points at; recursion is bounded by the caller's depth."""
    ref = schema.get("$ref")
    if not isinstance(ref, str) or not ref.startswith("#/"):
        return schema
    target: Any = root
    for step in ref[2:].split("/"):
        target = target.get(step) if isinstance(target, Mapping) else None
    return target if isinstance(target, Mapping) else schema


def _enum(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> str:
    values = schema.get("enum")
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        return ""
    return " | ".join(json.dumps(value, ensure_ascii=False) for value in values)


def _union(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> str:
    for name in ("anyOf", "oneOf"):
        choices = schema.get(name)
        if isinstance(choices, Sequence) and choices:
            return " | ".join(_type(choice, root, depth + 1) for choice in choices)
    named = schema.get("type")
    if isinstance(named, Sequence) and not isinstance(named, str):
        return " | ".join(_type({**schema, "type": one}, root, depth + 1) for one in named)
    return ""


def _array(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> str:
    if schema.get("type") != "array":
        return ""
    return f"{_type(schema.get('items', {}), root, depth + 1)}[]"


def _object(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> str:
    if schema.get("type", "object") != "object" or ("type" not in schema and "properties" not in schema):
        return ""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return "object"
    required = schema.get("required")
    required = required if isinstance(required, Sequence) else ()
    fields = [_field(name, value, name in required, root, depth) for name, value in properties.items()]
    if any(comment or default or "\n" in declared for comment, declared, default in fields):
        lines = "".join(f"{comment}{declared},{default}\n" for comment, declared, default in fields)
        return f"{{\n{lines}}}"
    return "{ " + ", ".join(declared for _, declared, _ in fields) + " }"


def _field(name: str, schema: Any, required: bool, root: Mapping[str, Any], depth: int) -> tuple[str, str, str]:
    """(comment lines, `name?: type`, ` // default: value`)."""
    schema = schema if isinstance(schema, Mapping) else {}
    title, description = schema.get("title"), _comment(schema.get("description"))
    comment = ""
    if isinstance(title, str) and title:
        comment = f"// {title}\n" + ("//\n" if description else "")
    default = f" // default: {json.dumps(schema['default'], ensure_ascii=False)}" if "default" in schema else ""
    return comment + description, f"{name}{'' if required else '?'}: {_type(schema, root, depth + 1)}", default
