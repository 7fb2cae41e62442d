"""A record as large as wanted, grown from real sentences: what speed is measured on.

A card is two sentences, so that words keep the frequencies that they have in the texts. Several principals write by
turns; some cards are hidden from the reader, some are superseded, some take a side, some carry labels; they are said in
conversations of different lengths. The same seed gives the same record.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from mn_benchmark.data import Data
from mn_engine.domain.access import OPEN, Acl
from mn_engine.domain.cards import SUPERSEDES, Card, CardKey, Kind, Relation, SourceRange, Stance
from mn_engine.domain.events import Batch, PreparedCard, PreparedEvent
from mn_engine.domain.scope import Scope
from mn_engine.recall.analysis import analyse
from mn_engine.recall.embedder import Embedder
from mn_engine.store.columns import bulk_row
from mn_engine.store.port import BULK_CARDS, Store

READER: Final = Scope(job_id="benchmark", run_id="speed", principal="reader", roles=frozenset({"team"}))
TOPICS: Final = ("pricing", "safety", "staff", "travel")
CLAIMS: Final = ("it will hold", "it pays")
_OWNERS: Final = ("ada", "bob", "reader")
_ACLS: Final = (
    *(OPEN,) * 7,
    Acl(allow_roles=frozenset({"team"})),
    Acl(allow_principals=frozenset({"ada"})),
    Acl(require_roles=frozenset({"board"})),
)
_STANCES: Final = (*(Stance.NEUTRAL,) * 6, Stance.SUPPORTS, Stance.SUPPORTS, Stance.OPPOSES, Stance.MIXED)
_KINDS: Final = (*(Kind.OBSERVATION,) * 6, Kind.EVIDENCE, Kind.EVIDENCE, Kind.FACT, Kind.DECISION)
_SUPERSEDING: Final = 50
"""One card in so many supersedes an earlier one."""
_BULK_CARDS: Final = 10_000
_EVENT_CARDS: Final = 500
_SPOKEN_MICROSECONDS: Final = 60_000_000
_PAUSE_MICROSECONDS: Final = 7_200_000_000
_PAUSE_AFTER: Final = (5, 20, 80, 300)
"""Cards of a conversation, one of these by chance."""
_WORDS_MIN: Final = 4
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+")


def sentences(data: Data) -> list[str]:
    """Every sentence of the texts in `data`, each once. Raises NotFound, DamagedData."""
    texts, _ = _read(data)
    cut = (sentence.strip() for text in texts for sentence in _SENTENCE_END.split(text))
    return list(dict.fromkeys(one for one in cut if len(one.split()) >= _WORDS_MIN))


def questions(data: Data) -> list[str]:
    """What is asked of these texts, and the claims that are checked against them, each once."""
    _, asked = _read(data)
    return list(dict.fromkeys(asked))


def _read(data: Data) -> tuple[list[str], list[str]]:
    """(texts, questions about them)."""
    texts: list[str] = []
    asked: list[str] = []
    for file in data.files("hotpotqa", "*.jsonl"):
        for one in data.json_lines(file):
            texts += [part.field("paragraph_text").text() for part in one.field("contexts").items()]
            asked.append(one.field("question_text").question())
    for file in data.files("climate-fever", "*.jsonl"):
        for one in data.json_lines(file):
            texts += [part.field("evidence").text() for part in one.field("evidences").items()]
            asked.append(one.field("claim").question())
    for file in data.files("locomo", "*.json"):
        for one in data.json(file).items():
            parts = [part for part in one.field("conversation").fields().values() if isinstance(part.found, list)]
            texts += [turn.field("text").text() for part in parts for turn in part.items()]
            asked += [question.field("question").question() for question in one.field("qa").items()]
    return texts, asked


def texts_of(sentences: Sequence[str], count: int, seed: int) -> Iterator[str]:
    """The texts of `count` cards."""
    rng = random.Random(seed)
    for first in itertools.islice(itertools.cycle(sentences), count):
        yield f"{first} {rng.choice(sentences)}"


def record(store: Store, texts: Iterator[str], count: int, embedder: Embedder, seed: int) -> None:
    """Opens the run of READER and writes `count` cards with these texts."""
    rng = random.Random(seed)
    store.open_run(READER.job_id, READER.run_id, max_stored_bytes=None, now=0)
    plain = count - count // _SUPERSEDING
    times = _times(rng)
    for start in range(0, plain, _BULK_CARDS):
        owner = _OWNERS[start // _BULK_CARDS % len(_OWNERS)]
        drawn = [
            _card(rng, at, owner, next(texts), next(times)) for at in range(start, min(start + _BULK_CARDS, plain))
        ]
        columns = zip(*map(bulk_row, _prepared(drawn, embedder)), strict=True)
        arrays = [pa.array(column, type=item.type) for column, item in zip(columns, BULK_CARDS, strict=True)]
        table = pa.Table.from_arrays(arrays, schema=BULK_CARDS)
        store.commit_table(READER.run_key, owner=owner, key=f"bulk-{start}", fingerprint="0" * 64, cards=table)
    replaced = rng.sample(range(plain), count - plain)
    for start in range(plain, count, _EVENT_CARDS):
        drawn = []
        for at in range(start, min(start + _EVENT_CARDS, count)):
            old = replaced[at - plain]
            target = CardKey(_OWNERS[old // _BULK_CARDS % len(_OWNERS)], _name(old))
            drawn.append(_card(rng, at, "ada", next(texts), next(times), Relation(SUPERSEDES, target)))
        commit(store, f"event-{start}", _prepared(drawn, embedder))


def one_card(number: int, text: str, embedder: Embedder) -> list[PreparedCard]:
    """A card as a running program would add it."""
    card = _card(random.Random(number), number, "reader", text, number * _SPOKEN_MICROSECONDS)
    return _prepared([card], embedder)


def commit(store: Store, key: str, cards: list[PreparedCard]) -> int:
    """Writes one event durably; answers the run's revision."""
    event = PreparedEvent(owner=cards[0].card.owner, key=key, fingerprint="0" * 64, cards=tuple(cards))
    return store.commit(Batch(run_key=READER.run_key, events=(event,))).revision


def _times(rng: random.Random) -> Iterator[int]:
    now = 0
    while True:
        now += _PAUSE_MICROSECONDS
        for _ in range(rng.choice(_PAUSE_AFTER)):
            now += _SPOKEN_MICROSECONDS
            yield now


def _card(rng: random.Random, number: int, owner: str, text: str, occurred_at: int, *relations: Relation) -> Card:
    data = text.encode("utf-8")
    sha256 = hashlib.sha256(data).hexdigest()
    body = SourceRange(artifact=sha256, start=0, end=len(data), sha256=sha256)
    stance = rng.choice(_STANCES)
    return Card(
        owner=owner,
        id=_name(number),
        kind=rng.choice(_KINDS),
        text=text,
        body=body,
        sources=(body,),
        topics=(rng.choice(TOPICS),) if rng.random() < 0.3 else (),
        entities=(owner,),
        stance=stance,
        claims=((rng.choice(CLAIMS), stance),) if rng.random() < 0.1 else (),
        occurred_at=occurred_at,
        captured_at=0,
        relations=relations,
        acl=rng.choice(_ACLS),
    )


def _name(number: int) -> str:
    return f"card-{number}"


def _prepared(cards: Sequence[Card], embedder: Embedder) -> list[PreparedCard]:
    vectors = embedder.embed([card.text for card in cards])
    return [
        PreparedCard(card=card, analysis=analyse(card, vector.tobytes()))
        for card, vector in zip(cards, vectors, strict=True)
    ]
