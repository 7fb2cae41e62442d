"""Evidence is used as it was recorded or not at all (invariant 6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from mn.context.working.v1 import artifact_pb2, card_pb2
from mn_contract.errors import SourceMismatch
from mn_sdk.context_session.verify import verify
from tests.unit.sdk.sessions import card


class Reader:
    """Reads what it is told to."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.reads: list[int] = []

    def read_ranges(self, ranges: Sequence[artifact_pb2.SourceRange]) -> list[bytes]:
        self.reads.append(len(ranges))
        return self.answers


def test_every_range_is_read_once_and_in_one_read() -> None:
    one, two = card("o1", "first"), card("o2", "second")
    two.sources.add().CopyFrom(one.body)
    reader = Reader(b"first", b"second")
    assert verify(reader, [one, two]) == 2
    assert reader.reads == [2]
    assert verify(Reader(), []) == 0


def _text(tampered: card_pb2.Card) -> None:
    tampered.text = "other"


def _hash(tampered: card_pb2.Card) -> None:
    tampered.body.sha256 = "0" * 64
    tampered.sources[0].sha256 = "0" * 64


def _no_hash(tampered: card_pb2.Card) -> None:
    tampered.body.sha256 = ""
    tampered.sources[0].sha256 = ""


def _range(tampered: card_pb2.Card) -> None:
    tampered.body.end += 1
    tampered.sources[0].end += 1


@pytest.mark.parametrize("tamper", [_text, _hash, _no_hash, _range])
def test_a_card_that_is_not_what_was_recorded_is_refused(tamper: Callable[[card_pb2.Card], None]) -> None:
    tampered = card("o1", "first")
    tamper(tampered)
    with pytest.raises(SourceMismatch):
        verify(Reader(b"first"), [tampered])


def test_bytes_that_are_not_what_was_recorded_are_refused() -> None:
    with pytest.raises(SourceMismatch):
        verify(Reader(b"fIrst"), [card("o1", "first")])
