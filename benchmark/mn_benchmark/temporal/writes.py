"""Single upserts: durable ones of many threads beside one-card events, and in memory beside what they must at least do:
canonical JSON and its SHA-256."""

from __future__ import annotations

import hashlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from mn.context.working.v1 import card_pb2
from mn_benchmark.report import ALL, OURS, Sample
from mn_benchmark.temporal.made import Said
from mn_benchmark.temporal.open import SCOPE, OpenRecord
from mn_benchmark.temporal.stages import Stages, of_an_upsert
from mn_contract.canonical import encoded
from mn_engine.domain.cards import Card, Kind
from mn_engine.domain.events import Batch
from mn_engine.domain.facts import Fact
from mn_engine.domain.requests import NewCard, NewEvent
from mn_engine.domain.times import parse_rfc3339
from mn_engine.service.prepare import prepare
from mn_engine.store.duckdb import DuckDBStore
from mn_engine.store.memory import MemoryStore

_THREADS: Final = 16
_WAYS: Final = ("upsert", "event", "committed event")


def grouped(record: Path, facts: Sequence[Said], rounds: int, case: str) -> Iterator[Sample]:
    """Durable writes of one fact each from _THREADS threads, by the clock: in a round all facts by `Facts.upsert`, then
    as one-card events by RecordEvents, then as such events that are ready to be committed, by the store alone, which is
    the rate of the group commit. Facts go into the run as it stands in `record`, each of a subject of its own round.
    The first round is left out."""
    rates: dict[str, list[float]] = {way: [] for way in _WAYS}
    with OpenRecord(DuckDBStore(record)) as opened:
        for number in range(rounds + 1):
            for way, write in zip(_WAYS, _writers(opened, facts, f"{case}-{number}"), strict=True):
                seconds = _together(write, len(facts))
                if number:
                    rates[way].append(len(facts) / seconds)
    prefix = "" if case == ALL else f"{case} "
    floors = rates["committed event"]
    for name, way in ((case, "upsert"), (f"{prefix}events", "event")):
        ratios = [one / floor for one, floor in zip(rates[way], floors, strict=True)]
        yield Sample(case=name, system=OURS, metric="writers_ratio", values=ratios, unit="ratio")
    for way, values in rates.items():
        yield Sample(case=f"{prefix}{way}", system=OURS, metric="writes_per_second", values=values, unit="1/s")


def _writers(opened: OpenRecord, facts: Sequence[Said], key: str) -> list[Callable[[int], object]]:
    """What writes the fact of a number, in each of the ways."""
    ours = opened.facts()
    new = [{**fact, "subject": f"{fact['subject']} {key}"} for fact in facts]
    cards = [_card(fact) for fact in new]
    events = [
        card_pb2.RecordEventsRequest(events=[card_pb2.Event(key=f"event-{key}-{number}", cards=[_message(card)])])
        for number, card in enumerate(cards)
    ]
    ready = [
        prepare(opened.engine, SCOPE, (NewEvent(key=f"ready-{key}-{number}", cards=(card,)),), opened.revision)
        for number, card in enumerate(cards)
    ]

    def upsert(number: int) -> object:
        return ours.upsert(**new[number])

    def record(number: int) -> object:
        return opened.ask("RecordEvents", events[number])

    def commit(number: int) -> object:
        return opened.engine.store.commit(Batch(run_key=SCOPE.run_key, events=ready[number]))

    return [upsert, record, commit]


def _together(write: Callable[[int], object], count: int) -> float:
    """Seconds in which threads together write facts 0 to `count` - 1. Raises what a write raises."""
    numbers, lock = iter(range(count)), threading.Lock()
    failed: list[BaseException] = []

    def work() -> None:
        while not failed:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            try:
                write(number)
            except BaseException as error:  # noqa: BLE001  (raised below, by who waits)
                failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(_THREADS)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    if failed:
        raise failed[0]
    return seconds


def in_memory(facts: Sequence[Said], rounds: int) -> Iterator[Sample]:
    """Upserts into a new run in memory by canonical JSON of the same cards (`Card.as_json`) and its SHA-256, in
    processor time: one at a time (`all`), and in one batch. Then once more with the stages timed."""
    ways: dict[str, Callable[[OpenRecord], object]] = {
        ALL: lambda opened: [opened.facts().upsert(**fact) for fact in facts],
        "batch": lambda opened: opened.facts().upsert_many(facts),
    }
    for case, write in ways.items():
        ours, floors = [], []
        for number in range(rounds + 1):
            with OpenRecord(MemoryStore()) as opened:
                seconds = _timed(lambda: write(opened))  # noqa: B023  (called at once)
                cards = _recorded(opened)
                floor = _timed(lambda: _hashed(cards)) / len(cards)  # noqa: B023
            if number:  # the first round warms caches
                ours.append(seconds / len(facts))
                floors.append(floor)
        ratios = [one / floor for one, floor in zip(ours, floors, strict=True)]
        yield Sample(case=case, system=OURS, metric="upsert_ratio", values=ratios, unit="ratio")
        for name, values in ((case, ours), ("floor" if case == ALL else f"{case} floor", floors)):
            micros = [1e6 * one for one in values]
            yield Sample(case=name, system=OURS, metric="upsert_us", values=micros, unit="us")
        for stage, share in _staged(write).items():
            name = stage if case == ALL else f"{case} {stage}"
            micros = [1e6 * share * statistics.mean(ours)]
            yield Sample(case=name, system=OURS, metric="upsert_stage_us", values=micros, unit="us")


def _staged(write: Callable[[OpenRecord], object]) -> dict[str, float]:
    """Each stage's share of the processor time."""
    with OpenRecord(MemoryStore()) as opened:
        with Stages(of_an_upsert(opened.engine.embedder())) as stages:
            whole = _timed(lambda: write(opened))
        told = {**stages.seconds, "rest": max(whole - sum(stages.seconds.values()), 0.0)}
    return {stage: seconds / whole for stage, seconds in told.items()}


def _recorded(opened: OpenRecord) -> list[Card]:
    """The cards of the run."""
    store, revision = opened.engine.store, opened.revision
    held = store.index_columns(SCOPE.run_key, after=0, upto=revision).cards["ordinal"].to_pylist()
    return [stored.card for stored in store.cards(SCOPE.run_key, held, revision=revision)]


def _hashed(cards: Sequence[Card]) -> None:
    for card in cards:
        hashlib.sha256(encoded(card.as_json())).hexdigest()


def _card(said: Said) -> NewCard:
    names = ("subject", "predicate", "object", "qualifier", "singular")
    fact = Fact(**{name: said[name] for name in names})
    until = said.get("valid_until")
    return NewCard(
        kind=Kind.FACT,
        text=fact.statement,
        entities=fact.entities,
        valid_from=parse_rfc3339(said["valid_from"], "valid_from"),
        valid_until=None if until is None else parse_rfc3339(until, "valid_until"),
        fact=fact,
    )


def _message(card: NewCard) -> card_pb2.Card:
    assert card.fact is not None
    fact: dict[str, Any] = {name: getattr(card.fact, name) for name in Fact.__slots__}
    message = card_pb2.Card(kind=card_pb2.CARD_KIND_FACT, text=card.text, entities=card.entities, fact=fact)
    for name in ("valid_from", "valid_until"):
        if (time_ := getattr(card, name)) is not None:
            getattr(message, name).FromMicroseconds(time_)
    return message


def _timed(work: Callable[[], object]) -> float:
    """Processor seconds."""
    started = time.process_time()
    work()
    return time.process_time() - started
