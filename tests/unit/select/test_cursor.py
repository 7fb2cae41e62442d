"""Cursors: good for one request, run and principal; the same everywhere; refused when they were touched."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_contract.errors import InvalidInput
from mn_contract.limits import CURSOR_BYTES_MAX
from mn_engine.domain.scope import Scope
from mn_engine.select import cursor as cursor_module
from mn_engine.select.cursor import AHEAD_MAX, SKIPPED_MAX, Position, decode_cursor, encode_cursor
from mn_engine.select.room import TOKENS_ANY, Room
from tests.unit.recall.corpus import SAMPLE, scope

REQUEST, OTHER_REQUEST = "1" * 64, "2" * 64


@st.composite
def positions(draw: st.DrawFn) -> Position:
    end = draw(st.integers(0, 5000))
    skipped = draw(st.sets(st.integers(0, max(end - 1, 0)), max_size=min(60, end)))
    ahead = draw(st.sets(st.integers(end, end + 5000), max_size=20))
    room = Room(draw(st.integers(0, 1 << 24)), draw(st.one_of(st.just(TOKENS_ANY), st.integers(0, 1 << 24))))
    return Position(end=end, skipped=tuple(sorted(skipped)), ahead=tuple(sorted(ahead)), room=room)


def encoded(position: Position, revision: int = 7) -> str:
    return encode_cursor(position, revision=revision, request_digest=REQUEST, scope=scope("alice", "r"))


def decoded(text: str, request: str = REQUEST, reader: Scope | None = None) -> tuple[Position, int]:
    return decode_cursor(text, request_digest=request, scope=reader or scope("alice", "r"))


@SAMPLE
@given(positions(), st.integers(0, (1 << 43) - 1))
def test_a_cursor_comes_back_as_it_was_given(position: Position, revision: int) -> None:
    text = encoded(position, revision)
    assert decoded(text) == (position, revision)
    assert text.isascii()
    assert not set(text) & set("+/= ")


def test_the_same_position_has_the_same_cursor_everywhere() -> None:
    """Invariant 5, against a cursor that was written down."""
    assert (
        encoded(Position(end=200, skipped=(3, 4, 9), room=Room(4096, 100), ahead=(207,)))
        == "mnc2.PIhiOzY5ORV3Ow4ta12hzQfIAYAgZALPAQEDAgQB"
    )


@SAMPLE
@given(positions(), st.data())
def test_no_character_of_a_cursor_can_be_changed(position: Position, data: st.DataObject) -> None:
    text = encoded(position)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda char: char != text[at]))
    with pytest.raises(InvalidInput) as caught:
        decoded(text[:at] + other + text[at + 1 :])
    assert caught.value.field == "cursor"


@SAMPLE
@given(positions(), st.data())
def test_no_part_of_a_cursor_can_be_cut_or_added(position: Position, data: st.DataObject) -> None:
    text = encoded(position)
    for changed in (text[: data.draw(st.integers(0, len(text) - 1))], text + data.draw(st.text(min_size=1))):
        with pytest.raises(InvalidInput):
            decoded(changed)


@pytest.mark.parametrize(
    "reader",
    [
        scope("bob", "r"),
        scope("alice"),
        scope("alice", "r", "s"),
        Scope(job_id="job", run_id="other", principal="alice", roles=frozenset({"r"})),
        Scope(job_id="other", run_id="run", principal="alice", roles=frozenset({"r"})),
    ],
)
def test_a_cursor_is_no_good_to_another_principal_or_run(reader: Scope) -> None:
    """Invariant 7."""
    with pytest.raises(InvalidInput):
        decoded(encoded(Position(end=1)), reader=reader)


def test_a_cursor_is_no_good_for_another_request() -> None:
    with pytest.raises(InvalidInput):
        decoded(encoded(Position(end=1)), request=OTHER_REQUEST)


@SAMPLE
@given(
    st.one_of(
        st.text(), st.text().map("mnc2.".__add__), st.binary().map(lambda raw: "mnc2." + base64.b64encode(raw).decode())
    )
)
def test_garbage_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        decoded(text)
    assert caught.value.field == "cursor"


def test_a_cursor_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidInput):
        decoded("mnc2." + "A" * CURSOR_BYTES_MAX)


def test_the_fullest_position_has_a_cursor_within_its_limit() -> None:
    """Runs as far apart as 16 million cards allow, which takes most bytes."""
    wide = [16_390 * at for at in range(1000)]
    close = [wide[-1] + 190 * at for at in range(1, SKIPPED_MAX - 999)]
    end = close[-1] + 1
    ahead = tuple(end + 190 * at for at in range(AHEAD_MAX))
    room = Room(1 << 24, TOKENS_ANY)
    text = encoded(Position(end=end, skipped=(*wide, *close), ahead=ahead, room=room), (1 << 43) - 1)
    assert len(text) <= CURSOR_BYTES_MAX
    assert decoded(text)[0].skipped == (*wide, *close)


forgeries: list[tuple[str, list[int]]] = [
    ("nothing", []),
    ("no whole head", [7, 10, 5, 9]),
    ("no runs but half of one", [7, 10, 5, 9, 0, 1]),
    ("a run past the end", [7, 10, 5, 9, 0, 8, 3]),
    ("a run without length", [7, 10, 5, 9, 0, 1, 0]),
    ("two runs that are one", [7, 10, 5, 9, 0, 1, 1, 0, 1]),
    ("more runs than any", [7, 1 << 40, 5, 9, 0, 0, 1 << 39]),
    ("more ahead than any", [7, 10, 5, 9, 2, 11, 1 << 20]),
    ("half a run ahead", [7, 10, 5, 9, 1, 11]),
    ("more ahead than there is", [7, 10, 5, 9, 4, 11, 1]),
    ("an endless number", [1 << 80, 10, 5, 9, 0]),
]


@pytest.mark.parametrize("numbers", [numbers for _, numbers in forgeries], ids=[name for name, _ in forgeries])
def test_a_forged_cursor_with_a_right_check_is_refused_where_no_page_gave_it(numbers: list[int]) -> None:
    """The check is no secret: what a cursor says is checked, too."""
    varint: Callable[[int], bytes] = cursor_module._varint
    payload = b"".join(varint(number) for number in numbers)
    check = cursor_module._check(payload, REQUEST, scope("alice", "r"))
    with pytest.raises(InvalidInput):
        decoded("mnc2." + cursor_module._base64(check + payload))
