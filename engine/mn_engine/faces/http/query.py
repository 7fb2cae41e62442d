"""Query parameters as a tool's arguments: text becomes what the schema says, strictly; the tool checks the rest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from mn_contract.errors import InvalidInput
from mn_contract.limits import HTTP_PARAMETERS_MAX
from mn_engine.wire.tools import Tool

_INTEGER: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII)
_BOOLEANS: Final = {"true": True, "false": False}


def query_arguments(tool: Tool, query: bytes) -> dict[str, Any]:
    """The arguments that a query string gives. Lists are parameters that stand there more than once. Raises
    InvalidInput."""
    arguments: dict[str, Any] = {}
    for name, text in _pairs(query):
        schema = tool.properties.get(name)
        if schema is None:
            arguments[name] = text  # which the tool refuses, as of any caller
        elif schema.get("type") == "array":
            arguments.setdefault(name, []).append(text)
        elif name in arguments:
            raise InvalidInput(f"{name} is given twice; give it once", field=name)
        else:
            arguments[name] = _value(name, schema, text)
    return arguments


def _pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=HTTP_PARAMETERS_MAX
        )
    except ValueError as error:
        raise InvalidInput(
            f"the query is no list of at most {HTTP_PARAMETERS_MAX} parameters in UTF-8, percent-encoded", field="query"
        ) from error


def _value(name: str, schema: Mapping[str, Any], text: str) -> Any:
    wanted = schema.get("type")
    if wanted == "integer" and _INTEGER.fullmatch(text):
        return int(text)
    if wanted == "number" and _NUMBER.fullmatch(text):
        return float(text)
    if wanted == "boolean" and text in _BOOLEANS:
        return _BOOLEANS[text]
    if wanted in ("integer", "number", "boolean"):
        told = "true or false" if wanted == "boolean" else f"{'an' if wanted == 'integer' else 'a'} {wanted}"
        raise InvalidInput(f"{name} must be {told}", field=name)
    return text
