"""Many facts as columns: to the byte what cards, one by one, would be."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mn_contract.errors import ContextBudgetExceeded, IdempotencyConflict, InvalidInput
from mn_contract.limits import BATCH_CARDS_MAX, CARD_TEXT_BYTES_MAX, FACT_OBJECT_BYTES_MAX, ID_BYTES_MAX
from mn_engine.bootstrap import engine_over
from mn_engine.domain.cards import Card, Kind, SourceRange
from mn_engine.domain.events import PreparedCard
from mn_engine.domain.facts import Fact
from mn_engine.domain.requests import NewFact, NewFacts
from mn_engine.domain.scope import Scope
from mn_engine.recall.analysis import analyse
from mn_engine.service.engine import Call
from mn_engine.service.graph.batch import Body, record_facts, stored, table_of
from mn_engine.store.columns import arrow, bulk_row, card_of
from mn_engine.store.memory import MemoryStore
from mn_engine.store.port import BULK_CARDS

NOW = 1_700_000_000_123_456
SAID = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=30).filter(lambda text: text.strip())
WORDS = st.sampled_from(
    ("Ada", " ada", "getUserName", "src/a.py", "E42", '"quoted"\\', "Zoë 中文 🜲", "\x00\x1f\x7f\u2028", "the")
)
TIMES = st.sampled_from((0, NOW - 1, NOW, 1_000_000, -5_000_000_000_000_000))
OWNER = "ada@example.org"


@st.composite
def facts(draw: st.DrawFn) -> NewFact:
    """A fact, in words that JSON and analysis make something of."""
    name = WORDS | SAID
    since = draw(st.none() | TIMES)
    ends = draw(st.none() | st.integers(1, 10**15))
    return NewFact(
        fact=Fact(
            subject=draw(name),
            predicate=draw(name),
            object=draw(name | st.text("x\n", min_size=100, max_size=400).filter(lambda text: text.strip())),
            qualifier=draw(st.just("") | name),
            singular=draw(st.booleans()),
        ),
        valid_from=since,
        valid_until=None if ends is None else (NOW if since is None else since) + ends,
        confidence=draw(st.none() | st.floats(0, 1)),
    )


def one_by_one(asked: NewFacts, bodies: list[Body], vectors: list[bytes]) -> list[PreparedCard]:
    """What the way of single cards makes of the facts."""
    made = []
    for card_id, said, body, vector in zip(asked.ids, asked.facts, bodies, vectors, strict=True):
        cited = SourceRange(artifact=body.artifact, start=body.start, end=body.end, sha256=body.sha256)
        card = Card(
            owner=OWNER,
            id=card_id,
            kind=Kind.FACT,
            text=said.fact.statement,
            body=cited,
            sources=(cited,),
            entities=said.fact.entities,
            confidence=said.confidence,
            captured_at=NOW,
            valid_from=NOW if said.valid_from is None else said.valid_from,
            valid_until=said.valid_until,
            fact=said.fact,
        )
        made.append(PreparedCard(card=card, analysis=analyse(card, vector)))
    return made


@settings(max_examples=300)
@given(st.lists(facts(), min_size=1, max_size=4), st.sampled_from(("k", "facts-0123456789abcdef", "a/b.c")))
def test_columns_are_those_of_the_cards(said: list[NewFact], key: str) -> None:
    asked = NewFacts(key=key, facts=tuple(said))
    _, bodies = stored(OWNER, asked.facts)
    vectors = [bytes([number]) * 8 for number in range(len(said))]
    table = table_of(asked, bodies, owner=OWNER, now=NOW, vectors=vectors)
    cards = one_by_one(asked, bodies, vectors)
    assert table.to_pylist() == arrow(BULK_CARDS, [bulk_row(card) for card in cards]).to_pylist()
    assert [card_of(row["text"], row["meta"]) for row in table.to_pylist()] == [card.card for card in cards]


@given(st.lists(facts(), min_size=1, max_size=4))
def test_texts_stand_where_their_cards_say(said: list[NewFact]) -> None:
    artifacts, bodies = stored(OWNER, said)
    data = {artifact.handle.sha256: artifact.data for artifact in artifacts}
    for one, body in zip(said, bodies, strict=True):
        text = data[body.artifact][body.start : body.end]
        assert text.decode() == one.fact.statement
        assert hashlib.sha256(text).hexdigest() == body.sha256
    assert all(hashlib.sha256(one.data).hexdigest() == one.handle.sha256 for one in artifacts)
    assert all(one.handle.size == len(one.data) for one in artifacts)


def test_no_artifact_is_larger_than_a_text() -> None:
    said = [NewFact(fact=Fact(subject=str(number), predicate="p", object="x" * 4000)) for number in range(100)]
    artifacts, bodies = stored(OWNER, said)
    assert len(bodies) == 100
    assert len(artifacts) == 50
    assert all(one.handle.size <= CARD_TEXT_BYTES_MAX for one in artifacts)


def test_what_is_too_large_or_ends_before_it_begins_is_named_by_its_number() -> None:
    fine = NewFact(fact=Fact(subject="s", predicate="p", object="o"))
    for wrong, field in (
        ({"fact": Fact(subject="s", predicate="p", object="\x01" * FACT_OBJECT_BYTES_MAX)}, "facts[1].card"),
        ({"fact": fine.fact, "valid_until": NOW}, "facts[1].valid_until"),
    ):
        asked = NewFacts(key="k", facts=(fine, NewFact(**wrong)))
        with pytest.raises(InvalidInput) as raised:
            table_of(asked, stored(OWNER, asked.facts)[1], owner=OWNER, now=NOW, vectors=[b"", b""])
        assert raised.value.detail["field"] == field


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": "k", "facts": ()},
        {"key": "no key", "facts": 1},
        {"key": "k" * (ID_BYTES_MAX - 2), "facts": 2},
        {"key": "k", "facts": BATCH_CARDS_MAX + 1},
    ],
)
def test_what_is_no_batch_is_refused(wrong: dict[str, Any]) -> None:
    fine = NewFact(fact=Fact(subject="s", predicate="p", object="o"))
    count = wrong["facts"] or 0
    with pytest.raises(InvalidInput):
        NewFacts(key=wrong["key"], facts=(fine,) * count)


@pytest.mark.parametrize(
    "wrong",
    [{"confidence": 1.5}, {"valid_from": 1 << 62}, {"valid_until": 1 << 62}, {"valid_from": 5, "valid_until": 5}],
)
def test_what_is_no_fact_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        NewFact(fact=Fact(subject="s", predicate="p", object="o"), **wrong)


def test_nothing_is_recorded_for_a_caller_who_has_gone() -> None:
    engine, scope = engine_over(MemoryStore()), Scope(job_id="j", run_id="r", principal=OWNER)
    asked = NewFacts(key="k", facts=(NewFact(fact=Fact(subject="s", predicate="p", object="o")),))
    left = iter((1.0,))
    with pytest.raises(ContextBudgetExceeded):
        record_facts(engine, scope, Call(remaining=lambda: next(left, -1.0)), asked=asked)
    assert engine.store.run(scope.run_key).revision == 0
    assert record_facts(engine, scope, Call(), asked=asked).refs == ("k",)
    assert record_facts(engine, scope, Call(), asked=asked).replayed
    engine.close()


def test_a_replay_is_answered_when_what_it_says_is_past() -> None:
    now = [NOW]
    engine, scope = (
        replace(engine_over(MemoryStore()), clock=lambda: now[0]),
        Scope(job_id="j", run_id="r", principal=OWNER),
    )
    until = NewFact(fact=Fact(subject="s", predicate="p", object="o"), valid_until=NOW + 1)
    asked = NewFacts(key="k", facts=(until,))
    first = record_facts(engine, scope, Call(), asked=asked)
    now[0] = NOW + 2
    again = record_facts(engine, scope, Call(), asked=asked)
    assert (again.refs, again.revision, again.replayed) == (first.refs, first.revision, True)
    with pytest.raises(InvalidInput):
        record_facts(engine, scope, Call(), asked=NewFacts(key="other", facts=(until,)))
    with pytest.raises(IdempotencyConflict):
        record_facts(engine, scope, Call(), asked=NewFacts(key="k", facts=(until, until)))
    engine.close()
