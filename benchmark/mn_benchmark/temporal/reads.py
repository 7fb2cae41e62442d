"""Asking a large graph: contexts beside tantivy's bare query, what two hops and a past time add, time travel, entities,
and a look over the whole run beside reading and hashing its bytes."""

from __future__ import annotations

import hashlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb
import numpy as np

from mn_benchmark.report import ALL, OURS, Sample
from mn_benchmark.temporal.made import Made, Question
from mn_benchmark.temporal.open import SCOPE, OpenRecord
from mn_contract.limits import DIVERSITY_WINDOW, FACTS_WEIGHED_MAX
from mn_engine.domain.packets import Decision
from mn_engine.domain.times import parse_rfc3339
from mn_engine.recall.analysis import analyse_query
from mn_engine.recall.rank import rank
from mn_engine.recall.view import View
from mn_engine.select.order import Order
from mn_engine.store.duckdb import DuckDBStore

_PEER: Final = "tantivy"
_HITS: Final = 200
_TOKENS: Final = 1000
_HOPS: Final = 2
_ASKED_MAX: Final = 10
"""Questions of a round of what each makes a view of its own."""
_TABLES: Final = ("artifacts", "cards", "endings", "events")
"""Those whose rows are leaves."""

_Name = TypeVar("_Name", str, tuple[str, str])
Way = Callable[[int], object]
"""Asks the question of a number."""


def compared(
    opened: OpenRecord, peer: Any, made: Made, settings: Mapping[str, int], seed: int, progress: Callable[[str], None]
) -> Iterator[Sample]:
    """Contexts of _TOKENS tokens; processor time of all threads, a median over the questions for each round, all ways
    of a case by turns. `common-term` is questions as they are asked, `content-term` the same without stop words."""
    count, rounds = settings["queries"], settings["rounds"]
    asked = made.questions(count, seed)
    content = [" ".join(word for word in one.text.split() if analyse_query(word).terms) for one in asked]
    for case, questions in (("common-term", [one.text for one in asked]), ("content-term", content)):
        progress(f"temporal: contexts, {case}, {rounds} rounds of {count} questions")
        yield from _contexts(opened, peer, questions, made.times(1, seed)[0], case, rounds)
    progress(f"temporal: contexts as of a time of their own, {rounds} rounds")
    some = asked[:_ASKED_MAX]
    yield from _own_times(opened, some, made.times(2 * len(some) * (rounds + 1), seed + 1), rounds)
    progress(f"temporal: time travel and entities, {rounds} rounds")
    yield from _travelled(opened, some, made.times(3 * len(some) * (rounds + 1), seed + 2), rounds)


def _contexts(
    opened: OpenRecord, peer: Any, questions: Sequence[str], past: str, case: str, rounds: int
) -> Iterator[Sample]:
    facts, engine = opened.facts(), opened.engine
    view = engine.indexes.view(SCOPE, opened.revision, engine.clock())
    ways: dict[str, Way] = {
        _PEER: lambda number: peer.hits(questions[number], _HITS),
        "compile": lambda number: facts.compile(questions[number], max_tokens=_TOKENS),
        "as of": lambda number: facts.compile(questions[number], max_tokens=_TOKENS, as_of=past),
        "select": lambda number: _selected(opened, view, questions[number], _HOPS),
        "no hops": lambda number: _selected(opened, view, questions[number], 0),
    }
    found = {name: np.asarray(values) for name, values in _medians(ways, len(questions), rounds).items()}
    added = found["select"] - found["no hops"]
    for metric, ratios in {
        "ratio_to_tantivy": found["select"] / found[_PEER],
        "compile_ratio": found["compile"] / found[_PEER],
        "hops_ratio": added / found["no hops"],
        "hops_of_compile": added / (found["compile"] - added),
        "as_of_ratio": found["as of"] / found["compile"],
    }.items():
        yield Sample(case=case, system=OURS, metric=metric, values=ratios.tolist(), unit="ratio")
    for name, seconds in found.items():
        system = name if name == _PEER else OURS
        told = case if name == _PEER else f"{case} {name}"
        yield Sample(case=told, system=system, metric="p50_ms", values=(1000 * seconds).tolist(), unit="ms")


