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


def test_a_working_set_needs_a_session(session: ContextSession) -> None:
    with pytest.raises(InvalidInput):
        WorkingSet(session.envelope, "")
    with pytest.raises(InvalidInput):
        WorkingSet(session.envelope, "s").apply(session.envelope("door"))
