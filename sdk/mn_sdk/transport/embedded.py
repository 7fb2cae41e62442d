"""An engine in this process: the wire's operations, minus the socket. The engine is imported here only, and late."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mn_sdk.scope import SessionScope


class EmbeddedTransport:
    """Calls the engine over the record in `root`. Raises RecordInUse where another process has it open."""

    def __init__(self, root: str | Path, scope: SessionScope) -> None:
        from mn_engine.bootstrap import embedded

        self._headers: Mapping[str, str] = scope.headers()
        self._engine = embedded(root)

    def call(self, method: str, request: Any, *, timeout: float | None = None) -> Any:
        """See Transport. Without a timeout a call takes as long as it takes."""
        if timeout is None:
            return self._engine.call(method, self._headers, request)
        deadline = time.monotonic() + timeout
        return self._engine.call(method, self._headers, request, remaining=lambda: deadline - time.monotonic())

    def close(self) -> None:
        """See Transport."""
        self._engine.close()