def _selected(opened: OpenRecord, view: View, focus: str, hops: int) -> list[int]:
    """Rank and select of a context: the order of all facts that it is chosen from."""
    ranking = rank(view, Decision(focus=focus), opened.engine.embedder(), preferences=False, hops=hops)
    ordered = ranking.ordered(FACTS_WEIGHED_MAX)
    count = min(len(ordered.scores), FACTS_WEIGHED_MAX)
    places = ordered.places[:count].astype(np.int64)
    order = Order(view, places, ordered.scores[:count], view.item_tokens[places].astype(np.int64))
    return [one for window in range(-(-count // DIVERSITY_WINDOW)) for one in order.window(window)]


def _own_times(opened: OpenRecord, asked: Sequence[Question], times: Sequence[str], rounds: int) -> Iterator[Sample]:
    """As of a time that nobody has asked of, which makes a view of its own: contexts beside those of now, whose view is
    shared; and, `unshared`, rank and select beside those of now on a new view."""
    facts, engine, ahead = opened.facts(), opened.engine, iter(times)
    index, revision, now = engine.indexes.at_least(SCOPE.run_key, opened.revision), opened.revision, engine.clock()

    def selected(number: int, time_: int) -> object:
        return _selected(opened, View(index, SCOPE, revision, index.settled(time_)), asked[number].text, _HOPS)

    ways: dict[str, Way] = {
        "now": lambda number: facts.compile(asked[number].text, max_tokens=_TOKENS),
        "as of": lambda number: facts.compile(asked[number].text, max_tokens=_TOKENS, as_of=next(ahead)),
        "unshared now": lambda number: selected(number, now),
        "unshared as of": lambda number: selected(number, parse_rfc3339(next(ahead), "as_of")),
    }
    found = _medians(ways, len(asked), rounds)
    for case, prefix in (("a time of its own", ""), ("unshared", "unshared ")):
        pairs = zip(found[f"{prefix}as of"], found[f"{prefix}now"], strict=True)
        yield Sample(case=case, system=OURS, metric="as_of_ratio", values=[one / by for one, by in pairs], unit="ratio")
    for name in ("as of", "unshared now", "unshared as of"):
        case = "a time of its own" if name == "as of" else name
        yield Sample(case=case, system=OURS, metric="p50_ms", values=[1000 * one for one in found[name]], unit="ms")


def _travelled(opened: OpenRecord, asked: Sequence[Question], times: Sequence[str], rounds: int) -> Iterator[Sample]:
    """Time travel to a time that nobody has asked of: to what held of one place (`all`), to that as it was known half
    of the run's revisions ago, and to all that held, of which a page is told; and entities, now, over one hop and two.
    """
    facts, ahead, half = opened.facts(), iter(times), max(opened.revision // 2, 1)

    def place(number: int) -> dict[str, str]:
        return {"subject": asked[number].subject, "predicate": asked[number].predicate}

    ways: dict[tuple[str, str], Way] = {
        ("time_travel_ms", ALL): lambda number: facts.time_travel(next(ahead), **place(number)),
        ("time_travel_ms", "known then"): lambda number: facts.time_travel(
            next(ahead), recorded_as_of=half, **place(number)
        ),
        ("time_travel_ms", "everything"): lambda _: facts.time_travel(next(ahead)),
        ("entity_ms", ALL): lambda number: facts.entity(asked[number].subject),
        ("entity_ms", "2 hops"): lambda number: facts.entity(asked[number].subject, hops=2),
    }
    for (metric, case), seconds in _medians(ways, len(asked), rounds).items():
        yield Sample(case=case, system=OURS, metric=metric, values=[1000 * one for one in seconds], unit="ms")


def verified(record: Path, rounds: int, progress: Callable[[str], None]) -> Iterator[Sample]:
    """A look over the whole run (`verify`) by reading all columns of the rows that are leaves, as Arrow, from a copy of
    the record, and SHA-256 over their buffers; by turns, processor time of all threads."""
    ratios, ours, floors = [], [], []
    with tempfile.TemporaryDirectory(prefix="membrane-benchmark-") as folder:
        copied = shutil.copy(record, folder)  # closed, so that it has no log
        with OpenRecord(DuckDBStore(record)) as opened:
            for number in range(1, rounds + 1):
                progress(f"temporal: a look over the whole run, round {number} of {rounds}")
                floors.append(_timed(lambda: _read_and_hashed(Path(copied))))
                ours.append(_timed(lambda: _looked_over(opened)))
                ratios.append(ours[-1] / floors[-1])
    yield Sample(case=ALL, system=OURS, metric="verify_ratio", values=ratios, unit="ratio")
    yield Sample(case=ALL, system=OURS, metric="verify_seconds", values=ours, unit="s")
    yield Sample(case="floor", system=OURS, metric="verify_seconds", values=floors, unit="s")


def _looked_over(opened: OpenRecord) -> None:
    told = opened.facts().verify()
    assert told["holds"], told


def _read_and_hashed(record: Path) -> str:
    running = hashlib.sha256()
    with duckdb.connect(str(record), read_only=True, config={"threads": 2}) as connection:
        for name in _TABLES:
            for batch in connection.sql(f"SELECT * FROM {name}").to_arrow_table().to_batches():
                for column in batch.columns:
                    for buffer in column.buffers():
                        if buffer is not None:
                            running.update(buffer)
    return running.hexdigest()


def _medians(ways: Mapping[_Name, Way], count: int, rounds: int) -> dict[_Name, list[float]]:
    """A round's medians in processor seconds, of each way. A first round, which warms caches, is left out."""
    found: dict[_Name, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        spent: dict[_Name, list[float]] = {name: [] for name in ways}
        for number in range(count):
            for name, ask in ways.items():
                spent[name].append(_timed(lambda: ask(number)))  # noqa: B023  (called at once)
        for name, seconds in spent.items():
            if turn:
                found[name].append(statistics.median(seconds))
    return found


def _timed(work: Callable[[], object]) -> float:
    """Processor seconds of all threads."""
    started = time.process_time()
    work()
    return time.process_time() - started
