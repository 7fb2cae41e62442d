"""Heads at hand: never older than what was committed, bounded in number."""

from __future__ import annotations

import pytest

from mn_engine.domain.runs import Run
from mn_engine.store.duckdb import heads as heads_module
from mn_engine.store.duckdb.heads import Heads

OLD, NEW = (Run(job_id="j", run_id="r", opened_at=0, revision=revision) for revision in (1, 2))


def unasked() -> Run:
    """For heads that must be at hand."""
    raise AssertionError("it was asked for")


def test_what_was_found_is_at_hand() -> None:
    heads = Heads()
    assert heads.get("r", lambda: OLD) == OLD
    assert heads.get("r", unasked) == OLD


def test_what_a_commit_made_wins_over_what_a_reader_found_meanwhile() -> None:
    heads = Heads()

    def find() -> Run:
        heads.commit({"r": NEW})
        return OLD

    assert heads.get("r", find) == NEW
    assert heads.get("r", unasked) == NEW


def test_what_a_reader_found_before_everything_was_forgotten_is_not_kept() -> None:
    heads = Heads()

    def find() -> Run:
        heads.forget()
        return OLD

    assert heads.get("r", find) == OLD
    assert heads.get("r", lambda: NEW) == NEW


def test_the_oldest_go_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads_module, "HEADS_MAX", 2)
    heads = Heads()
    for key in ("a", "b", "a", "c"):
        heads.commit({key: OLD})
    assert heads.get("a", unasked) == OLD
    assert heads.get("b", lambda: NEW) == NEW
