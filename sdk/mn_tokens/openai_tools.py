"""How OpenAI's chat models are shown tools: a TypeScript namespace, as text (found by fitting recorded requests).

Pure text in, text out. What is not rendered was not billed in those recordings. Other providers are sent it all the
same, and none was recorded with much of it: `unshown` says what it is, for the margin (invariant 11).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mn_tokens.request import Tool

_DEPTH_MAX: Final = 64
_SCHEMAS_MAX: Final = 4096
"""Schemas that one function's declaration may hold, each use of a `$ref` counted."""
_SCHEMAS_ONCE_MAX: Final = 32_768
"""The same, where each `$ref` is followed once."""
_ANY: Final = "any"
_BARE: Final = "object"

UNBILLED: Final = frozenset({
    "required", "additionalProperties", "strict", "$schema", "minimum", "maximum", "format", "nullable", "title",
    "description", "type",
})  # fmt: skip
"""Keywords that the recordings show not to be billed where they are not rendered."""
_SMALL_CHARACTERS_MAX: Final = 64
_UNIONS: Final = ("anyOf", "oneOf")
_DEFINITIONS: Final = ("$defs", "definitions")


@dataclass(slots=True)
class _Document:
    """A function's parameters as a whole: what references point into, how many schemas may be rendered of it and how
    many were. `followed` are the references that were, where each is followed once; None where all are."""

    root: Mapping[str, Any]
    schemas_max: int = _SCHEMAS_MAX
    followed: set[str] | None = None
    rendered: int = 0

    @property
    def spent(self) -> bool:
        """Whether no more may be rendered."""
        return self.rendered > self.schemas_max

    def resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """The schema that a local `$ref` points at; the reference itself where it is not followed."""
        self.rendered += 1
        ref = schema.get("$ref")
        if not isinstance(ref, str) or not ref.startswith("#/"):
            return schema
        if self.followed is not None:
            if ref in self.followed:
                return schema
            self.followed.add(ref)
        target: Any = self.root
        for step in ref[2:].split("/"):
            target = target.get(step) if isinstance(target, Mapping) else None
        return target if isinstance(target, Mapping) else schema


def section(tools: Sequence[Tool], *, whole: bool = False) -> str:
    """The section that all tools together make. `whole`: as `function` takes it."""
    rendered = "".join(function(tool, whole=whole) for tool in tools)
    return f"# Tools\n\n## functions\n\nnamespace functions {{\n\n{rendered}}} // namespace functions"


def function(tool: Tool, *, whole: bool = False) -> str:
    """One function's declaration, with the blank line after it. `whole`: whether the description of its parameters as a
    whole is shown, too; GPT-5 is shown it, models before it are not."""
    return declaration(tool, whole=whole)[0]


def declaration(tool: Tool, *, whole: bool = False) -> tuple[str, bool]:
    """`function`, and whether all of it is there: where references multiply beyond bounds, as those of a tree do, each
    is followed once, for nobody knows how far a provider follows them."""
    comment = _comment(tool.description)
    schema = tool.parameters if isinstance(tool.parameters, Mapping) else {}
    if not _has_properties(schema):
        return f"{comment}type {tool.name} = () => any;\n\n", True
    root = schema if whole else {key: value for key, value in schema.items() if key != "description"}
    document = _Document(root)
    declared = _type(root, document, 0)
    if document.spent:
        declared = _type(root, _Document(root, _SCHEMAS_ONCE_MAX, set()), 0)
    return f"{comment}type {tool.name} = (_: {declared}) => any;\n\n", not document.spent


def unshown(tool: Tool) -> Iterator[tuple[str, Any]]:
    """(keyword, value) of everything in an offered function that its declaration does not show, each once."""
    yield from _others(tool.beside, set())
    if tool.description is not None and not isinstance(tool.description, str):
        yield "description", tool.description
    if isinstance(tool.parameters, Mapping):
        yield from _Unshown(_Document(tool.parameters), set()).of_root()
    elif tool.parameters is not None:
        yield "parameters", tool.parameters


