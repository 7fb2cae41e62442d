"""What queries answer, as rows and as Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa


def rows(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """All rows of a query."""
    return cursor.execute(sql, list(parameters)).fetchall()


def table(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any], schema: pa.Schema) -> pa.Table:
    """All rows of a query as Arrow, with the types of `schema`."""
    found = cursor.sql(sql, params=list(parameters)).to_arrow_table()
    return found if found.schema.equals(schema) else found.cast(schema)


def batches(
    cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any], batch_rows: int
) -> pa.RecordBatchReader:
    """All rows of a query as Arrow, some at a time."""
    relation: Any = cursor.sql(sql, params=list(parameters))
    # DuckDB 2 has renamed this and warns of the old name.
    return (getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch)(batch_rows)
