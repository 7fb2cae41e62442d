"""A record whose file is gone is not a new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from mn_contract.errors import DependencyUnavailable
from mn_engine.domain.access import OPEN
from mn_engine.store.duckdb import DuckDBStore
from tests.storing import KEY, observe, open_run


def test_a_record_that_is_lost_is_not_replaced_by_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "record.duckdb"
    store = DuckDBStore(path)
    open_run(store)
    observe(store, "a")
    store.close()
    path.unlink()
    for _ in range(2):
        with pytest.raises(DependencyUnavailable, match=r"record\.duckdb\.synced") as lost:
            DuckDBStore(path)
        assert "backup" in lost.value.message
        assert not path.exists()


@pytest.mark.parametrize("left", ["record.duckdb.wal", "record.duckdb.synced", "record.duckdb.blobs/run/sha"])
def test_every_file_of_a_lost_record_tells_of_it(tmp_path: Path, left: str) -> None:
    file = tmp_path / left
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x")
    with pytest.raises(DependencyUnavailable, match=left.split("/")[0]):
        DuckDBStore(tmp_path / "record.duckdb")
    assert file.read_bytes() == b"x"
    file.unlink()
    DuckDBStore(tmp_path / "record.duckdb").close()


def test_a_record_with_files_of_its_own_beside_it_opens(tmp_path: Path) -> None:
    path = tmp_path / "record.duckdb"
    store = DuckDBStore(path)
    open_run(store)
    arriving = store.upload(KEY)
    arriving.write(b"z" * 100_000)
    arriving.finish(media_type="text/plain", owner="ada", acl=OPEN, expected_sha256="")
    store.close()
    DuckDBStore(path).close()