def doubtful(tool: Tool) -> Iterator[str]:
    """Texts that were billed besides in some recordings, for forms whose rendering is not known whole: unions, line by
    line, and the comments in objects that an array holds."""
    pending = [tool.parameters]
    while pending:
        one = pending.pop()
        if isinstance(one, Mapping):
            choices = next((_values(one, name) for name in (*_UNIONS, "type") if _values(one, name)), ())
            yield from ("\n | null" for _ in choices)
            if isinstance(one.get("items"), Mapping) and _has_properties(one["items"]) and not _words(one["items"]):
                yield "".join(
                    _words(value) for value in one["items"]["properties"].values() if isinstance(value, Mapping)
                )
            pending.extend(one.values())
        elif isinstance(one, list | tuple):
            pending.extend(one)


@dataclass(frozen=True, slots=True)
class _Unshown:
    """Walks parameters as `_type` does. `followed` are the references on the way: each is gone through once."""

    document: _Document
    followed: set[str]

    def of_root(self) -> Iterator[tuple[str, Any]]:
        root = self.document.root
        definitions = {key for key in _DEFINITIONS if isinstance(root.get(key), Mapping)}
        if _has_properties(root):
            yield from self._of(root, (_worded(root) - {"description"}) | definitions, 0)
        else:
            yield from _others(root, {"properties", *definitions})
        for key in definitions:
            for name, schema in root[key].items():
                if f"#/{key}/{name}" not in self.followed:
                    yield key, {name: schema}

    def _of(self, schema: Any, known: set[str], depth: int) -> Iterator[tuple[str, Any]]:
        if not isinstance(schema, Mapping) or depth > _DEPTH_MAX:
            if schema:
                yield "schema", schema
            return
        target = self.document.resolved(schema)
        if target is not schema:
            yield from _others(schema, {"$ref", *known})
            if schema["$ref"] in self.followed:
                return
            self.followed.add(schema["$ref"])
            known = set()
        shown, inner = _shown(target)
        if depth > 0 and "properties" in shown:
            shown |= _worded(target)  # before its type, where they are not beside its field
        yield from _others(target, shown | known)
        for one, named in inner:
            yield from self._of(one, _commented(one) if named else set(), depth + 1)


def _shown(schema: Mapping[str, Any]) -> tuple[set[str], list[tuple[Any, bool]]]:
    """(keywords of it that `_type` shows, the schemas in it that are shown, and whether with their comments)."""
    if _values(schema):
        return {"enum"}, []
    for name in _UNIONS:
        if _values(schema, name):
            return {name}, [(choice, False) for choice in schema[name]]
    named = schema.get("type", "object" if "properties" in schema else None)
    types = [named] if isinstance(named, str) else _values(schema, "type")
    shown: set[str] = {"type"} if types and all(isinstance(one, str) for one in types) else set()
    inner: list[tuple[Any, bool]] = []
    if "object" in types and _has_properties(schema):
        properties = schema["properties"]
        shown |= {"properties"} | ({"required"} if names_only(schema.get("required"), properties) else set())
        inner += [(value, True) for value in properties.values()]
    if "array" in types:
        shown |= {"items"}
        inner += [(schema.get("items"), False)]
    return shown, inner


def _has_properties(schema: Mapping[str, Any]) -> bool:
    properties = schema.get("properties")
    return isinstance(properties, Mapping) and bool(properties)


def _commented(schema: Any) -> set[str]:
    """Keywords of a property that are shown beside its type."""
    return _worded(schema) | {"default"} if isinstance(schema, Mapping) else set()


def _worded(schema: Mapping[str, Any]) -> set[str]:
    return {key for key in ("title", "description") if isinstance(schema.get(key), str)}


def _others(schema: Mapping[str, Any], shown: set[str]) -> Iterator[tuple[str, Any]]:
    """What is not among `shown`, short values of unbilled keywords aside: they are what the recordings were full of."""
    for keyword, value in schema.items():
        if keyword not in shown and not (keyword in UNBILLED and is_small(value)):
            yield keyword, value


