"""The engine in this process, over a record under a folder. The only module of the SDK that imports the engine, and late."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any


class EmbeddedTransport:
    """Operations minus the socket."""

    def __init__(self, root: str | Path, metadata: dict[str, str]) -> None:
        from mn_engine.bootstrap import embedded

        self._engine = embedded(root)
        self._metadata = metadata

    def call(self, method: str, request: Any, *, timeout: float | None = None) -> Any:
        if timeout is None:
            return self._engine.call(method, self._metadata, request)
        deadline = time.monotonic() + timeout
        return self._engine.call(method, self._metadata, request, expired=lambda: time.monotonic() > deadline)

    def close(self) -> None:
        self._engine.close()
