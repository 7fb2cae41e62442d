"""A card as one asker sees it: links to cards that the asker cannot read are not there (invariant 7)."""

from __future__ import annotations

from dataclasses import dataclass

from mn_engine.domain.cards import CardKey, StoredCard


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A card and the live cards in conflict with it, as far as the asker can read them."""

    stored: StoredCard
    conflicts: tuple[CardKey, ...] = ()
