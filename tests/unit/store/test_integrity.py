"""Nothing that is stored can be changed behind the engine's back without being found, whatever it is."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

from mn_contract.errors import InvalidInput
from mn_contract.invocations import Attempt, State
from mn_engine.bootstrap import engine_over
from mn_engine.domain.access import OPEN, Acl
from mn_engine.domain.cards import CardKey, Kind, Relation
from mn_engine.domain.facts import Fact
from mn_engine.domain.leaves import columns_sha256
from mn_engine.domain.merkle import Frontier, leaf_hash
from mn_engine.domain.runs import chained_root
from mn_engine.domain.scope import Scope
from mn_engine.service.engine import Call
from mn_engine.service.integrity import Integrity, look_over, verify_integrity
from mn_engine.store.duckdb import DuckDBStore
from mn_engine.store.duckdb.migrations import MIGRATIONS
from mn_engine.store.duckdb.rows import rows
from mn_engine.store.duckdb.schema import ADDED, TABLES
from tests.storing import JOB, KEY, NOW, RUN, artifact, batch, bulk, card, event, open_run, resolving, sha, supersedes

FOR_ADA: Final = Acl(allow_principals=frozenset({"ada"}))
LARGE: Final = bytes(range(256)) * 1024


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    """A record that has something in every table."""
    opened = DuckDBStore(tmp_path / "record.duckdb", free_bytes_floor=0)
    open_run(opened, max_stored_bytes=1 << 40)
    fact = Fact(subject="Ada", predicate="works at", object="Acme")
    opened.commit(
        batch(
            event("e1", card("a", kind=Kind.OBLIGATION, acl=FOR_ADA, occurred_at=NOW)),
            event("e2", card("b", kind=Kind.FACT, fact=fact, valid_from=NOW, valid_until=NOW + 1)),
        )
    )
    links = (*resolving("a"), *supersedes("b"), Relation("about", CardKey("ada", "a")))
    inline = artifact(b"inline", acl=FOR_ADA)
    opened.commit(
        batch(
            event("e3", card("c", relations=links)),
            event("e4", resolves=(CardKey("ada", "a"),), artifacts=(inline,)),
        )
    )
    arriving = opened.upload(KEY)
    arriving.write(LARGE)
    arriving.finish(media_type="a/b", owner="ada", acl=OPEN, expected_sha256="")
    opened.commit_table(KEY, owner="ada", key="bulk", fingerprint=sha(b"bulk"), cards=bulk(card("x"), card("y")))
    attempt = Attempt(
        name="call",
        attempt=1,
        state=State.RESPONDED,
        epoch=1,
        holder="h",
        lease_until_ms=1,
        fingerprint="f",
        roles=frozenset({"r"}),
        response=b"paid for",
    )
    opened.decide_invocation(KEY, "ada", "call", lambda known: (attempt,))
    opened.decide_session(KEY, "ada", "session", lambda before: ("{}", None))
    yield opened
    opened.close()


def looked(store: DuckDBStore) -> Integrity:
    """What a look over the record says, as it is now."""
    store._heads.forget()
    return look_over(store, KEY, store.run(KEY), Call())


def changed(value: Any) -> Any:
    """Another value of the same type."""
    if value is None:
        return "1"
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1 if value < 200 else value - 1
    if isinstance(value, bytes):
        return bytes([*value[:-1], value[-1] ^ 1]) if value else b"x"
    return value[:-1] + ("0" if value[-1:] != "0" else "1")


COLUMNS: Final = [(table, name) for table, schema in TABLES.items() for name in schema.names if name != "run_key"]


def test_what_was_written_holds(store: DuckDBStore) -> None:
    found = looked(store)
    head = store.run(KEY)
    assert found.tampered is None
    assert found.holds
    assert (found.revision, found.root, found.size) == (3, head.root, head.frontier.size)


@pytest.mark.parametrize(("table", "name"), COLUMNS)
def test_any_changed_value_is_found(store: DuckDBStore, table: str, name: str) -> None:
    connection = store._database.write
    for rowid, value in rows(connection, f'SELECT rowid, "{name}" FROM {table} ORDER BY rowid'):
        connection.execute(f'UPDATE {table} SET "{name}" = ? WHERE rowid = ?', [changed(value), rowid])
        try:
            assert not looked(store).holds, (table, name, value)
        except (InvalidInput, ValueError):
            assert table == "heads", "a head that says nothing cannot be asked"
        connection.execute(f'UPDATE {table} SET "{name}" = ? WHERE rowid = ?', [value, rowid])
    assert looked(store).holds


@pytest.mark.parametrize("table", ["artifacts", "cards", "endings", "events", "relations"])
def test_a_row_that_is_gone_or_stands_there_twice_is_found(store: DuckDBStore, table: str) -> None:
    connection = store._database.write
    ((rowid,),) = rows(connection, f"SELECT min(rowid) FROM {table}")
    names = ", ".join(f'"{name}"' for name in TABLES[table].names)
    connection.execute(f"INSERT INTO {table} SELECT {names} FROM {table} WHERE rowid = ?", [rowid])
    assert not looked(store).holds, "twice"
    connection.execute(f"DELETE FROM {table} WHERE rowid = (SELECT max(rowid) FROM {table})")
    assert looked(store).holds
    connection.execute(f"DELETE FROM {table} WHERE rowid = ?", [rowid])
    assert not looked(store).holds, "gone"


def test_the_first_record_that_was_changed_is_named(store: DuckDBStore) -> None:
    store._database.write.execute("UPDATE cards SET text = 'something else' WHERE id IN ('b', 'x')")
    found = looked(store).tampered
    assert found is not None
    assert (found.number, found.kind, found.name) == (4, "card", "ada:b")
    assert found.why == "it is not what its hash says"


def test_whoever_hashes_a_changed_record_anew_is_found_by_the_roots(store: DuckDBStore) -> None:
    connection = store._database.write
    connection.execute("UPDATE events SET fingerprint = ? WHERE key = 'e2'", ["0" * 64])
    (one,) = [leaf for leaf in store.leaves(KEY, first=0, count=100) if leaf.name == "ada:e2"]
    connection.execute("UPDATE events SET leaf_hash = ? WHERE key = 'e2'", [leaf_hash(one.record)])
    found = looked(store).tampered
    assert found is not None
    assert (found.kind, found.name) == ("root", "1")


def test_roots_that_run_ahead_of_their_leaves_hide_nothing(store: DuckDBStore) -> None:
    """Whoever moves a root to a later size, hashes and all, would else have none of those after it checked."""
    connection = store._database.write
    names = ", ".join(TABLES["heads"].names)
    heads = rows(connection, f"SELECT rowid, {names} FROM heads ORDER BY seq")
    place = TABLES["heads"].names.index("frontier")
    rowid, *row = heads[1]
    row[place] = heads[-1][1 + place]
    row[-1] = columns_sha256(row[:-1])
    connection.execute("UPDATE heads SET frontier = ?, row_sha256 = ? WHERE rowid = ?", [row[place], row[-1], rowid])
    found = looked(store).tampered
    assert found is not None
    assert found.kind == "root"


def test_a_root_that_was_written_beside_the_leaves_is_not_one_that_the_run_had(store: DuckDBStore) -> None:
    """Whoever changes a record may hash it anew; a root that somebody has kept must tell, whatever rows are added."""
    kept = store.run(KEY).root
    engine, scope = engine_over(store), Scope(job_id=JOB, run_id=RUN, principal="ada", roles=frozenset())
    assert verify_integrity(engine, scope, Call(), expected_root=kept).holds
    connection, names = store._database.write, TABLES["heads"].names
    heads = [list(row) for row in rows(connection, f"SELECT {', '.join(names)} FROM heads ORDER BY seq")]
    seq, root, frontier = (names.index(name) for name in ("seq", "root", "frontier"))

    def verdict(forged: list[list[Any]]) -> bool:
        connection.execute("DELETE FROM heads")
        for row in forged:
            row[-1] = columns_sha256(row[:-1])
            connection.execute(f"INSERT INTO heads VALUES ({', '.join('?' * len(row))})", row)
        store._heads.forget()
        with contextlib.suppress(InvalidInput):
            return verify_integrity(engine, scope, Call(), expected_root=kept).holds
        return False

    def rechained(base: str) -> list[list[Any]]:
        """The heads of the record as it is, were `base` the root of a record of before there were trees."""
        chained, before = [], base
        for row in heads:
            grown, size = list(row), Frontier.of(row[frontier]).size
            if size:
                tree, revision = Frontier.of(row[frontier]), row[names.index("revision")]
                before = grown[root] = chained_root(before, revision, size, tree.root)
            else:
                grown[root] = base
            chained.append(grown)
        return chained

    other = rechained("1" * 64)
    assert not verdict(other)
    early, far = list(other[0]), list(other[0])
    early[seq], early[root] = -1, kept
    far[seq], far[root], far[frontier] = -1, kept, Frontier(1 << 40, (b"x" * 32,)).text
    assert not verdict([early, *other])
    assert not verdict([far, *other])
    assert not looked(store).holds, "no root is over more leaves than there are"
    assert not verdict(rechained(kept))
    assert verdict(heads)


def test_a_file_that_is_gone_or_changed_is_found(store: DuckDBStore, tmp_path: Path) -> None:
    (file,) = (path for path in tmp_path.rglob(sha(LARGE)) if path.is_file())
    file.chmod(0o600)
    file.write_bytes(LARGE[:-1] + b"!")
    found = looked(store).tampered
    assert found is not None
    assert (found.kind, found.name) == ("artifact", sha(LARGE))
    file.unlink()
    assert not looked(store).holds


def test_a_record_of_before_there_were_trees_is_given_one(store: DuckDBStore, tmp_path: Path) -> None:
    before = store.run(KEY)
    store.clear_run(open_run(store, "cleared"), reason="", now=NOW)
    store.close()
    old = tmp_path / "old" / "record.duckdb"
    old.parent.mkdir()
    with duckdb.connect(str(old)) as connection:
        for step in (*MIGRATIONS[0], *MIGRATIONS[1]):
            assert isinstance(step, str)
            connection.execute(step)
        connection.execute(f"ATTACH '{tmp_path / 'record.duckdb'}' AS newer (READ_ONLY)")
        for table, schema in TABLES.items():
            names = ", ".join(f'"{name}"' for name in schema.names if name not in ADDED[3].get(table, ()))
            connection.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM newer.{table} ORDER BY rowid")
        connection.execute("CREATE TABLE schema_versions (version BIGINT, applied_at BIGINT)")
        connection.execute("INSERT INTO schema_versions VALUES (1, 0), (2, 0)")
    shutil.copytree(tmp_path / "record.duckdb.blobs", old.parent / "record.duckdb.blobs")
    opened = DuckDBStore(old, free_bytes_floor=0)
    try:
        found = looked(opened)
        assert found.tampered is None
        assert (found.size, found.revision) == (before.frontier.size, before.revision)
        assert before.root in {at.root for at in opened.roots(KEY)}, "the old root is in the chain"
        opened.commit(batch(event("later", card("later"))))
        assert looked(opened).holds
    finally:
        opened.close()


def test_what_another_wrote_is_told_by_its_number_alone(store: DuckDBStore) -> None:
    """Invariant 7: the name of a card that one may not read would tell that it is there."""
    store._database.write.execute("UPDATE cards SET text = 'something else' WHERE id = 'a'")
    engine = engine_over(store)
    for principal, name in (("ada", "ada:a"), ("bob", "")):
        scope = Scope(job_id=JOB, run_id=RUN, principal=principal, roles=frozenset())
        found = verify_integrity(engine, scope, Call()).tampered
        assert found is not None
        assert (found.kind, found.number, found.name) == ("card", 1, name)
