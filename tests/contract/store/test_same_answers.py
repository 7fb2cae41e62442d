"""Every store against the reference store: random batches, replays, conflicts, budgets, fences, garbage and reopenings
get the same answers and leave the same record (invariants 5 and 9)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from mn_contract.errors import ContextError
from mn_contract.invocations import Begin, begin
from mn_engine.domain.access import OPEN, Acl
from mn_engine.domain.cards import CardKey, Relation
from mn_engine.domain.events import PreparedCard, PreparedEvent
from mn_engine.domain.runs import RunState
from mn_engine.domain.scope import run_key
from mn_engine.store.memory import MemoryStore
from mn_engine.store.port import Invocations, Store
from tests.contract.store.conftest import DURABLE, STORES
from tests.storing import JOB, NOW, artifact, batch, bulk, card, event, everything, sha

NAMES = st.sampled_from(["a", "b", "c", "d"])
OWNERS = st.sampled_from(["ada", "bob"])
RUNS = st.sampled_from(["one", "two"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
TYPES = st.sampled_from(["supersedes", "resolves", "follows"])
SIZES = st.sampled_from([0, 1, 40, 70_000])
ACLS = st.sampled_from([OPEN, Acl(allow_principals=frozenset({"ada"}))])


@st.composite
def cards(draw: st.DrawFn, owner: str) -> PreparedCard:
    """A card that may point at others."""
    made_id = draw(NAMES)
    targets = draw(st.sets(st.tuples(TYPES, OWNERS, NAMES), max_size=2))
    relations = tuple(
        Relation(kind, CardKey(of, target)) for kind, of, target in sorted(targets) if (of, target) != (owner, made_id)
    )
    summary = draw(st.sampled_from(["", "short"]))
    return card(made_id, draw(TEXTS), owner=owner, relations=relations, summary=summary)


@st.composite
def events(draw: st.DrawFn) -> PreparedEvent:
    """An event under one of few keys, so that replays and conflicts come up."""
    owner = draw(OWNERS)
    made = draw(st.lists(cards(owner), max_size=3))
    resolves = draw(st.sets(st.tuples(OWNERS, NAMES), max_size=1))
    data = draw(st.binary(max_size=30))
    return event(
        draw(NAMES),
        *made,
        owner=owner,
        content=draw(st.sampled_from(["x", "y"])),
        resolves=tuple(CardKey(*target) for target in resolves),
        artifacts=(artifact(data, owner=owner, acl=draw(ACLS)),) if data else (),
    )


def outcome(call: Callable[[], Any]) -> Any:
    """What a call answers, or which of the contract's errors it raises."""
    try:
        return call()
    except ContextError as error:
        return type(error).__name__, error.reason, error.detail


