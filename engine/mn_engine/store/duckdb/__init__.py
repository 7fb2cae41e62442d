"""The record in one DuckDB file: one writer with group commit, a reader a core, large artifacts as files beside it."""

from mn_engine.store.duckdb.store import DuckDBStore

__all__ = ["DuckDBStore"]
