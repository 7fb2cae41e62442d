"""Memories for models: packs in SMP envelopes, queries, and one step on from any reference, as the engine answers them.

The engine projects; nothing is put together on this side. Arguments are those of the tools get_context, query_memory
and expand; what is None is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from google.protobuf.json_format import ParseDict, ParseError

from mn.context.memory.v1 import memory_pb2
from mn_contract.errors import InvalidInput

Ask = Callable[[str, Any], Any]
"""Calls an operation of the engine, by its RPC's name."""
_TEXT: Final = "markdown"


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
        given = {name: value for name, value in arguments.items() if value is not None}
        request = getattr(memory_pb2, f"{operation}Request")()
        try:
            ParseDict(given, request)
        except ParseError as error:
            raise InvalidInput(f"the arguments do not fit: {error}", field="arguments") from error
        document: bytes = self._ask(operation, request).document
        return document
