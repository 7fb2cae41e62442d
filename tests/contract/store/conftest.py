"""Every store, through one fixture: a store that comes later is one line of STORES."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from mn_engine.store.duckdb import DuckDBStore
from mn_engine.store.memory import MemoryStore
from mn_engine.store.port import Store

STORES: Final[dict[str, Callable[[Path], Store]]] = {
    "memory": lambda folder: MemoryStore(),
    "duckdb": lambda folder: DuckDBStore(folder / "record.duckdb", free_bytes_floor=0),
}
DURABLE: Final = ("duckdb",)
"""Those that find again what they wrote."""


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A new record."""
    opened = STORES[request.param](tmp_path)
    yield opened
    opened.close()


@pytest.fixture(params=DURABLE)
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Opens one and the same record each time it is called."""
    return lambda: STORES[request.param](tmp_path)
