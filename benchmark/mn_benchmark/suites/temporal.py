"""Temporal: what the fact graph costs, beside floors and peers, and whether it tells what held. It needs no data.

Everything is made up from the seed (see temporal.made). A ratio is of figures that are measured by turns in the same
round, processor time of all threads, by the clock where writes wait for the disk; a row is the mean over the rounds, of
`batch_ratio` the median, because some rounds have a checkpoint more than others.

- `batch_ratio`: facts a second of `Facts.upsert_many` in batches of 4,096, on DuckDB, durable, by that of a raw Arrow
  insert of the very rows of `cards` which each batch made, each a durable transaction of its own. Analysis is taken
  aside: the processor time of every call of `analyse` and of the embedder's `embed` within these batches, in the
  calling thread, measured as they happen, is subtracted from the clock's. `with analysis` subtracts nothing.
  `facts_per_second` are the rates.
- `root_share`: of the processor time of these batches, what making and hashing leaves, the frontier and the root take.
- `writers_ratio`: `Facts.upsert` by 16 threads, a durable write each, by one-card events that are ready, committed by
  16 threads on the same store; `events` are one-card events over the same face as the upserts. `grown` are the same
  after `facts` facts. `writes_per_second` are the rates.
- `upsert_ratio`: an upsert in memory by canonical JSON of its card and SHA-256 of that; `batch` is a fact of a batch.
  `upsert_us` are the times, `upsert_stage_us` where they go, a function's own time each.
- `ratio_to_tantivy`: rank and select of a context by tantivy's bare top-200 on the same texts; `compile_ratio` is all
  of `CompileContext`, with loading, checking and counting. `p50_ms` are the medians behind these.
- `hops_ratio`: what two hops add to rank and select without; `hops_of_compile`, to all of a context without.
- `as_of_ratio`: a context as of a past time by one of now, on views that are there; `a time of its own` is a time that
  nobody has asked of by now; `unshared` both on views of their own, rank and select alone.
- `time_travel_ms`, `entity_ms`: see temporal.reads.
- `verify_ratio`: a look over the whole run by reading and hashing its rows; `verify_seconds` are the times.
- `proof_nodes`, `append_nodes`, `verify_proof_us` for trees of 100 leaves and more; `proof_to_log2` is the most nodes
  of a proof by ceil(log2 n), `append_to_log2` the most that an append hashes by the bits of n.
- `stale_suppressed`, `past_found`: of random histories, those of which nothing stale was told, and all that held was,
  on both axes of time, by a naive model; `contexts` are compiled ones.

Settings: `facts`, `histories`, `queries` of a case, `writes` of a round one by one, `rounds`, `leaves` of the largest
tree.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mn_benchmark.report import ALL, Sample
from mn_benchmark.suites.asked import Asked, whole_settings
from mn_benchmark.systems import Document
from mn_benchmark.temporal.histories import checked
from mn_benchmark.temporal.ingest import ingested
from mn_benchmark.temporal.made import Made
from mn_benchmark.temporal.open import OpenRecord
from mn_benchmark.temporal.proofs import proved
from mn_benchmark.temporal.reads import compared, verified
from mn_benchmark.temporal.writes import grouped, in_memory
from mn_contract.facts import fact_text
from mn_engine.bootstrap import RECORD_NAME
from mn_engine.store.duckdb import DuckDBStore

_SETTINGS: Final = {
    "facts": 100_000,
    "histories": 10_000,
    "queries": 50,
    "writes": 400,
    "rounds": 5,
    "leaves": 1_000_000,
}


def run(asked: Asked) -> Iterator[Sample]:
    """The suite."""
    from mn_benchmark.peers import Tantivy

    settings = read_settings(asked.settings)
    seed, rounds, progress = asked.seed, settings["rounds"], asked.progress
    yield from proved(settings["leaves"], seed, progress)
    yield from checked(settings["histories"], seed, progress)
    made, more = Made(settings["facts"], seed), Made(settings["writes"], seed + 1).facts
    progress(f"temporal: {rounds} rounds of {len(more)} upserts in memory")
    yield from in_memory(more, rounds)
    with tempfile.TemporaryDirectory(prefix="membrane-benchmark-") as folder:
        record = Path(folder) / RECORD_NAME
        yield from ingested(record, made.facts, rounds, progress)
        progress(f"temporal: tantivy over {len(made.facts):,} facts")
        names = ("subject", "predicate", "object", "qualifier")
        texts = (fact_text(*(fact[name] for name in names)) for fact in made.facts)
        peer = Tantivy(Document(text=text, charged=text) for text in texts)
        with OpenRecord(DuckDBStore(record)) as opened:
            yield from compared(opened, peer, made, settings, seed, progress)
        yield from verified(record, rounds, progress)
        for case, file in ((ALL, record.with_name("new.duckdb")), ("grown", record)):
            progress(f"temporal: {rounds} rounds of {len(more)} durable upserts by threads, {case}")
            yield from grouped(file, more, rounds, case)


def read_settings(given: Mapping[str, Any]) -> dict[str, int]:
    """The suite's settings. Raises InvalidInput."""
    return whole_settings("temporal", given, _SETTINGS)
