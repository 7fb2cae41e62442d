"""The ladder: what a memory that lost its place to the budget is reduced to before it is dropped.

full -> the stored summary, which is derived and says so -> the head sentence, an exact part of the text -> nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mn_engine.domain.cards import Card
from mn_engine.domain.packs import Form

_END: Final = re.compile(r"[.!?\u2026][\"'\u201d\u2019)\]]*(?=\s)|[\u3002\uff01\uff1f]|\n+(?=\S)")
"""Where a sentence may end."""
_ABBREVIATED: Final = re.compile(r"(?:\b(?:[A-Za-z]|e\.g|i\.e|etc|cf|vs|Mr|Mrs|Ms|Dr|Prof|St|No|Fig|approx|ca))\.$")
"""A full stop after one of these ends no sentence."""
_WORDS_MIN: Final = 3


def rungs(card: Card) -> Iterator[tuple[Form, int]]:
    """(form, end of the head in bytes) of each shorter form of a card, the fuller first."""
    if card.summary and len(card.summary) < len(card.text):
        yield Form.SUMMARY, 0
    end = head_end(card.text)
    if end and not card.derived:
        yield Form.HEAD, len(card.text[:end].encode("utf-8"))


def head_end(text: str) -> int:
    """Where the first sentence of a text ends, in characters; 0 where it is all one sentence."""
    for found in _END.finditer(text):
        end = found.start() if found.group().isspace() else found.end()
        head = text[:end]
        if len(head.split()) < _WORDS_MIN and found.group() not in "\u3002\uff01\uff1f":
            continue
        if found.group() == "." and _ABBREVIATED.search(head):
            continue
        return end if text[end:].strip() else 0
    return 0
