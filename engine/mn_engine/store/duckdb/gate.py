"""Readers side by side, a bounded number of them; or somebody alone, before whom readers cannot keep slipping in."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Final

from mn_contract.errors import DependencyUnavailable

_WAIT_SECONDS: Final = 30.0


class Gate:
    """Thread-safe. Waits are bounded: DependencyUnavailable is raised where one is too long."""

    def __init__(self, readers_max: int) -> None:
        self._changed = threading.Condition()
        self._readers_max = readers_max
        self._inside = 0
        self._closed = False

    @contextlib.contextmanager
    def reader(self) -> Iterator[None]:
        """As one of several readers."""
        with self._changed:
            if not self._changed.wait_for(self._has_room, _WAIT_SECONDS):
                raise _busy("every reader of the record is busy")
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """With nobody else inside: those who are come out first, those who come wait."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._closed, _WAIT_SECONDS):
                raise _busy("the record is being opened again")
            self._closed = True
        try:
            with self._changed:
                if not self._changed.wait_for(lambda: not self._inside, _WAIT_SECONDS):
                    raise _busy("the record is being read")
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()

    def _has_room(self) -> bool:
        return not self._closed and self._inside < self._readers_max


def _busy(message: str) -> DependencyUnavailable:
    return DependencyUnavailable(f"{message}; retry", dependency="store", retry_after_ms=1000)
