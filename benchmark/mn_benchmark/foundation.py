"""`make bench`: the foundation's figures, each beside a floor or a peer measured in the same run.

A figure is a ratio, so that it means the same on a fast machine and on a slow one. Exit code 1 says that one missed its
target.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import snowballstemmer

from mn.context.working.v1 import packet_pb2, run_pb2
from mn_benchmark.managed import ManagedCalls
from mn_contract.addresses import read_replicas
from mn_engine.bootstrap import RECORD_NAME, engine_over
from mn_engine.domain.access import OPEN
from mn_engine.domain.artifacts import Artifact
from mn_engine.domain.cards import Card, Kind, SourceRange
from mn_engine.domain.events import Batch, PreparedArtifact, PreparedCard, PreparedEvent
from mn_engine.domain.packets import Budget, Decision, PacketRequest
from mn_engine.domain.requests import TEXT_MEDIA_TYPE
from mn_engine.domain.scope import Scope
from mn_engine.faces.embedded import EmbeddedFace
from mn_engine.faces.gate import Gate
from mn_engine.faces.grpc import GrpcServer
from mn_engine.recall.analysis import analyse
from mn_engine.recall.vectors import DIMENSIONS
from mn_engine.service.compile import compile_packet
from mn_engine.service.engine import Call, Engine
from mn_engine.store.columns import arrow, bulk_row
from mn_engine.store.duckdb import DuckDBStore
from mn_engine.store.port import BULK_CARDS, INDEX_CARDS
from mn_sdk.demo.material import read, standard_library
from mn_sdk.scope import SessionScope
from mn_sdk.transport.grpc import GrpcTransport

SCOPE: Final = Scope(job_id="bench", run_id="run", principal="bench")
_FOCUS: Final = "word12 word345 word678 word9"
_WORDS: Final = 20_000
_TEXT_WORDS: Final = 60
_PIECE_CHARS: Final = 700


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured ratio. `target` is the bound it must keep; `at_least` says on which side."""

    name: str
    value: float
    target: float
    at_least: bool
    n: int
    told: str

    @property
    def holds(self) -> bool:
        """Whether it keeps its bound."""
        return self.value >= self.target if self.at_least else self.value <= self.target


