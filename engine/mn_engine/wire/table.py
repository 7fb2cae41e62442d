"""All tools, by name and by operation."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Any, Final

from mn_contract.errors import InvalidInput
from mn_contract.limits import ID_BYTES_MAX
from mn_engine.wire.fact_tools import FACT_TOOLS
from mn_engine.wire.pack_tools import PACK_TOOLS
from mn_engine.wire.tools import Tool

_ALL: Final = (*PACK_TOOLS, *FACT_TOOLS)
TOOLS: Final[Mapping[str, Tool]] = MappingProxyType({tool.name: tool for tool in _ALL})
BY_OPERATION: Final[Mapping[str, Tool]] = MappingProxyType({tool.operation: tool for tool in _ALL})


def tool_named(name: Any) -> Tool:
    """The tool of a name. Raises InvalidInput."""
    tool = TOOLS.get(name) if isinstance(name, str) else None
    if tool is None:
        raise InvalidInput(f"there is no tool {str(name)[:ID_BYTES_MAX]!r}; there are {', '.join(TOOLS)}", field="name")
    return tool


def naming(operation: str) -> AbstractContextManager[None]:
    """In which an operation's errors name arguments as its tool does; those of an operation without one stay."""
    tool = BY_OPERATION.get(operation)
    return nullcontext() if tool is None else tool.naming()
