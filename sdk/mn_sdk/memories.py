"""Memories for models: packs in SMP envelopes, queries, and one step on from any reference, as the engine answers them.

The engine projects; nothing is put together on this side. Arguments are those of the tools get_context, query_memory
and expand; what is None is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import ParseDict, ParseError

from mn.context.memory.v1 import memory_pb2
from mn_contract.errors import InvalidInput
from mn_contract.limits import MESSAGE_BYTES_MAX, REQUIRED_NAMED_MAX
from mn_contract.names import check_text, read_names
from mn_sdk.arguments import read_flag, read_number, read_whole

Ask = Callable[[str, Any], Any]
"""Calls an operation of the engine, by its RPC's name."""
_TEXT: Final = "markdown"
_UINT32_MAX: Final = (1 << 32) - 1


class Memories:
    """What an engine remembers for one scope, as documents. Raises the contract's errors."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def context(self, **arguments: Any) -> Any:
        """A pack: the SMP envelope, or in another `format` its plain document or Markdown text."""
        document = self._document("GetContext", arguments)
        return document.decode("utf-8") if arguments.get("format") == _TEXT else json.loads(document)

    def query(self, **arguments: Any) -> dict[str, Any]:
        """A page of what a query finds: {items, narrowed_from, narrowed_to, cursor, follow_ups, revision}."""
        answer: dict[str, Any] = json.loads(self._document("QueryMemory", arguments))
        return answer

    def expand(self, ref: str, direction: str = "document", *, cursor: str | None = None) -> dict[str, Any]:
        """The whole memory (`document`), what it is joined to (`neighbors`), or a query's next page (`more`)."""
        arguments = {"ref": ref, "direction": direction, "cursor": cursor}
        answer: dict[str, Any] = json.loads(self._document("Expand", arguments))
        return answer

    def _document(self, operation: str, arguments: Mapping[str, Any]) -> bytes:
        return asked_document(self._ask, operation, arguments)


def asked_document(ask: Ask, operation: str, arguments: Mapping[str, Any]) -> bytes:
    """What an operation of the memory service answers; an argument that is None is left out. Raises InvalidInput."""
    request = getattr(memory_pb2, f"{operation}Request")()
    fields = request.DESCRIPTOR.fields_by_name
    if unknown := sorted(arguments.keys() - fields.keys()):
        raise InvalidInput(f"there is no argument {unknown[0]!r}; there are {', '.join(fields)}", field=unknown[0])
    given = {name: _read(fields[name], value) for name, value in arguments.items() if value is not None}
    try:
        ParseDict(given, request)
    except ParseError as error:
        raise InvalidInput(f"the arguments do not fit: {error}", field="arguments") from error
    document: bytes = ask(operation, request).document
    return document


def _read(field: FieldDescriptor, value: object) -> object:
    """What is given for an argument, as its JSON: of its own type, nothing that could only be made one. One name may
    stand for a list of it. Raises InvalidInput."""
    name, kind = field.name, field.cpp_type
    if field.is_repeated and kind == FieldDescriptor.CPPTYPE_UINT32:
        if not isinstance(value, list | tuple):
            raise InvalidInput(f"{name} must be a list of numbers, not {type(value).__name__}", field=name)
        return [read_whole(one, name, most=_UINT32_MAX) for one in value]
    if field.is_repeated:
        return list(read_names(value, name, _check_name, REQUIRED_NAMED_MAX))
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return read_flag(value, name)
    if kind == FieldDescriptor.CPPTYPE_UINT32:
        whole = int(value) if isinstance(value, float) and value.is_integer() else value  # JSON takes 5.0 for 5
        return read_whole(whole, name, most=_UINT32_MAX)
    if kind == FieldDescriptor.CPPTYPE_DOUBLE:
        return read_number(value, name)
    return _check_name(value, name)  # a text, or a time in RFC 3339


def _check_name(value: Any, field: str) -> str:
    return check_text(value, field, MESSAGE_BYTES_MAX)
