"""What the writer remembers of runs: exact about absence, bounded in size."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from mn_engine.domain.runs import Run
from mn_engine.store.duckdb import names as names_module
from mn_engine.store.duckdb.names import Hashes, NamesCache, RunNames

NUMBERS = st.integers(0, 2**64 - 1)


@given(st.sets(NUMBERS), st.lists(st.sets(NUMBERS), max_size=4), st.sets(NUMBERS))
def test_a_set_of_hashes_is_a_set(base: set[int], more: list[set[int]], asked: set[int]) -> None:
    held = Hashes(np.fromiter(base, np.uint64, len(base)))
    expected = set(base)
    for place, numbers in enumerate(more):
        if place % 2:
            held.add(numbers)
        else:
            held.add_array(np.fromiter(numbers, np.uint64, len(numbers)))
        expected |= numbers
    everyone = sorted(asked | expected)
    assert [number in held for number in everyone] == [number in expected for number in everyone]
    found = held.any_of(np.array(everyone, np.uint64))
    assert found.tolist() == [number in expected for number in everyone]


def test_a_long_tail_is_folded_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names_module, "_TAIL_MAX", 10)
    held = Hashes(np.empty(0, np.uint64))
    for number in range(100):
        held.add([number])
    assert all(number in held for number in range(100))
    assert 100 not in held
    assert len(held) == 100


def named(count: int) -> RunNames:
    """A run with so many names."""
    names = [Hashes(np.arange(number, dtype=np.uint64)) for number in (count, 0, 0)]
    return RunNames(
        head=Run(job_id="j", run_id="r", opened_at=0), events=names[0], cards=names[1], handles=names[2], run_calls=0
    )


def test_only_so_many_runs_are_kept_and_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names_module, "RUNS_MAX", 3)
    loaded: list[str] = []

    def load(key: str) -> RunNames:
        loaded.append(key)
        return named(1)

    cache = NamesCache(load)
    for key in "abcad":
        cache.of(key)
    assert list(cache.runs) == ["c", "a", "d"]
    assert loaded == ["a", "b", "c", "d"]


def test_only_so_many_names_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names_module, "NAMES_MAX", 100)
    cache = NamesCache(lambda key: named(60))
    for key in "abc":
        cache.of(key)
        assert list(cache.runs) == [key], "one run is always kept"
