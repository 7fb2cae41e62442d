"""The embedded face: the wire's messages, minus the socket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mn_contract.errors import InvalidInput
from mn_engine.domain.deadlines import Remaining, endless
from mn_engine.faces.exchange import exchange
from mn_engine.faces.gate import Gate
from mn_engine.service.engine import Call, Engine
from mn_engine.service.operations import OPERATIONS


class EmbeddedFace:
    """Calls operations in this process. Raises the contract's errors as they are."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._gate = Gate()

    def call(self, method: str, metadata: Mapping[str, str], request: Any, *, remaining: Remaining = endless) -> Any:
        """Runs `method` (an RPC's name). Requests and answers are messages, or iterators of them, as on the wire."""
        if method not in OPERATIONS:
            raise InvalidInput(f"there is no operation {method!r}", field="method")
        return exchange(self._engine, method, self._gate.admit(metadata), Call(remaining=remaining), request)
