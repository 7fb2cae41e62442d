"""A working set follows its session: equal to the pack in every turn, whatever is lost or comes twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mn_contract.errors import DependencyUnavailable, InvalidInput
from mn_contract.limits import SESSION_KNOWN_MAX
from mn_contract.smp import memory_of
from mn_sdk.context_session import ContextSession
from mn_sdk.working_set import WorkingSet

WORDS = ("door", "window", "roof", "cellar", "garden")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContextSession]:
    root: Path = tmp_path_factory.mktemp("run")
    with ContextSession(root, job_id="j", run_id="r", principal="p") as session:
        for number in range(40):
            text = f"The {WORDS[number % 5]} and the {WORDS[number % 3]}, mark {number}. " + "And so on. " * (
                number % 9
            )
            session.observe(text, event_id=f"o{number}", kind="fact")
        yield session


class Line:
    """A connection to a session that loses what it is told to."""

    def __init__(self, session: ContextSession, lost: list[bool]) -> None:
        self._session = session
        self._lost = lost
        self.asked: list[dict[str, Any]] = []

    def __call__(self, **arguments: Any) -> Any:
        self.asked.append(arguments)
        answer = self._session.envelope(**arguments)
        if self._lost and self._lost.pop(0):
            raise ConnectionError
        return answer


NUMBERS = iter(range(1_000_000))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    turns=st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from([300, 400, 900, None])), max_size=12),
    lost=st.lists(st.booleans(), max_size=6),
)
def test_it_equals_the_pack_in_every_turn(
    session: ContextSession, turns: list[tuple[str, int | None]], lost: list[bool]
) -> None:
    name = f"s{next(NUMBERS)}"
    working_set = WorkingSet(Line(session, lost), name, model="claude")
    for task, budget in turns:
        try:
            items = working_set.update(task, token_budget=budget)
        except ConnectionError:
            continue
        whole = session.envelope(task, model="claude", token_budget=budget)
        assert list(map(memory_of, items)) == list(map(memory_of, whole["items"]))


def test_a_delta_that_comes_twice_changes_nothing(session: ContextSession) -> None:
    working_set = WorkingSet(session.envelope, f"s{next(NUMBERS)}")
    envelope = session.envelope("door", session_id="twice", items="new")
    assert working_set.apply(envelope)
    before = working_set.items
    assert working_set.apply(envelope)
    assert working_set.items == before


def test_a_lost_delta_is_noticed_and_the_whole_pack_is_asked_for(session: ContextSession) -> None:
    line = Line(session, [False, True])
    working_set = WorkingSet(line, f"s{next(NUMBERS)}")
    working_set.update("door")
    with pytest.raises(ConnectionError):
        working_set.update("garden")
    working_set.update("garden")
    assert [asked.get("items") for asked in line.asked] == ["new", "new", "new", None]


def test_what_a_session_was_sent_is_not_sent_again(session: ContextSession) -> None:
    working_set = session.working_set(f"s{next(NUMBERS)}", model="claude")
    first = working_set.update("door")
    again = working_set.update("door")
    assert [item["ref"] for item in again] == [item["ref"] for item in first]
    assert all(item["relevance"] is None for item in again), "nothing is said of a match that was not sent"


def test_another_program_in_the_session_is_told(session: ContextSession) -> None:
    name = f"s{next(NUMBERS)}"
    working_set = WorkingSet(session.envelope, name)
    working_set.update("door")
    for _ in range(3):
        session.envelope("roof", session_id=name)
    assert working_set.update("door"), "it recovers by itself"
    stale = WorkingSet(lambda **_: session.envelope("door", session_id=f"s{next(NUMBERS)}"), name)
    stale.update("door")
    stale._cursor = 99
    with pytest.raises(DependencyUnavailable):
        stale.update("door")


def test_it_keeps_no_more_than_the_session_knows() -> None:
    def envelope(turn: int) -> dict[str, Any]:
        items = [{"ref": f"{turn}-{n}", "content": "x", "occurred_at": None, "layer": "facts"} for n in range(300)]
        change = {"new": [], "evicted": [], "superseded": [], "cursor": str(turn)}
        return {"items": items, "working_memory": change}

    working_set = WorkingSet(lambda **_: {}, "s")
    for turn in (1, 2, 3):
        assert working_set.apply(envelope(turn))
    assert len(working_set._kept) == SESSION_KNOWN_MAX
    assert working_set.apply({**envelope(4), "items": [{"ref": "3-5"}]})
    assert not working_set.apply({**envelope(5), "items": [{"ref": "1-5"}]}), "what was let go is asked for again"


def _told(cursor: int, *items: str | dict[str, Any], evicted: tuple[str, ...] = (), stale: tuple[str, ...] = ()) -> Any:
    """An envelope as far as a working set reads it; an item that is a text was sent before."""
    change = {
        "new": [],
        "evicted": list(evicted),
        "superseded": [{"ref": ref, "replacement": None} for ref in stale],
        "cursor": str(cursor),
    }
    return {"items": [{"ref": one} if isinstance(one, str) else one for one in items], "working_memory": change}


def _item(ref: str, content: str = "x") -> dict[str, Any]:
    return {"ref": ref, "content": content, "occurred_at": None, "layer": "facts"}


def test_a_delta_that_comes_twice_is_taken_though_it_is_not_whole() -> None:
    working_set = WorkingSet(lambda **_: {}, "s")
    assert working_set.apply(_told(1, _item("a"), _item("b")))
    delta = _told(2, "a", _item("c"), evicted=("b",))
    assert working_set.apply(delta)
    assert working_set.apply(delta)
    assert [item["ref"] for item in working_set.items] == ["a", "c"]


def test_what_was_evicted_or_superseded_is_not_kept() -> None:
    working_set = WorkingSet(lambda **_: {}, "s")
    assert working_set.apply(_told(1, _item("a"), _item("b"), _item("c")))
    assert working_set.apply(_told(2, "c", evicted=("a",), stale=("b",)))
    for gone in ("a", "b"):
        assert not working_set.apply(_told(3, "c", gone)), "the session no longer has it, so it would be sent"


def test_what_changed_in_a_lost_turn_is_not_taken_from_before_it() -> None:
    """The engine holds that the lost turn came: it says `as before` of the form that was lost."""
    working_set = WorkingSet(lambda **_: {}, "s")
    assert working_set.apply(_told(1, _item("a", "in full, and more")))
    # turn 2, in which the memory stands as its first sentence, is lost; turn 3 is of another one
    assert working_set.apply(_told(3, _item("b")))
    assert not working_set.apply(_told(4, "a", "b"))
    assert working_set.apply(_told(5, _item("a", "in full"), _item("b")))
    assert [item["content"] for item in working_set.items] == ["in full", "x"]


def test_an_answer_to_another_task_that_comes_again_is_none() -> None:
    answers = [_told(1, _item("a")), _told(1, _item("a")), _told(2, _item("b"))]
    asked: list[Any] = []

    def answer(**arguments: Any) -> Any:
        asked.append(arguments.get("items"))
        return answers.pop(0)

    working_set = WorkingSet(answer, "s")
    assert [item["ref"] for item in working_set.update("one")] == ["a"]
    assert [item["ref"] for item in working_set.update("another")] == ["b"]
    assert asked == ["new", "new", None]
    answers += [_told(2, _item("b")), _told(2, _item("b"))]
    with pytest.raises(DependencyUnavailable):
        working_set.update("a third")


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lost=st.lists(st.booleans(), min_size=4, max_size=12), data=st.data())
def test_it_equals_the_pack_where_the_form_of_a_memory_changes(
    long_session: ContextSession, lost: list[bool], data: st.DataObject
) -> None:
    name = f"s{next(NUMBERS)}"
    working_set = WorkingSet(Line(long_session, list(lost)), name, model="claude")
    for _ in lost:
        task = data.draw(st.sampled_from(("price cap", "shipping rail Hamburg")))
        budget = data.draw(st.sampled_from((None, 300)))
        try:
            items = working_set.update(task, token_budget=budget)
        except ConnectionError:
            continue
        whole = long_session.envelope(task, model="claude", token_budget=budget)
        assert list(map(memory_of, items)) == list(map(memory_of, whole["items"]))


@pytest.fixture(scope="module")
def long_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContextSession]:
    """One memory that a small budget holds as its first sentence only."""
    with ContextSession(tmp_path_factory.mktemp("run"), job_id="j", run_id="r", principal="p") as session:
        long = "The price cap is 10.50 until June. " + "It was agreed after a long meeting about margins. " * 16
        session.observe(long, event_id="X", kind="fact")
        for number in range(6):
            session.observe(
                f"The price cap of item {number} is {number * 11} euros.", event_id=f"f{number}", kind="fact"
            )
        session.observe("Shipping goes by rail from Hamburg.", event_id="Y", kind="fact")
        yield session


def test_a_working_set_needs_a_session(session: ContextSession) -> None:
    with pytest.raises(InvalidInput):
        WorkingSet(session.envelope, "")
    with pytest.raises(InvalidInput):
        WorkingSet(session.envelope, "s").apply(session.envelope("door"))
