"""Every source range of every recalled card is read back and checked before a model sees it (invariant 6)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Protocol

from mn.context.working.v1 import artifact_pb2, card_pb2
from mn_contract.errors import SourceMismatch

Span = tuple[str, int, int, str]


class Reader(Protocol):
    """Reads ranges of artifacts."""

    def read_ranges(self, ranges: Sequence[artifact_pb2.SourceRange]) -> list[bytes]: ...


def verify(reader: Reader, cards: Iterable[card_pb2.Card]) -> int:
    """Checks the cards' texts and everything they cite against frozen bytes, in one read; answers how many ranges.

    Raises SourceMismatch; then none of the cards may be used.
    """
    cards = list(cards)
    spans: dict[Span, artifact_pb2.SourceRange] = {}
    for card in cards:
        for cited in (card.body, *card.sources):
            spans.setdefault(_span(cited), cited)
    found = dict(zip(spans, reader.read_ranges(list(spans.values())), strict=True)) if spans else {}
    for span, data in found.items():
        _check(hashlib.sha256(data).hexdigest() == span[3] and len(data) == span[2] - span[1], span)
    for card in cards:
        span = _span(card.body)
        _check(found[span] == card.text.encode("utf-8"), span)
    return len(spans)


def _span(cited: artifact_pb2.SourceRange) -> Span:
    return cited.artifact_sha256, cited.start, cited.end, cited.sha256


def _check(holds: bool, span: Span) -> None:
    if not holds:
        artifact, start, end, _ = span
        raise SourceMismatch(
            "recalled bytes are not those that were recorded; the evidence was not used",
            artifact_sha256=artifact,
            start=start,
            end=end,
        )
