"""A burst of writes by several threads, and what must be true of it whenever it is cut off.

Run as a program, it writes until it is killed or done and tells of each acknowledgement, to standard output or to the
journal of powerloss.c. Every event adds three cards, two relations, an ending and four artifacts, so that a half one
shows; every few events a model call is made and a blob is put; now and then the record is compacted.
"""

from __future__ import annotations

import ctypes
import os
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from mn_contract.invocations import Attempt, State
from mn_engine.domain.access import OPEN
from mn_engine.domain.cards import CardKey, Relation, ordinal_of, revision_of
from mn_engine.domain.events import PreparedEvent
from mn_engine.service.engine import Call
from mn_engine.service.integrity import look_over
from mn_engine.store.duckdb import DuckDBStore
from mn_engine.store.port import Store
from tests.storing import KEY, NOW, artifact, batch, card, event, handles, open_run, sha, supersedes

CARDS = 3
BLOB_EACH = 5
CALL_STATES = (State.DISPATCHED, State.RESPONDED)
GONE = "gone"


def event_of(thread: int, number: int) -> PreparedEvent:
    """The event of a thread's turn: the same whoever asks."""
    name = f"{thread}-{number}"
    noise = random.Random(name).randbytes(700).hex()
    follows = (Relation("follows", CardKey("ada", f"{name}-0")),)
    ends = supersedes(f"{thread}-{number - 1}-0") if number else supersedes(f"{name}-0")
    cards = [
        card(f"{name}-0", f"{name}-0 {noise}"),
        card(f"{name}-1", f"{name}-1 {noise}", relations=follows),
        card(f"{name}-2", f"{name}-2 {noise}", relations=ends),
    ]
    puts = tuple(artifact(made.card.text.encode()) for made in cards)
    return event(name, *cards, artifacts=(*puts, artifact(f"source of {name}".encode())))


def blob_of(thread: int, number: int) -> bytes:
    """The blob of a thread's turn."""
    return random.Random(f"blob {thread} {number}").randbytes(80_000)


def attempt_of(thread: int, number: int, state: State) -> Attempt:
    """The model call of a thread's turn: the same whoever asks."""
    return Attempt(
        name=f"{thread}-{number}",
        attempt=1,
        state=state,
        epoch=1,
        holder="w1",
        lease_until_ms=0,
        fingerprint=sha(b"asked"),
        roles=frozenset(),
        request_sha256=sha(b"sent"),
        response=blob_of(thread, number)[:5000] if state is State.RESPONDED else None,
    )


def move(store: Store, thread: int, number: int, state: State) -> None:
    """One transition of a model call."""
    store.decide_invocation(KEY, "ada", f"{thread}-{number}", lambda _: (attempt_of(thread, number, state),))


def write(store: Store, thread: int, events: int, told: Callable[[str], None]) -> None:
    """One thread's part of the burst."""
    for number in range(events):
        store.commit(batch(event_of(thread, number)))
        told(f"event {thread} {number}")
        if number % BLOB_EACH == 0:
            for state in CALL_STATES:
                move(store, thread, number, state)
                told(f"{state.value} {thread} {number}")
            arriving = store.upload(KEY)
            arriving.write(blob_of(thread, number))
            arriving.finish(media_type="a/b", owner="ada", acl=OPEN, expected_sha256="")
            told(f"blob {thread} {number}")


def check(store: Store, told: list[str]) -> list[str]:
    """What is wrong with a record of which these acknowledgements were told: what was lost, and what is half there."""
    wrong = [f"lost: {name}" for name in told if not _is_there(store, name)]
    head = store.run(KEY)
    columns = store.index_columns(KEY, after=0, upto=head.revision)
    ids: dict[int, list[str]] = {}
    for ordinal, card_id in zip(columns.cards["ordinal"].to_pylist(), columns.cards["id"].to_pylist(), strict=True):
        ids.setdefault(revision_of(ordinal), []).append(card_id)
    if sorted(ids) != list(range(1, head.revision + 1)):
        wrong.append(f"revisions {sorted(ids)} of {head.revision}")
    stored = 0
    for revision in sorted(ids):
        thread, number, _ = map(int, ids[revision][0].split("-"))
        made = event_of(thread, number)
        if ids[revision] != [prepared.card.id for prepared in made.cards]:
            wrong.append(f"half there: {ids[revision]}")
        if store.event(KEY, "ada", made.key) is None:
            wrong.append(f"no receipt: {made.key}")
        spans = [(put.handle.sha256, 0, put.handle.size) for put in made.artifacts]
        if store.read_ranges(KEY, spans) != [put.data for put in made.artifacts]:
            wrong.append(f"other bytes: {made.key}")
        stored += made.card_bytes + sum(put.handle.size for put in made.artifacts)
    for name, rows, each in (("relations", columns.relations, 2), ("endings", columns.endings, 1)):
        if rows.num_rows != each * len(ids):
            wrong.append(f"{rows.num_rows} {name} of {len(ids)} events")
    looked = look_over(store, KEY, head, Call())
    if looked.tampered is not None:
        wrong.append(f"not what was written: {looked.tampered}")
    if (head.stored_bytes - stored) % len(blob_of(0, 0)):
        wrong.append("another number of stored bytes")
    store.cards(KEY, [ordinal_of(revision, 0) for revision in ids], revision=head.revision)
    return wrong


def _is_there(store: Store, told: str) -> bool:
    what, thread, number = told.split()
    if what == "event":
        return store.event(KEY, "ada", f"{thread}-{number}") is not None
    if what != "blob":
        return _has_moved(store, int(thread), int(number), State(what))
    data = blob_of(int(thread), int(number))
    return bool(handles(store, sha(data))) and store.read_ranges(KEY, [(sha(data), 0, len(data))]) == [data]


def _has_moved(store: Store, thread: int, number: int, told: State) -> bool:
    """Whether a call is as far as it was told to be, and whole."""
    newest = store.invocations(KEY, "ada", f"{thread}-{number}").newest
    further = CALL_STATES[CALL_STATES.index(told) :]
    return newest in [attempt_of(thread, number, state) for state in further]


def run(path: Path, threads: int, events: int, compactions: int, told: Callable[[str], None]) -> None:
    """The burst."""
    store = DuckDBStore(path, free_bytes_floor=0, log_bytes_max=256 * 1024)
    open_run(store)
    told("open")
    store.clear_run(open_run(store, GONE), reason="", now=NOW)
    running = [threading.Thread(target=write, args=(store, thread, events, told)) for thread in range(threads)]
    for thread in running:
        thread.start()
    for _ in range(compactions):
        store.compact()
    for thread in running:
        thread.join()
    store.close()


def _to_output(text: str) -> None:
    os.write(1, f"{text}\n".encode())  # one write, so that lines of many threads do not mix


def _to_journal(text: str) -> None:
    ctypes.CDLL(None).powerloss_note(text.encode())


if __name__ == "__main__":
    run(
        Path(sys.argv[1]),
        int(sys.argv[2]),
        int(sys.argv[3]),
        int(sys.argv[4]),
        _to_journal if os.environ.get("POWERLOSS_JOURNAL") else _to_output,
    )
