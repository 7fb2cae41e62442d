"""The writer: grouping, failures of the database, and what a lone member of a group may not do to the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from mn_contract.errors import ContextError, DependencyUnavailable, IdempotencyConflict
from mn_engine.bootstrap import engine_over
from mn_engine.store.duckdb import DuckDBStore
from mn_engine.store.duckdb import writer as writer_module
from mn_engine.store.duckdb.staging import Staged
from mn_engine.store.duckdb.writer import Writer
from tests.storing import KEY, batch, bulk, card, event, everything, observe, open_run, sha


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    """A record with an open run."""
    opened = DuckDBStore(tmp_path / "record.duckdb", free_bytes_floor=0)
    open_run(opened)
    yield opened
    opened.close()


class Gate:
    """Holds the writer's thread, so that what comes meanwhile is one group."""

    def __init__(self, store: DuckDBStore) -> None:
        self._open = threading.Event()
        self._store = store
        self._reached = threading.Event()
        self._threads = [threading.Thread(target=lambda: store._writer.exclusively(self._hold))]
        self.outcomes: dict[str, Any] = {}

    def _hold(self) -> None:
        self._reached.set()
        assert self._open.wait(30)

    def __enter__(self) -> Gate:
        self._threads[0].start()
        assert self._reached.wait(30)
        return self

    def submit(self, name: str, call: Callable[[], Any]) -> None:
        """Queues a call; its answer or error goes to `outcomes`."""
        waiting = len(self._store._writer._waiting)

        def run() -> None:
            try:
                self.outcomes[name] = call()
            except Exception as error:
                self.outcomes[name] = error

        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()
        with self._store._writer._room_came:
            pass
        for _ in range(3000):
            if len(self._store._writer._waiting) > waiting:
                return
            threading.Event().wait(0.01)
        raise AssertionError("the call did not come to the queue")

    def __exit__(self, *_: object) -> None:
        self._open.set()
        for thread in self._threads:
            thread.join(60)


@pytest.fixture
def transactions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Heads staged by each transaction."""
    counted: list[int] = []
    insert = Writer._insert

    def counting(self: Writer, staged: Staged) -> None:
        counted.append(len(staged.rows.get("heads", ())))
        insert(self, staged)

    monkeypatch.setattr(Writer, "_insert", counting)
    return counted


def test_writes_that_wait_together_share_a_transaction(store: DuckDBStore, transactions: list[int]) -> None:
    with Gate(store) as gate:
        for number in range(10):
            gate.submit(str(number), lambda number=number: observe(store, f"e{number}"))  # type: ignore[misc]
    assert transactions == [10]
    assert sorted(gate.outcomes.values()) == list(range(1, 11))


def test_a_group_is_no_larger_than_its_limit(tmp_path: Path, transactions: list[int]) -> None:
    store = DuckDBStore(tmp_path / "record.duckdb", free_bytes_floor=0, group_max=3)
    open_run(store)
    transactions.clear()
    with Gate(store) as gate:
        for number in range(7):
            gate.submit(str(number), lambda number=number: observe(store, f"e{number}"))  # type: ignore[misc]
    assert transactions == [3, 3, 1]
    store.close()


def test_a_group_of_large_writes_is_split_by_bytes(
    store: DuckDBStore, transactions: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "GROUP_BYTES_MAX", 10_000)
    with Gate(store) as gate:
        for number in range(4):
            gate.submit(str(number), lambda number=number: observe(store, f"e{number}", text="x" * 4000))  # type: ignore[misc]
    assert transactions == [2, 2]


def test_a_member_that_is_refused_does_not_touch_the_others(store: DuckDBStore, transactions: list[int]) -> None:
    with Gate(store) as gate:
        gate.submit("a", lambda: observe(store, "a"))
        gate.submit("conflict", lambda: store.commit(batch(event("a", card("b"), content="other"))))
        gate.submit("clash", lambda: store.commit(batch(event("c", card("a", "other")))))
        gate.submit("broken", lambda: store.decide_invocation(KEY, "ada", "n", lambda known: (1 // 0,)))  # type: ignore[arg-type, return-value]
        gate.submit("replay", lambda: store.commit(batch(event("a", card("a")))).events[0].replayed)
        gate.submit("d", lambda: observe(store, "d"))
    assert transactions == [2]
    assert (gate.outcomes["a"], gate.outcomes["replay"], gate.outcomes["d"]) == (1, True, 2)
    assert isinstance(gate.outcomes["conflict"], IdempotencyConflict)
    assert isinstance(gate.outcomes["clash"], IdempotencyConflict)
    assert isinstance(gate.outcomes["broken"], ZeroDivisionError)


def failing(monkeypatch: pytest.MonkeyPatch, fails: Callable[[Staged], Exception | None], *, after: bool) -> None:
    """Has transactions fail, before or after they are durable."""
    insert = Writer._insert

    def broken(self: Writer, staged: Staged) -> None:
        error = fails(staged)
        if error is None or after:
            insert(self, staged)
        if error is not None:
            raise error

    monkeypatch.setattr(Writer, "_insert", broken)


def test_a_group_that_fails_is_tried_again_one_by_one(store: DuckDBStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(staged: Staged) -> Exception | None:
        bad = any("poison" in str(row) for row in staged.rows.get("events", ()))
        return duckdb.ConstraintException("no") if bad else None

    failing(monkeypatch, fails, after=False)
    with Gate(store) as gate:
        for name in ("a", "poison", "b"):
            gate.submit(name, lambda name=name: observe(store, name))  # type: ignore[misc]
    assert isinstance(gate.outcomes["poison"], DependencyUnavailable)
    assert {gate.outcomes["a"], gate.outcomes["b"]} == {1, 2}
    assert everything(store)["head"].revision == 2


def test_a_group_that_fails_after_it_is_durable_is_acknowledged(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The law of the port: a call that raises has written nothing."""
    once = iter([duckdb.FatalException("the commit succeeded, the checkpoint behind it failed")])
    failing(monkeypatch, lambda staged: next(once, None), after=True)
    assert observe(store, "a") == 1
    assert everything(store)["head"].revision == 1
    assert store.commit(batch(event("a", card("a")))).events[0].replayed
    assert observe(store, "b") == 2


