"""Append-only arrays that snapshots share: a longer snapshot writes only behind the end of every shorter one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROOM_MIN = 64


class Growing:
    """A snapshot of `len` items of a buffer. Appending answers a longer snapshot and leaves this one as it is.

    Snapshots of one line of descent share a buffer; a second append to the same snapshot copies, so that nobody's items
    change. One thread appends at a time.
    """

    __slots__ = ("_buffer", "_length", "_used")

    def __init__(self, buffer: NDArray[Any], length: int, used: list[int]) -> None:
        self._buffer = buffer
        self._length = length
        self._used = used

    @classmethod
    def empty(cls, item: type[np.generic]) -> Growing:
        """No items."""
        return cls(np.zeros(0, item), 0, [0])

    def extended(self, items: NDArray[Any]) -> Growing:
        """A snapshot with `items` behind these."""
        if not len(items):
            return self
        length = self._length + len(items)
        buffer, used = self._buffer, self._used
        if length > len(buffer) or used[0] != self._length:
            buffer = np.zeros(max(length + length // 4, _ROOM_MIN) if self._length else length, self._buffer.dtype)
            buffer[: self._length] = self.array
            used = [self._length]
        buffer[self._length : length] = items
        used[0] = length
        return Growing(buffer, length, used)

    @property
    def array(self) -> NDArray[Any]:
        """The items; not to be written to."""
        return self._buffer[: self._length]

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer, spare room included."""
        return int(self._buffer.nbytes)

    def __len__(self) -> int:
        return self._length
