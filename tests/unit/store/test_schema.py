"""The record's tables: versions go forward only, and migrations make what the code expects."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from mn_contract.errors import DependencyUnavailable
from mn_engine.store.duckdb import DuckDBStore, migrations, schema
from mn_engine.store.duckdb.rows import rows
from tests.storing import open_run


def test_all_migrations_together_make_the_tables_that_the_code_writes() -> None:
    with duckdb.connect() as connection:
        migrations.migrate(connection, 1)
        for table, columns in schema.TABLES.items():
            found = rows(
                connection,
                "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index",
                [table],
            )
            assert found == [(item.name, migrations._TYPES[item.type]) for item in columns]
        versions = rows(connection, "SELECT version FROM schema_versions ORDER BY version")
        assert versions == [(version,) for version in range(1, migrations.VERSION + 1)]


def test_every_table_begins_with_the_runs_key() -> None:
    """So that the same tables can be distributed by it, and no query can forget its run."""
    assert {columns.names[0] for columns in schema.TABLES.values()} == {"run_key"}


def test_migrating_again_changes_nothing() -> None:
    with duckdb.connect() as connection:
        for _ in range(2):
            migrations.migrate(connection, 1)
        assert rows(connection, "SELECT count(*) FROM schema_versions") == [(migrations.VERSION,)]


def test_a_migration_that_fails_leaves_the_version_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = (*migrations.MIGRATIONS, ("CREATE TABLE more (x INTEGER)", "CREATE TABLE more (x INTEGER)"))
    with duckdb.connect() as connection:
        migrations.migrate(connection, 1)
        monkeypatch.setattr(migrations, "MIGRATIONS", broken)
        monkeypatch.setattr(migrations, "VERSION", len(broken))
        with pytest.raises(duckdb.Error):
            migrations.migrate(connection, 2)
        assert rows(connection, "SELECT max(version) FROM schema_versions") == [(migrations.VERSION - 1,)]
        assert rows(connection, "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'more'") == [(0,)]


def test_a_record_of_a_newer_engine_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "record.duckdb"
    DuckDBStore(path, free_bytes_floor=0).close()
    with duckdb.connect(str(path)) as connection:
        connection.execute("INSERT INTO schema_versions VALUES (?, 0)", [migrations.VERSION + 1])
    for _ in range(2):
        with pytest.raises(DependencyUnavailable) as refused:
            DuckDBStore(path, free_bytes_floor=0)
        assert refused.value.detail["found"] == migrations.VERSION + 1
    with duckdb.connect(str(path)) as connection:
        connection.execute("DELETE FROM schema_versions WHERE version > ?", [migrations.VERSION])
    store = DuckDBStore(path, free_bytes_floor=0)
    open_run(store)
    store.close()
