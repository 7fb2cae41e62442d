"""Memories for tests of packs, made by hand."""

from __future__ import annotations

import hashlib
from typing import Any

from mn_engine.domain.cards import Card, CardKey, Kind, SourceRange, StoredCard
from mn_engine.domain.packets import Why
from mn_engine.domain.packs import PackItem
from mn_engine.domain.seen import Seen

OWNER = "ada"
NOON = 1_700_000_000_000_000


def memory(
    name: str, text: str, kind: Kind = Kind.FACT, *, conflicts: tuple[str, ...] = (), rank: int = 0, **fields: Any
) -> PackItem:
    """A memory as a candidate."""
    data = text.encode()
    sha256 = hashlib.sha256(data).hexdigest()
    body = SourceRange(artifact=sha256, start=0, end=len(data), sha256=sha256)
    card = Card(
        owner=OWNER,
        id=name,
        kind=kind,
        text=text,
        body=body,
        sources=fields.pop("sources", (body,)),
        captured_at=fields.pop("captured_at", NOON),
        **fields,
    )
    seen = Seen(stored=StoredCard(card=card, ordinal=1), conflicts=tuple(CardKey(OWNER, key) for key in conflicts))
    return PackItem(seen=seen, why=Why(rank=rank, score=1000 - rank if rank else 0))


def words(item: PackItem) -> int:
    """A cost that needs no tokenizer: the words of what is shown, and one for what is said about it."""
    return len(item.content.split()) + 1 + len(item.folded.refs)
