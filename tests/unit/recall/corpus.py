"""Small records to recall from, committed to the reference store batch by batch, and strategies that draw them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mn_engine.domain.access import OPEN, Acl
from mn_engine.domain.cards import CONTRADICTS, SUPERSEDES, Card, CardKey, Kind, Relation, SourceRange, Stance
from mn_engine.domain.events import Batch, PreparedCard, PreparedEvent
from mn_engine.domain.facts import Fact
from mn_engine.domain.packets import Decision
from mn_engine.domain.scope import Scope
from mn_engine.recall.analysis import analyse, analyse_query, term_hash, terms
from mn_engine.recall.columns import rows_from_arrow
from mn_engine.recall.index import RunIndex
from mn_engine.recall.lexicon import Lexicon
from mn_engine.recall.vectors import DIMENSIONS, quantized
from mn_engine.recall.view import View
from mn_engine.store.memory import MemoryStore

SAMPLE = settings(max_examples=40)
"""What the default run takes of a property: a deadline would fail on a busy machine."""
MANY = settings(max_examples=1000)
"""What the full run takes."""

WORDS = (
    "parser",
    "lexer",
    "bracket",
    "nested",
    "token",
    "fails",
    "passes",
    "slow",
    "fast",
    "memory",
    "cache",
    "the",
    "of",
)
TOPICS = ("parsing", "speed")
CLAIMS = ("it works", "it is fast")
ENTITIES = ("Ada",)
OWNERS = ("alice", "bob")
TIMES = (None, None, 0, 20 * 60 * 1_000_000, 45 * 60 * 1_000_000)
"""When cards say something happened: some within half an hour of each other."""
FACTS = (
    None,
    None,
    None,
    Fact(subject="Ada", predicate="uses", object="a parser"),
    Fact(subject="ada", predicate="uses", object="a lexer"),
    Fact(subject="Ada", predicate="uses", object="a cache", singular=False),
    Fact(subject="Ada", predicate="uses", object="memory", qualifier="at home"),
)
LINKS = (SUPERSEDES, CONTRADICTS, "about")
KINDS = (Kind.OBSERVATION, Kind.EVIDENCE, Kind.CONSTRAINT, Kind.OBLIGATION, Kind.PREFERENCE)
ACLS = (OPEN, OPEN, OPEN, Acl(allow_principals=frozenset({"bob"})), Acl(deny_principals=frozenset({"alice"})))


class SmallEmbedder:
    """Knows most of WORDS; some of them are near each other."""

    version = "small"

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        themes = rng.normal(size=(4, DIMENSIONS))
        known = [word for word in WORDS if analyse_query(word).terms]
        self._sums = {
            analyse_query(word).hashes[0]: np.rint(1000 * (themes[place % 4] + rng.normal(size=DIMENSIONS)))
            for place, word in enumerate(known[:-1])
        }
        self.vectors = quantized(np.stack(list(self._sums.values())).astype(np.int64))
        self.hashes = list(self._sums)
        self.lexicon = Lexicon(self.hashes, self.vectors)

    def embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        sums = np.zeros((len(texts), DIMENSIONS), np.int64)
        for row, text in enumerate(texts):
            for term in terms(text):
                sums[row] += self._sums.get(term_hash(term), np.zeros(DIMENSIONS)).astype(np.int64)
        return quantized(sums)


SMALL = SmallEmbedder()


def scope(principal: str = "alice", *roles: str) -> Scope:
    """A reader of the one run that these tests know."""
    return Scope(job_id="job", run_id="run", principal=principal, roles=frozenset(roles))


def card(card_id: str, text: str = "The parser fails", *, owner: str = "alice", **fields: Any) -> Card:
    """A card whose body is its text."""
    data = text.encode()
    sha256 = hashlib.sha256(data).hexdigest()
    body = SourceRange(artifact=sha256, start=0, end=len(data), sha256=sha256)
    fields = {"kind": Kind.OBSERVATION, "captured_at": 0, **fields}
    return Card(owner=owner, id=card_id, text=text, body=body, sources=(body,), **fields)


@dataclass
class Record:
    """A record that grows batch by batch, and the views and indexes over it."""

    store: MemoryStore = field(default_factory=MemoryStore)

    def __post_init__(self) -> None:
        self.store.open_run("job", "run", max_stored_bytes=None, now=0)

    @property
    def revision(self) -> int:
        return self.store.run(scope().run_key).revision

    def add(self, *cards: Card, resolves: Iterable[CardKey] = ()) -> int:
        """Commits one batch, an event a card (and one that resolves without a card); answers its revision."""
        number = self.revision + 1
        events = [
            PreparedEvent(
                owner=added.owner,
                key=f"event-{number}-{place}",
                fingerprint="0" * 64,
                cards=(PreparedCard(card=added, analysis=analyse(added, SMALL.embed([added.text])[0].tobytes())),),
            )
            for place, added in enumerate(cards)
        ]
        if resolved := tuple(resolves):
            events.append(
                PreparedEvent(owner="alice", key=f"event-{number}", fingerprint="0" * 64, cards=(), resolves=resolved)
            )
        return self.store.commit(Batch(run_key=scope().run_key, events=tuple(events))).revision

    def index(self, upto: int | None = None, *, cuts: Iterable[int] = ()) -> RunIndex:
        """The index at a revision, caught up in one step or with stops at `cuts`."""
        upto = self.revision if upto is None else upto
        index = RunIndex.empty()
        for after, stop in pairwise(sorted({0, upto, *cuts})):
            index = self.extended(index, after, stop)
        return index

    def extended(self, index: RunIndex, after: int, upto: int) -> RunIndex:
        """`index`, which covers `after`, at revision `upto`."""
        columns = self.store.index_columns(scope().run_key, after=after, upto=upto)
        return index.extended(rows_from_arrow(columns.cards, columns.relations, columns.endings), upto=upto)

    def view(self, reader: Scope | None = None, revision: int | None = None, as_of: int | None = None) -> View:
        """What a reader (alice, where none is given) sees at a revision (the newest)."""
        revision = self.revision if revision is None else revision
        return View(self.index(), reader or scope(), revision, as_of)


def recorded(batches: Sequence[Sequence[Card]]) -> Record:
    """A record of these batches; empty ones are left out."""
    record = Record()
    for batch in batches:
        if batch:
            record.add(*batch)
    return record


def without(batches: Sequence[Sequence[Card]], reader: Scope) -> list[list[Card]]:
    """The batches as if what `reader` may not read had never been written."""
    hidden = {card.key for batch in batches for card in batch if not card.acl.permits(reader, owner=card.owner)}
    return [
        [
            replace(card, relations=tuple(link for link in card.relations if link.target not in hidden))
            for card in batch
            if card.key not in hidden
        ]
        for batch in batches
    ]


texts = st.lists(st.sampled_from((*WORDS, "Ada")), min_size=1, max_size=12).map(" ".join)
stances = st.sampled_from(Stance)


@st.composite
def batches_of_cards(draw: st.DrawFn, cards_max: int = 12) -> list[list[Card]]:
    """Batches of cards of two owners, some hidden from alice, some superseding or contradicting earlier ones."""
    batches: list[list[Card]] = [[]]
    keys: list[CardKey] = []
    for number in range(draw(st.integers(0, cards_max))):
        links = draw(st.lists(st.tuples(st.sampled_from(LINKS), st.sampled_from(keys)), max_size=2)) if keys else []
        said = draw(st.sampled_from(FACTS))
        drawn = card(
            f"c{number}",
            draw(texts),
            owner=draw(st.sampled_from(OWNERS)),
            kind=draw(st.sampled_from(KINDS)) if said is None else Kind.FACT,
            fact=said,
            stance=draw(stances),
            topics=draw(st.sampled_from(((), (), TOPICS[:1], TOPICS))),
            claims=draw(st.sampled_from(((), (), CLAIMS[:1], CLAIMS)).flatmap(_with_stances)),
            entities=draw(st.sampled_from(((), ENTITIES))),
            acl=draw(st.sampled_from(ACLS)),
            occurred_at=draw(st.sampled_from(TIMES)),
            valid_from=draw(st.sampled_from((None, None, 10, 20) if said is None else (5, 10, 20))),
            valid_until=draw(st.sampled_from((None, None, 21, 30))),
            tokens=draw(st.sampled_from((0, 0, 7, 90))),
            relations=tuple(Relation(*link) for link in dict.fromkeys(links)),
        )
        keys.append(drawn.key)
        batches[-1].append(drawn)
        if draw(st.booleans()):
            batches.append([])
    return [batch for batch in batches if batch]


def _with_stances(claims: tuple[str, ...]) -> st.SearchStrategy[tuple[tuple[str, Stance], ...]]:
    return st.tuples(*(st.tuples(st.just(claim), stances) for claim in claims))


as_ofs = st.sampled_from((None, None, 5, 15, 25, 35))
decisions = st.builds(
    Decision,
    focus=st.one_of(st.just(""), texts),
    topics=st.sampled_from(((), TOPICS[:1], TOPICS)),
    claims=st.sampled_from(((), CLAIMS[:1], CLAIMS)),
    entities=st.sampled_from(((), ENTITIES)),
    kinds=st.sampled_from((frozenset(), frozenset(), frozenset({Kind.EVIDENCE}))),
)
