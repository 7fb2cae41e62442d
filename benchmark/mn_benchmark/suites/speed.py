"""Speed: recall and selection on one large record, beside tantivy's bare top-200 query on the same texts.

Masks are on: the record has several owners, hidden, superseded and opposing cards, and conversations (see grown).
Queries are questions and claims of the data sets: in `common-term` as they are asked, with the most frequent words of
any corpus, in `content-term` without their stop words. Both systems are given the same words; tantivy (en_stem) looks
stop words up, ours leaves them out as its analysis does. A round asks each query of both systems by turns; a ratio is
the median over the queries of ours by the median of tantivy's in the same round, and a row is the mean over the rounds.
Queries are timed in processor time of all threads, so that other programs on the machine move no ratio; writes, which
wait for the disk, by the clock.

- `ratio_to_tantivy`: view, rank, required and select with a budget of PACKET_BYTES. The cases `common-term` and
  `content-term` are the full default plan: the real embedder, and neighbours in conversations. `lexical common-term`
  and `lexical content-term` are words and labels alone. Decisions at one revision share a view, as in the engine;
  `unshared common-term` and `unshared content-term` are the full plan with a view of its own for each.
- `p50_ms`: the medians behind these, of both systems.
- `catch_up_ratio`: catching the index up after one new card, by that card's durable write to the DuckDB record, medians
  of a round by turns; `catch_up_longest_ms`: the longest, which is the first, as it makes room behind what was loaded.
- `index_bytes_per_card` without vectors, `index_bytes_per_card_with_vectors`.

Settings: `cards`, `queries` of a case, `rounds`.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from mn_benchmark.data import Data
from mn_benchmark.grown import READER, commit, one_card, questions, record, sentences, texts_of
from mn_benchmark.report import ALL, OURS, Sample
from mn_benchmark.suites.asked import Asked, whole_settings
from mn_benchmark.systems import Document
from mn_contract.errors import NotFound
from mn_engine.bootstrap import engine_over
from mn_engine.domain.packets import Budget, Decision, Shares
from mn_engine.recall.analysis import analyse_query
from mn_engine.recall.embedder import Embedder, NoEmbedder
from mn_engine.recall.index import NO_CARD
from mn_engine.recall.rank import rank
from mn_engine.recall.required import required
from mn_engine.recall.vectors import DIMENSIONS
from mn_engine.recall.view import Threads, View
from mn_engine.select.allocate import Selection, select
from mn_engine.service.engine import Engine
from mn_engine.store.duckdb import DuckDBStore

PACKET_BYTES: Final = 30_000
Plan = tuple[Callable[[], View], Embedder]
"""What is seen, and what makes vectors."""
_PEER: Final = "tantivy"
_HITS: Final = 200
_SETTINGS: Final = {"cards": 100_000, "queries": 50, "rounds": 5}
_WRITES: Final = 10
"""Cards that a round adds, one at a time."""


def run(asked: Asked) -> Iterator[Sample]:
    """The suite."""
    from mn_benchmark.peers import Tantivy

    settings = read_settings(asked.settings)
    cards, rounds = settings["cards"], settings["rounds"]
    some = sentences(asked.data)
    queries = _queries(asked.data, settings["queries"], asked.seed)
    if not some or not all(queries.values()):
        raise NotFound("the texts of hotpotqa, climate-fever and locomo hold no sentence, or nothing asks of them")
    asked.progress(f"speed: {_PEER} over {cards:,} cards")
    peer = Tantivy(Document(text=text, charged=text) for text in texts_of(some, cards, asked.seed))
    with tempfile.TemporaryDirectory(prefix="membrane-benchmark-") as folder:
        engine = engine_over(DuckDBStore(Path(folder) / "record.duckdb"))
        try:
            asked.progress(f"speed: recording {cards:,} cards")
            record(engine.store, texts_of(some, cards, asked.seed), cards, engine.embedder(), asked.seed)
            yield from _compared(engine, peer, queries, rounds, asked.progress)
            yield from _sizes(engine, cards)
            asked.progress(f"speed: {rounds * _WRITES} cards more, one at a time")
            yield from _catching_up(engine, some, rounds)
        finally:
            engine.close()


def read_settings(given: Mapping[str, Any]) -> dict[str, int]:
    """The suite's settings. Raises InvalidInput."""
    return whole_settings("speed", given, _SETTINGS)