def main() -> int:
    """Measures everything, or what is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"what to measure: {', '.join(SUITE)}; everything by default")
    parser.add_argument("--cards", type=int, default=100_000, help="cards of the bulk and reopening figures")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--output", type=Path, help="write the figures there as JSON")
    options = parser.parse_args()
    unknown = set(options.names) - set(SUITE)
    if unknown:
        parser.error(f"there is no figure {', '.join(sorted(unknown))}")
    figures = []
    for name in options.names or SUITE:
        print(f"measuring {name}", flush=True)
        for figure in SUITE[name](random.Random(options.seed), options.cards):
            figures.append(figure)
            sign = ">=" if figure.at_least else "<="
            verdict = "holds" if figure.holds else "MISSED"
            print(
                f"  {figure.name}: {figure.value:.2f} ({sign} {figure.target:g}) {verdict}, n={figure.n}; {figure.told}"
            )
    if options.output is not None:
        options.output.write_text(json.dumps([{**asdict(f), "holds": f.holds} for f in figures], indent=1))
    return 0 if all(figure.holds for figure in figures) else 1


def group_commit(rng: random.Random, cards: int) -> Iterator[Figure]:
    """Durable single-card writes from 32 clients, beside the same store with a batch size of 1."""
    grouped = _writes_per_second(rng, writes=3200)
    single = _writes_per_second(rng, writes=640, group_max=1)
    yield Figure(
        name="32 writers, grouped / one a transaction",
        value=grouped / single,
        target=5,
        at_least=True,
        n=3200,
        told=f"{grouped:.0f}/s against {single:.0f}/s",
    )


def bulk(rng: random.Random, cards: int) -> Iterator[Figure]:
    """A table of cards as one event, beside a raw Arrow insert of the same bytes; and analysis beside a plain pass."""
    texts = [_text(rng) for _ in range(cards)]
    table = _bulk_table([_prepared(f"c{at}", text) for at, text in enumerate(texts)])
    raw, ours = [], []
    for _ in range(3):
        with _folder() as folder:
            raw.append(_raw_insert(folder / "raw.duckdb", table))
            store = DuckDBStore(folder / "record.duckdb")
            store.open_run(SCOPE.job_id, SCOPE.run_id, max_stored_bytes=None, now=0)
            ours.append(_timed(lambda: _commit_table(store, table))[1])  # noqa: B023  (called before the next round)
            store.close()
    yield Figure(
        name="bulk rate / raw Arrow insert",
        value=min(raw) / min(ours),
        target=0.5,
        at_least=True,
        n=cards,
        told=f"{cards / min(ours):,.0f} cards/s against {cards / min(raw):,.0f} ({table.nbytes / 1e6:.0f} MB), best",
    )
    some = _real_texts(20_000)
    plain = _timed(lambda: _plain_analysis(some))[1]
    cards_to_analyse = [_card(f"c{at}", text) for at, text in enumerate(some)]
    analysed = _timed(lambda: [analyse(card) for card in cards_to_analyse])[1]
    yield Figure(
        name="analysis / regex, lower-case and (cached) stem",
        value=analysed / plain,
        target=3,
        at_least=False,
        n=len(some),
        told=f"{analysed:.2f} s against {plain:.2f} s over pieces of the standard library",
    )


def compile_over_grpc(rng: random.Random, cards: int) -> Iterator[Figure]:
    """The p50 of a compile over gRPC on 10,000 cards, beside the same call in process and empty unary calls.

    In process means what an embedded session does: the same request to the same operation, without the socket.
    """
    with _folder() as folder:
        engine = engine_over(DuckDBStore(folder / "record.duckdb"))
        _fill(engine, rng, 10_000)
        server = GrpcServer("127.0.0.1:0", Gate())
        server.start()
        server.serve(engine)
        replicas = read_replicas(f"127.0.0.1:{server.port}", "address")
        scope = SessionScope(job_id="bench", run_id="run", principal="bench")
        transport, face, headers = GrpcTransport(replicas, scope), EmbeddedFace(engine), scope.headers()
        request = packet_pb2.CompileRequest(decision=packet_pb2.Decision(focus=_FOCUS), budget_bytes=30_000)
        turns: dict[str, Callable[[], Any]] = {
            "use case": lambda: _compile(engine),
            "inside": lambda: face.call("Compile", headers, request),
            "wire": lambda: transport.call("Compile", request),
            "empty": lambda: transport.call("GetRun", run_pb2.GetRunRequest()),
        }
        p50 = _interleaved_p50(turns, rounds=200)
        transport.close()
        server.stop(5)
        engine.close()
    bound = p50["inside"] + 2 * p50["empty"]
    yield Figure(
        name="compile over gRPC / (in process + 2 empty unary calls)",
        value=p50["wire"] / bound,
        target=1,
        at_least=False,
        n=200,
        told=f"p50 {p50['wire'] * 1e3:.2f} ms against {p50['inside'] * 1e3:.2f} + 2 x {p50['empty'] * 1e3:.2f} ms; "
        f"the use case alone {p50['use case'] * 1e3:.2f} ms",
    )


def managed_call(rng: random.Random, cards: int) -> Iterator[Figure]:
    """What a managed call of an embedded session costs more than a bare one of litellm's, on 10,000 cards, beside what
    it cannot do without: a compile, eight durable appends, and one pass of the tokenizer over the request."""
    with _folder() as folder:
        root = folder / "run"
        root.mkdir()
        engine = engine_over(DuckDBStore(root / RECORD_NAME))
        _fill(engine, rng, 10_000)
        engine.close()
        calls = ManagedCalls(root, SCOPE, _FOCUS)
        try:
            p50 = _interleaved_p50(calls.turns(), rounds=40)
            told = calls.breakdown(rounds=20)
        finally:
            calls.close()
    overhead = p50["managed"] - p50["bare"]
    floor = p50["compile"] + p50["appends"] + p50["tokenizer"]
    yield Figure(
        name="overhead of a managed call / (compile + 8 appends + tokenizer)",
        value=overhead / floor,
        target=1.5,
        at_least=False,
        n=40,
        told=f"p50 {p50['managed'] * 1e3:.1f} - {p50['bare'] * 1e3:.1f} ms bare against {p50['compile'] * 1e3:.1f} + "
        f"{p50['appends'] * 1e3:.1f} + {p50['tokenizer'] * 1e3:.1f} ms; its milliseconds: {told}",
    )


def reopening(rng: random.Random, cards: int) -> Iterator[Figure]:
    """Reopening a record to its first compile, beside reading the same columns as Arrow; and the index's memory."""
    with _folder() as folder:
        path = folder / "record.duckdb"
        engine = engine_over(DuckDBStore(path))
        _fill(engine, rng, cards)
        engine.close()
        first, columns = [], []
        held = vectors = 0
        for _ in range(3):
            started = time.perf_counter()
            engine = engine_over(DuckDBStore(path))
            _compile(engine)
            first.append(time.perf_counter() - started)
            held = engine.indexes.nbytes
            vectors = DIMENSIONS * cards
            engine.close()
            columns.append(_read_columns(path))
    yield Figure(
        name="reopen to first compile / reading the columns",
        value=min(first) / min(columns),
        target=4,
        at_least=False,
        n=cards,
        told=f"{min(first):.2f} s against {min(columns):.2f} s, best of 3",
    )
    yield Figure(
        name="index bytes a card, vectors aside",
        value=(held - vectors) / cards,
        target=450,
        at_least=False,
        n=cards,
        told=f"{_TEXT_WORDS} words a card, {held / 1e6:.0f} MB in all",
    )


