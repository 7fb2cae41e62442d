"""Durable batches of facts, beside a raw Arrow insert of the same rows; and what of them the tree takes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

from mn_benchmark.report import ALL, OURS, Sample
from mn_benchmark.temporal.made import Said, batches
from mn_benchmark.temporal.open import OTHER, READER, SCOPE, OpenRecord
from mn_benchmark.temporal.stages import HASHING, Stages, analysing
from mn_contract.limits import BATCH_CARDS_MAX, ORDINAL_PLACE_BITS
from mn_engine.store.duckdb import DuckDBStore

_ROWS: Final = f"SELECT * FROM cards WHERE run_key = ? AND ordinal >> {ORDINAL_PLACE_BITS} = ?"
_WARM: Final = {"subject": "nobody", "predicate": "said", "object": "this", "valid_from": "2004-01-01T00:00:00Z"}


def ingested(record: Path, facts: list[Said], rounds: int, progress: Callable[[str], None]) -> Iterator[Sample]:
    """Records all facts at `record`, a part of their batches in each round, and the same rows raw beside it.

    After each part the record is closed, the rows of `cards` that it made are read, and inserted into a file of
    DuckDB's own as Arrow, each batch in a transaction of its own; ours and raw are timed by the clock, because both
    wait for the disk. Before each part a fact is recorded that is not measured, for what a writer loads first.
    """
    every = list(batches(facts, BATCH_CARDS_MAX))
    names = ("upsert_many", "analysis aside", "raw insert")
    rates: dict[str, list[float]] = {name: [] for name in names}
    shares: list[float] = []
    raw = duckdb.connect(str(record.with_name("raw.duckdb")), config={"threads": 2})
    done = 0
    for number, part in enumerate(_parts(every, rounds), start=1):
        count = sum(len(batch) for batch in part)
        progress(f"temporal: facts {done + 1:,}-{done + count:,} of {len(facts):,}, and their rows raw")
        done += count
        told = _recorded(record, part, number)
        seconds = _inserted(raw, record, told.revisions)
        for name, spent in zip(names, (told.clock, told.clock - told.analysis, seconds), strict=True):
            rates[name].append(count / spent)
        shares.append(told.hashing / told.processor)
    raw.close()
    for case, ours in ((ALL, "analysis aside"), ("with analysis", "upsert_many")):
        ratios = [one / other for one, other in zip(rates[ours], rates["raw insert"], strict=True)]
        yield Sample(case=case, system=OURS, metric="batch_ratio", values=ratios, unit="ratio", statistic="p50")
    for case, values in rates.items():
        yield Sample(case=case, system=OURS, metric="facts_per_second", values=values, unit="1/s")
    yield Sample(case=ALL, system=OURS, metric="root_share", values=shares)


class _Told:
    """What a part took, in seconds: by the clock; processor time of all threads, and of it analysis and hashing."""

    def __init__(self) -> None:
        self.clock = self.processor = self.analysis = self.hashing = 0.0
        self.revisions: list[int] = []


def _recorded(record: Path, part: list[Sequence[Said]], number: int) -> _Told:
    told = _Told()
    with OpenRecord(DuckDBStore(record)) as opened:
        writers = itertools.cycle([opened.facts(READER), opened.facts(OTHER)])
        for principal in (READER, OTHER):
            opened.facts(principal).upsert_many([_WARM], key=f"warm-{number}")
        with Stages({"analysis": analysing(opened.engine.embedder()), "hashing": HASHING}) as stages:
            for batch in part:
                clock, processor = time.perf_counter(), time.process_time()
                next(writers).upsert_many(batch)
                told.processor += time.process_time() - processor
                told.clock += time.perf_counter() - clock
                told.revisions.append(opened.revision)
    told.analysis, told.hashing = stages.seconds["analysis"], stages.seconds["hashing"]
    return told


def _inserted(raw: duckdb.DuckDBPyConnection, record: Path, revisions: list[int]) -> float:
    """Seconds to insert the rows of these revisions, each in a durable transaction."""
    seconds = 0.0
    with duckdb.connect(str(record), read_only=True) as connection:
        for revision in revisions:
            rows: Any = connection.sql(_ROWS, params=[SCOPE.run_key, revision]).to_arrow_table()
            raw.register("rows", rows)
            raw.execute("CREATE TABLE IF NOT EXISTS cards AS SELECT * FROM rows LIMIT 0")
            raw.unregister("rows")
            started = time.perf_counter()
            raw.from_arrow(rows).insert_into("cards")
            seconds += time.perf_counter() - started
    return seconds


def _parts(every: list[Sequence[Said]], rounds: int) -> Iterator[list[Sequence[Said]]]:
    """The batches in at most `rounds` parts of about the same size."""
    count = min(rounds, len(every))
    ends = [len(every) * number // count for number in range(count + 1)]
    for start, end in itertools.pairwise(ends):
        yield every[start:end]
