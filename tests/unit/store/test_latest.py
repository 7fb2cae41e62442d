"""What is kept of the newest commits: only what joins up, of one run, and within bounds."""

from __future__ import annotations

from mn_engine.domain.cards import ordinal_of
from mn_engine.domain.runs import Removal, Run, RunState, Tombstone
from mn_engine.store.columns import card_meta, index_row
from mn_engine.store.duckdb.latest import ROWS_MAX, RUNS_MAX, Latest
from mn_engine.store.duckdb.schema import CARDS
from mn_engine.store.duckdb.staging import Staged
from mn_engine.store.port import INDEX_CARDS
from tests.storing import card, sha


def committed(*revisions: tuple[str, int], cards: int = 1) -> Staged:
    """A group that made these revisions of these runs."""
    staged = Staged()
    for run, revision in revisions:
        staged.heads[run] = Run(job_id="job", run_id=run, opened_at=0, revision=revision)
        staged.insert("events", (run, revision))
        for place in range(cards):
            prepared = card(f"{run}.{revision}.{place}")
            ordinal = ordinal_of(revision, place)
            row = dict(zip(INDEX_CARDS.names, index_row(ordinal, prepared), strict=True))
            row |= {"run_key": run, "text": prepared.card.text, "meta": card_meta(prepared.card)}
            row |= {"leaf": 0, "leaf_hash": b""}
            staged.insert("cards", tuple(row[name] for name in CARDS.names))
    return staged


def ids(latest: Latest, run: str, after: int, upto: int) -> list[str] | None:
    """The cards of these revisions; None where they are not all kept."""
    columns = latest.columns(run, after=after, upto=upto)
    return None if columns is None else columns.cards["id"].to_pylist()


def test_runs_that_share_a_group_are_kept_apart() -> None:
    latest = Latest()
    latest.take(committed(("one", 1), ("two", 1), ("one", 2)))
    assert ids(latest, "one", 0, 2) == ["one.1.0", "one.2.0"]
    assert ids(latest, "one", 1, 2) == ["one.2.0"]
    assert ids(latest, "two", 0, 1) == ["two.1.0"]


def test_what_lies_before_a_gap_or_was_not_seen_is_not_answered() -> None:
    """A group can be durable although nobody was told so."""
    latest = Latest()
    latest.take(committed(("one", 1)))
    latest.take(committed(("one", 3)))
    assert ids(latest, "one", 0, 3) is None
    assert ids(latest, "one", 2, 3) == ["one.3.0"]
    assert ids(latest, "one", 2, 4) is None
    assert ids(latest, "two", 0, 0) is None


def test_what_is_kept_is_bounded() -> None:
    latest = Latest()
    for revision in range(1, 10):
        latest.take(committed(("one", revision), cards=ROWS_MAX // 4))
    assert ids(latest, "one", 4, 9) is None
    assert len(ids(latest, "one", 5, 9) or ()) == ROWS_MAX
    latest.take(committed(("one", 10), cards=ROWS_MAX + 1))
    assert ids(latest, "one", 9, 10) is None
    for number in range(RUNS_MAX):
        latest.take(committed((f"r{number}", 1)))
    latest.take(committed(("last", 1)))
    assert ids(latest, "r0", 0, 1) is None
    assert ids(latest, "r1", 0, 1) == ["r1.1.0"]


def test_of_a_cleared_run_nothing_is_kept() -> None:
    latest = Latest()
    latest.take(committed(("one", 1)))
    stone = Tombstone(revision=1, root=sha(b""), cleared_at=0, removal=Removal.LOGICAL)
    staged = Staged()
    staged.heads["one"] = Run(
        job_id="job", run_id="one", opened_at=0, state=RunState.CLEARED, revision=1, reason="done", tombstone=stone
    )
    latest.take(staged)
    assert ids(latest, "one", 0, 1) is None