def _queries(data: Data, count: int, seed: int) -> dict[str, list[str]]:
    """`count` queries a case: the same questions with all their words, and with those that are no stop words."""
    rng = random.Random(seed)
    known = questions(data)
    asked = rng.sample(known, min(count, len(known)))
    content = [" ".join(word for word in one.split() if analyse_query(word).terms) for one in asked]
    return {"common-term": asked, "content-term": content}


def _compared(
    engine: Engine, peer: Any, queries: Mapping[str, Sequence[str]], rounds: int, progress: Callable[[str], None]
) -> Iterator[Sample]:
    revision = engine.store.run(READER.run_key).revision
    index = engine.indexes.at_least(READER.run_key, revision)
    apart = _Apart(index, READER, revision)
    plans: dict[str, Plan] = {
        "": (lambda: engine.indexes.view(READER, revision), engine.embedder()),
        "lexical ": (lambda: apart, NoEmbedder()),
        "unshared ": (lambda: View(index, READER, revision), engine.embedder()),
    }
    for plan, (view, embedder) in plans.items():
        for case, asked in queries.items():
            progress(f"speed: {plan}{case}, {rounds} rounds of {len(asked)} queries")
            ours, theirs = _medians((view, embedder), peer, asked, rounds)
            ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
            name = f"{plan}{case}"
            yield Sample(case=name, system=OURS, metric="ratio_to_tantivy", values=ratios, unit="ratio")
            for system, seconds in ((OURS, ours), (_PEER, theirs)):
                yield Sample(
                    case=name, system=system, metric="p50_ms", values=[1000 * one for one in seconds], unit="ms"
                )


def _medians(plan: Plan, peer: Any, queries: Sequence[str], rounds: int) -> tuple[list[float], list[float]]:
    """A round's medians in seconds, of us and of the peer. A first round, which warms caches, is left out."""
    ours, theirs = [], []
    for _ in range(rounds + 1):
        one, other = [], []
        for query in queries:
            one.append(_timed(lambda: _selected(plan, query)))  # noqa: B023  (called at once)
            other.append(_timed(lambda: peer.hits(query, _HITS)))  # noqa: B023
        ours.append(statistics.median(one))
        theirs.append(statistics.median(other))
    return ours[1:], theirs[1:]


class _Apart(View):
    """A view in which no card hears another."""

    @cached_property
    def threads(self) -> Threads:
        none = np.zeros(0, np.int32)
        return Threads(slots=np.full(self.count, NO_CARD, np.int32), places=none, numbers=none)


def _selected(plan: Plan, focus: str) -> Selection:
    decision = Decision(focus=focus)
    opened, embedder = plan
    view = opened()
    return select(
        view,
        decision,
        rank(view, decision, embedder),
        required(view, decision),
        budget=Budget(bytes=PACKET_BYTES),
        shares=Shares(),
        cursor=None,
        rotation=None,
    )


def _catching_up(engine: Engine, some: Sequence[str], rounds: int) -> Iterator[Sample]:
    ratios, every = [], []
    for start in range(0, rounds * _WRITES, _WRITES):
        written, caught_up = [], []
        for number in range(start, start + _WRITES):
            added = one_card(number, some[number % len(some)], engine.embedder())
            started = time.perf_counter()
            revision = commit(engine.store, f"added-{number}", added)
            committed = time.perf_counter()
            engine.indexes.at_least(READER.run_key, revision)
            caught_up.append(time.perf_counter() - committed)
            written.append(committed - started)
        ratios.append(statistics.median(caught_up) / statistics.median(written))
        every += caught_up
    yield Sample(case=ALL, system=OURS, metric="catch_up_ratio", values=ratios, unit="ratio")
    yield Sample(case=ALL, system=OURS, metric="catch_up_longest_ms", values=[1000 * max(every)], unit="ms")


def _sizes(engine: Engine, cards: int) -> Iterator[Sample]:
    held = engine.indexes.nbytes
    for metric, size in (
        ("index_bytes_per_card", held - DIMENSIONS * cards),
        ("index_bytes_per_card_with_vectors", held),
    ):
        yield Sample(case=ALL, system=OURS, metric=metric, values=[size / cards], unit="bytes")


def _timed(work: Callable[[], object]) -> float:
    """Processor seconds."""
    started = time.process_time()
    work()
    return time.process_time() - started
