"""A group of writes that only moved sessions on is found again like any other, where the database failed behind it."""

from __future__ import annotations

from pathlib import Path

from mn_engine.store.duckdb import DuckDBStore
from mn_engine.store.duckdb.queries import max_seq
from tests.storing import KEY, open_run


def test_a_sessions_row_counts_among_the_newest(tmp_path: Path) -> None:
    store = DuckDBStore(tmp_path / "record.duckdb")
    try:
        open_run(store)
        before = store._database.ask(max_seq)
        store.decide_session(KEY, "ada", "chat", lambda state: ("1", None))
        assert store._database.ask(max_seq) == before + 1
    finally:
        store.close()