def is_small(value: Any) -> bool:
    """Whether a keyword's value is too short to matter."""
    if isinstance(value, str):
        return len(value) <= _SMALL_CHARACTERS_MAX
    return value is None or isinstance(value, bool | int | float)


def names_only(required: Any, properties: Any) -> bool:
    """Whether `required` lists names of `properties`, and nothing else."""
    return isinstance(required, list | tuple) and all(
        isinstance(name, str) and isinstance(properties, Mapping) and name in properties for name in required
    )


def _comment(text: Any) -> str:
    if not isinstance(text, str) or not text.strip():
        return ""
    return "".join(f"// {line.strip()}\n" if line.strip() else "//\n" for line in text.strip().split("\n"))


def _type(schema: Any, document: _Document, depth: int, *, told: bool = False) -> str:
    """A type; an object's title and description stand before it, unless they are `told` elsewhere."""
    if not isinstance(schema, Mapping) or depth > _DEPTH_MAX or document.spent:
        return _ANY
    target = document.resolved(schema)
    words = "" if told and target is schema else _words(target)
    for rule in (_enum, _union, _object, _array):
        rendered = rule(target, document, depth)
        if rendered:
            return words + rendered if rule is _object and rendered != _BARE else rendered
    named = target.get("type")
    return "number" if named == "integer" else named if isinstance(named, str) else _ANY


def _words(schema: Mapping[str, Any]) -> str:
    """Title and description as comment lines."""
    title, description = schema.get("title"), _comment(schema.get("description"))
    if isinstance(title, str) and title:
        return f"// {title}\n" + (f"//\n{description}" if description else "")
    return description


def _enum(schema: Mapping[str, Any], document: _Document, depth: int) -> str:
    return " | ".join(json.dumps(value, ensure_ascii=False) for value in _values(schema))


def _values(schema: Mapping[str, Any], keyword: str = "enum") -> Sequence[Any]:
    """The list under a keyword; empty where there is none."""
    values = schema.get(keyword)
    return values if isinstance(values, Sequence) and not isinstance(values, str) else ()


def _union(schema: Mapping[str, Any], document: _Document, depth: int) -> str:
    for name in _UNIONS:
        choices = _values(schema, name)
        if choices:
            return " | ".join(_type(choice, document, depth + 1) for choice in choices)
    named = schema.get("type")
    if isinstance(named, Sequence) and not isinstance(named, str):
        return " | ".join(_type({**schema, "type": one}, document, depth + 1) for one in named)
    return ""


def _array(schema: Mapping[str, Any], document: _Document, depth: int) -> str:
    if schema.get("type") != "array":
        return ""
    of = _type(schema.get("items", {}), document, depth + 1)
    return f"Array<\n{of}\n>" if of.startswith("//") else f"{of}[]"


def _object(schema: Mapping[str, Any], document: _Document, depth: int) -> str:
    if schema.get("type", "object") != "object" or ("type" not in schema and "properties" not in schema):
        return ""
    if not _has_properties(schema):
        return _BARE
    properties = schema["properties"]
    required = schema.get("required")
    required = required if isinstance(required, Sequence) else ()
    fields = [_field(name, value, name in required, document, depth) for name, value in properties.items()]
    if any(comment or default or "\n" in declared for comment, declared, default in fields):
        lines = "".join(f"{comment}{declared},{default}\n" for comment, declared, default in fields)
        return f"{{\n{lines}}}"
    return "{ " + ", ".join(declared for _, declared, _ in fields) + " }"


def _field(name: str, schema: Any, required: bool, document: _Document, depth: int) -> tuple[str, str, str]:
    """(comment lines, `name?: type`, ` // default: value`)."""
    schema = schema if isinstance(schema, Mapping) else {}
    declared = _type(schema, document, depth + 1, told=True)
    between = "\n" if declared.startswith("//") else " "
    default = f" // default: {json.dumps(schema['default'], ensure_ascii=False)}" if "default" in schema else ""
    return _words(schema), f"{name}{'' if required else '?'}:{between}{declared}", default
