"""A record as cards: whole where it fits one, else consecutive pieces of its bytes, cut between lines or words.

Pieces lie side by side over one artifact and leave nothing out; a cut never falls inside a UTF-8 character. The first
piece points at the last (`last_piece`), so that a record's name can be read as all of its cards; each piece points at
the one before it (`continues`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mn_contract.limits import CARD_TEXT_BYTES_MAX

CONTINUES: Final = "continues"
LAST_PIECE: Final = "last_piece"
PIECES_MAX: Final = 1024
"""Cards of one event; larger records are put as artifacts and observed range by range."""

_CUTS: Final = (b"\n\n", b"\n", b" ")
_SHORTEST: Final = CARD_TEXT_BYTES_MAX // 2
"""A cut further back than this is not looked for: pieces stay large."""


def ranges(data: bytes) -> Iterator[tuple[int, int]]:
    """Half-open byte ranges of `data` (UTF-8) in order, each at most a card's text."""
    start = 0
    while start < len(data):
        end = _end(data, start)
        yield start, end
        start = end


def piece_id(event_id: str, number: int) -> str:
    """The id of a record's `number`-th piece, counted from 1."""
    return f"{event_id}/{number:04d}"


def _end(data: bytes, start: int) -> int:
    limit = start + CARD_TEXT_BYTES_MAX
    if limit >= len(data):
        return len(data)
    for cut in _CUTS:
        found = data.rfind(cut, start + _SHORTEST, limit)
        if found >= 0:
            return found + len(cut)
    while data[limit] & 0xC0 == 0x80:  # a continuation byte: the character began before
        limit -= 1
    return limit
