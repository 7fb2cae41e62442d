"""What every face that speaks JSON does with a tool call once it knows who asks: decode -> operation; and for how long
its caller waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from mn_contract.errors import DependencyUnavailable, InvalidInput
from mn_contract.limits import TIMEOUT_MS_DEFAULT, TIMEOUT_MS_MAX
from mn_engine.domain.deadlines import Remaining
from mn_engine.domain.scope import Scope
from mn_engine.faces.gate import TIMEOUT_MS
from mn_engine.faces.workers import Workers
from mn_engine.service.engine import Call, Engine
from mn_engine.service.operations import OPERATIONS
from mn_engine.wire.tools import Tool

Result = TypeVar("Result")

ASKING: Final = "mn.asking"
"""Where an HTTP request that was let in carries its Asking, for an app behind the gate."""
_DIGITS_MAX: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Who asks, and for how long they wait."""

    scope: Scope
    remaining: Remaining


def perform(engine: Engine, scope: Scope, call: Call, tool: Tool, arguments: Any) -> Any:
    """What `tool` does with `arguments`, before it is encoded. Raises the contract's errors."""
    with tool.naming():
        return OPERATIONS[tool.operation].run(engine, scope, call, **tool.read(arguments))


def waiting(milliseconds: int = TIMEOUT_MS_DEFAULT) -> Remaining:
    """A deadline so far from now."""
    ends = time.monotonic() + milliseconds / 1000
    return lambda: ends - time.monotonic()


def patience(headers: Mapping[str, str]) -> int:
    """The milliseconds that a caller says it waits; a default where it does not. Raises InvalidInput."""
    told = headers.get(TIMEOUT_MS)
    if told is None:
        return TIMEOUT_MS_DEFAULT
    known = told.isascii() and told.isdecimal() and len(told) <= _DIGITS_MAX
    if not known or not 1 <= int(told) <= TIMEOUT_MS_MAX:
        raise InvalidInput(f"{TIMEOUT_MS} must be 1 to {TIMEOUT_MS_MAX} milliseconds", field=TIMEOUT_MS)
    return int(told)


class ToolCalls:
    """Tool calls put to an engine, once it is open, each in a thread of `workers`."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._engine: Engine | None = None

    def serve(self, engine: Engine) -> None:
        """From now on calls are answered."""
        self._engine = engine

    @property
    def open(self) -> bool:
        """Whether calls are answered."""
        return self._engine is not None

    async def run(self, asking: Asking, work: Callable[[Engine, Call], Result]) -> Result:
        """What `work` makes of the engine. Raises the contract's errors; see Workers.run."""
        engine = self._engine
        if engine is None:
            raise DependencyUnavailable("the record is being opened", dependency="engine", retry_after_ms=500)
        return await self._workers.run(lambda call: work(engine, call), asking.remaining)

    async def answer(self, asking: Asking, tool: Tool, arguments: Any) -> Any:
        """What `tool` answers: JSON, or Markdown as text. Raises the contract's errors."""
        return await self.run(
            asking,
            lambda engine, call: tool.encode(perform(engine, asking.scope, call, tool, arguments), asking.scope),
        )

    def shutdown(self) -> None:
        """Lets the threads end once their calls have."""
        self._workers.shutdown()