def imports(rng: random.Random, cards: int) -> Iterator[Figure]:
    """Importing the session beside grpc and protobuf alone; the command's help beside that import."""
    scripts = {
        "floor": ["-c", "import grpc, google.protobuf.message, google.protobuf.timestamp_pb2"],
        "session": ["-c", "import mn_sdk.context_session"],
        "help": ["-m", "mn_engine.cli", "--help"],
    }
    seconds: dict[str, list[float]] = {name: [] for name in scripts}
    for _ in range(15):
        for name, script in scripts.items():
            call = [sys.executable, *script]
            seconds[name].append(_timed(lambda: subprocess.run(call, check=True, capture_output=True))[1])  # noqa: B023
    best = {name: statistics.median(values) for name, values in seconds.items()}
    told = ", ".join(f"{name} {value * 1e3:.0f} ms" for name, value in best.items())
    yield Figure(
        name="import mn_sdk.context_session / grpc and protobuf",
        value=best["session"] / best["floor"],
        target=1.5,
        at_least=False,
        n=15,
        told=told,
    )
    yield Figure(
        name="mn-context-engine --help / that import",
        value=best["help"] / best["session"],
        target=3,
        at_least=False,
        n=15,
        told=told,
    )


SUITE: Final[dict[str, Callable[[random.Random, int], Iterator[Figure]]]] = {
    "group_commit": group_commit,
    "bulk": bulk,
    "compile_over_grpc": compile_over_grpc,
    "managed_call": managed_call,
    "reopening": reopening,
    "imports": imports,
}


def _writes_per_second(rng: random.Random, *, writes: int, **options: Any) -> float:
    events = iter([_event(f"w{at}", _text(rng)) for at in range(writes)])
    lock = threading.Lock()
    with _folder() as folder:
        store = DuckDBStore(folder / "record.duckdb", **options)
        store.open_run(SCOPE.job_id, SCOPE.run_id, max_stored_bytes=None, now=0)

        def work() -> None:
            while True:
                with lock:
                    event = next(events, None)
                if event is None:
                    return
                store.commit(Batch(run_key=SCOPE.run_key, events=(event,)))

        threads = [threading.Thread(target=work) for _ in range(32)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - started
        store.close()
    return writes / seconds


def _fill(engine: Engine, rng: random.Random, cards: int) -> None:
    """`cards` cards over one artifact, so that their bodies can be checked."""
    texts = [_text(rng) for _ in range(cards)]
    engine.store.open_run(SCOPE.job_id, SCOPE.run_id, max_stored_bytes=None, now=0)
    upload = engine.store.upload(SCOPE.run_key)
    for text in texts:
        upload.write(text.encode())
    artifact = upload.finish(media_type=TEXT_MEDIA_TYPE, owner=SCOPE.principal, acl=OPEN, expected_sha256="")
    prepared, start = [], 0
    for at, text in enumerate(texts):
        prepared.append(_prepared(f"c{at}", text, artifact.sha256, start))
        start += len(text)
    _commit_table(engine.store, _bulk_table(prepared))


def _compile(engine: Engine) -> None:
    packet = compile_packet(
        engine,
        SCOPE,
        Call(),
        request=PacketRequest(decision=Decision(focus=_FOCUS), budget=Budget(bytes=30_000)),
    )
    assert packet.items


def _interleaved_p50(turns: dict[str, Callable[[], Any]], *, rounds: int) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in turns}
    for at in range(rounds + 20):
        for name, turn in turns.items():
            spent = _timed(turn)[1]
            if at >= 20:
                seconds[name].append(spent)
    return {name: statistics.median(values) for name, values in seconds.items()}