class SameAnswers(RuleBasedStateMachine):
    """Two stores told the same; `name` is the one under test."""

    name: str

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.reference = MemoryStore()
        self.store = STORES[self.name](self.folder)
        for run in ("one", "two"):
            self.both(lambda store, run=run: store.open_run(JOB, run, max_stored_bytes=None, now=NOW))

    def both(self, call: Callable[[Store], Any]) -> Any:
        """Calls both and compares."""
        expected = outcome(lambda: call(self.reference))
        assert outcome(lambda: call(self.store)) == expected
        return expected

    def compare(self, run: str) -> None:
        """All that the run's reads answer."""
        key = run_key(JOB, run)
        head = self.reference.run(key)
        if head.state is RunState.CLEARED:
            assert self.store.run(key).state is RunState.CLEARED
            assert outcome(lambda: self.store.index_columns(key, after=0, upto=9))[1] == "RUN_CLEARED"
        else:
            assert everything(self.store, key) == everything(self.reference, key)

    @rule(run=RUNS, several=st.lists(events(), min_size=1, max_size=3), expected=st.none() | st.integers(0, 4))
    def commit(self, run: str, several: list[PreparedEvent], expected: int | None) -> None:
        named = {(made.owner, made.key): made for made in several}
        told = self.both(lambda store: store.commit(batch(*named.values(), run=run_key(JOB, run), expected=expected)))
        if isinstance(told, tuple) and told[0] == "InvalidInput":
            assert told[2]["field"] in ("card.relations", "event.resolves"), "only an order of cards may be wrong here"
        self.compare(run)

    @rule(
        run=RUNS,
        owner=OWNERS,
        key=NAMES,
        texts=st.lists(TEXTS, min_size=1, max_size=4),
        first=st.integers(0, 6),
        stored=st.booleans(),
    )
    def commit_table(self, run: str, owner: str, key: str, texts: list[str], first: int, stored: bool) -> None:
        made = [card(f"n{first + place}", text, owner=owner) for place, text in enumerate(texts)]
        fingerprint = sha("".join(texts).encode())
        self.both(
            lambda store: store.commit_table(
                run_key(JOB, run),
                owner=owner,
                key=key,
                fingerprint=fingerprint,
                cards=bulk(*made),
                artifacts=[artifact(text.encode(), owner=owner) for text in texts] if stored else [],
                recorded_at=NOW + first,
            )
        )
        self.compare(run)

    @rule(run=RUNS, owner=OWNERS, size=SIZES, acl=ACLS, honest=st.booleans())
    def put(self, run: str, owner: str, size: int, acl: Acl, honest: bool) -> None:
        key, data = run_key(JOB, run), b"p" * size

        def call(store: Store) -> Any:
            arriving = store.upload(key)
            try:
                arriving.write(data)
                return arriving.finish(
                    media_type="a/b", owner=owner, acl=acl, expected_sha256=sha(data) if honest else sha(b"no")
                )
            finally:
                arriving.abort()

        self.both(call)
        self.both(lambda store: store.artifacts(key, [sha(data)]))
        self.both(lambda store: store.read_ranges(key, [(sha(data), 0, size)]))

    @rule(run=RUNS, start=st.integers(-1, 50), end=st.integers(-1, 50))
    def read_garbage(self, run: str, start: int, end: int) -> None:
        key = run_key(JOB, run)
        self.both(lambda store: store.read_ranges(key, [(sha(b"p" * 40), start, end)]))
        self.both(lambda store: store.cards(key, [start << 20 | end & 3], revision=end))

    @rule(run=RUNS, budget=st.none() | st.integers(0, 200))
    def set_budget(self, run: str, budget: int | None) -> None:
        self.both(lambda store: store.open_run(JOB, run, max_stored_bytes=budget, now=NOW))

    @rule(run=RUNS, owner=OWNERS, name=NAMES, holder=NAMES, now=st.integers(0, 9))
    def begin_invocation(self, run: str, owner: str, name: str, holder: str, now: int) -> None:
        key = run_key(JOB, run)
        wish = Begin(name=name, holder=holder, lease_ms=3, fingerprint=sha(name.encode()), roles=frozenset({"r", "s"}))

        def decide(known: Invocations) -> Any:
            return begin(known.newest, known.spent_retries, wish, now).write

        self.both(lambda store: store.decide_invocation(key, owner, name, decide))
        self.both(lambda store: store.invocations(key, owner, name))

    @rule(run=RUNS, owner=OWNERS, name=NAMES)
    def ask_for_an_event(self, run: str, owner: str, name: str) -> None:
        self.both(lambda store: store.event(run_key(JOB, run), owner, name))

    @rule(run=RUNS, chance=st.integers(0, 5))
    def cancel(self, run: str, chance: int) -> None:
        if not chance:
            self.both(lambda store: store.cancel_run(run_key(JOB, run), reason="r"))

    @rule(run=RUNS, chance=st.integers(0, 5))
    def clear(self, run: str, chance: int) -> None:
        if not chance:
            self.reference.clear_run(run_key(JOB, run), reason="r", now=NOW)
            self.store.clear_run(run_key(JOB, run), reason="r", now=NOW)
            self.compare(run)

    @rule(how=st.sampled_from(["reopen", "compact", "neither", "neither"]))
    def disturb(self, how: str) -> None:
        if how == "compact":
            self.store.compact()
        if how == "reopen" and self.name in DURABLE:
            self.store.close()
            self.store = STORES[self.name](self.folder)
        for run in ("one", "two"):
            self.compare(run)

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)


@pytest.mark.parametrize("name", sorted(set(STORES) - {"memory"}))
@pytest.mark.parametrize("examples", [15, pytest.param(300, marks=pytest.mark.full)])
@pytest.mark.timeout(900)
def test_every_store_answers_like_the_reference(name: str, examples: int) -> None:
    machine = type("Machine", (SameAnswers,), {"name": name})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=20,
            suppress_health_check=list(HealthCheck),
            database=None,
            phases=[Phase.generate],  # shrinking against real files takes minutes; the steps are printed as they are
        ),
    )
