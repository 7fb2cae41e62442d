"""A transport that has its session told when an answer says that the run is closed: what a session holds of a cleared
run must go (invariant 15), whichever call it learns of the clear by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mn_contract.errors import RunClosed
from mn_sdk.transport import Transport


class ClosingTransport:
    """See Transport. `told` is called with each such error before it is raised."""

    def __init__(self, inner: Transport, told: Callable[[RunClosed], None]) -> None:
        self._inner = inner
        self._told = told

    def call(self, method: str, request: Any, *, timeout: float | None = None) -> Any:
        """See Transport."""
        try:
            answer = self._inner.call(method, request, timeout=timeout)
        except RunClosed as error:
            self._told(error)
            raise
        return self._read(answer) if isinstance(answer, Iterator) else answer

    def close(self) -> None:
        """See Transport."""
        self._inner.close()

    def _read(self, answers: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from answers
        except RunClosed as error:
            self._told(error)
            raise