def _read_columns(path: Path) -> float:
    """Seconds to open the file and read the index's columns as Arrow, by DuckDB alone."""
    started = time.perf_counter()
    connection = duckdb.connect(str(path), read_only=True, config={"threads": 2})
    connection.sql(f"SELECT {', '.join(INDEX_CARDS.names)} FROM cards").to_arrow_table()
    seconds = time.perf_counter() - started
    connection.close()
    return seconds


def _raw_insert(path: Path, table: pa.Table) -> float:
    connection = duckdb.connect(str(path), config={"threads": 2})
    connection.register("cards", table)
    connection.execute("CREATE TABLE raw AS SELECT * FROM cards LIMIT 0")
    seconds = _timed(lambda: connection.execute("INSERT INTO raw SELECT * FROM cards"))[1]
    connection.close()
    return seconds


def _commit_table(store: Any, table: pa.Table) -> None:
    store.commit_table(SCOPE.run_key, owner=SCOPE.principal, key="bulk", fingerprint="f" * 64, cards=table)


def _bulk_table(prepared: list[PreparedCard]) -> pa.Table:
    return arrow(BULK_CARDS, [bulk_row(card) for card in prepared])


def _prepared(card_id: str, text: str, artifact: str = "0" * 64, start: int = 0) -> PreparedCard:
    card = _card(card_id, text, artifact, start)
    return PreparedCard(card=card, analysis=analyse(card))


def _card(card_id: str, text: str, artifact: str = "0" * 64, start: int = 0) -> Card:
    data = text.encode()
    sha256 = hashlib.sha256(data).hexdigest()
    body = SourceRange(artifact=artifact, start=start, end=start + len(data), sha256=sha256)
    return Card(
        owner=SCOPE.principal, id=card_id, kind=Kind.OBSERVATION, text=text, body=body, sources=(body,), captured_at=0
    )


def _event(key: str, text: str) -> PreparedEvent:
    """As the engine makes it of a short record: a card and the artifact of its own text."""
    data = text.encode()
    sha256 = hashlib.sha256(data).hexdigest()
    handle = Artifact(sha256=sha256, size=len(data), media_type=TEXT_MEDIA_TYPE, owner=SCOPE.principal)
    return PreparedEvent(
        owner=SCOPE.principal,
        key=key,
        fingerprint=sha256,
        artifacts=(PreparedArtifact(handle=handle, data=data),),
        cards=(_prepared(key, text, sha256),),
    )


def _plain_analysis(texts: list[str]) -> int:
    word = re.compile(r"\w+")
    stem = lru_cache(maxsize=None)(snowballstemmer.stemmer("english").stemWord)
    return sum(len([stem(token) for token in word.findall(text.lower())]) for text in texts)


def _real_texts(count: int) -> list[str]:
    """Pieces of the standard library, about as long as a card's text."""
    units = read(standard_library())
    pieces = [unit.text[at : at + _PIECE_CHARS] for unit in units for at in range(0, len(unit.text), _PIECE_CHARS)]
    return [piece for piece in pieces if piece.strip()][:count]


def _text(rng: random.Random) -> str:
    """Words with the long tail that texts have."""
    return " ".join(f"word{int(rng.paretovariate(0.6)) % _WORDS}" for _ in range(_TEXT_WORDS))


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="mn-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