def test_a_database_that_fails_for_good_is_a_typed_error_each_time(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, lambda staged: duckdb.IOException("no"), after=False)
    for _ in range(3):
        with pytest.raises(ContextError):
            observe(store, "a")
    monkeypatch.undo()
    assert observe(store, "a") == 1


def test_a_listener_that_fails_takes_no_acknowledgement_away(
    store: DuckDBStore, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("listener")

    store.listen(broken)
    assert observe(store, "a") == 1
    assert observe(store, "b") == 2
    store.close()
    assert any("a fault left 0 of 1" in record.message for record in caplog.records), "it is not swallowed either"


def test_closing_finishes_what_waits(store: DuckDBStore) -> None:
    with Gate(store) as gate:
        for number in range(5):
            gate.submit(str(number), lambda number=number: observe(store, f"e{number}"))  # type: ignore[misc]
        closing = threading.Thread(target=store.close)
        closing.start()
    closing.join(60)
    assert sorted(gate.outcomes.values()) == [1, 2, 3, 4, 5]


def test_a_full_queue_and_a_writer_that_does_not_come_are_typed_errors(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every wait is bounded; what was given up is not written later."""
    monkeypatch.setattr(writer_module, "_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(writer_module, "QUEUE_MAX", 2)
    gate = Gate(store)
    release, reached = gate._open, gate._reached
    holder = threading.Thread(target=lambda: _ignoring(lambda: store._writer.exclusively(gate._hold)))
    holder.start()
    assert reached.wait(30)
    for name in ("a", "b", "c"):
        with pytest.raises(DependencyUnavailable):
            observe(store, name)
    monkeypatch.undo()
    release.set()
    holder.join(60)
    assert observe(store, "d") == 1, "a, b and c were not written"


def _ignoring(call: Callable[[], Any]) -> None:
    try:
        call()
    except DependencyUnavailable:
        return


@pytest.mark.parametrize("known", [False, True])
def test_a_table_between_single_writes_of_one_group_is_read_in_its_place(
    store: DuckDBStore, tmp_path: Path, known: bool
) -> None:
    """Invariant 4: its rows lie behind theirs in the file, and what is read goes by ordinal all the same."""
    observe(store, "first")
    if known:
        store.index_columns(KEY, after=0, upto=1)
    with Gate(store) as gate:
        gate.submit("one", lambda: observe(store, "one"))
        gate.submit(
            "table",
            lambda: store.commit_table(
                KEY, owner="ada", key="t", fingerprint=sha(b"t"), cards=bulk(card("two"), card("three"))
            ),
        )
        gate.submit("four", lambda: observe(store, "four"))
    assert [gate.outcomes["one"], gate.outcomes["table"].revision, gate.outcomes["four"]] == [2, 3, 4]
    order = ["first", "one", "two", "three", "four"]
    engine = engine_over(store)
    for opened in (store, None):
        if opened is None:
            store.close()
            opened = DuckDBStore(store._path, free_bytes_floor=0)
            engine = engine_over(opened)
        for after in range(5):
            for upto in range(after, 5):
                ids = opened.index_columns(KEY, after=after, upto=upto).cards["id"].to_pylist()
                assert ids == [one for one in order if after < _revision(one) <= upto]
        index = engine.indexes.at_least(KEY, 4)
        assert [index.key(place).id for place in range(5)] == order
        if opened is not store:
            opened.close()


def _revision(card_id: str) -> int:
    return {"first": 1, "one": 2, "two": 3, "three": 3, "four": 4}[card_id]
