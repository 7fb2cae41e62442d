"""A card as one asker sees it: links to cards that the asker cannot read are not there (invariant 7)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mn_engine.domain.cards import CardKey, StoredCard
from mn_engine.recall.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A card and the live cards in conflict with it, as far as the asker can read them."""

    stored: StoredCard
    conflicts: tuple[CardKey, ...] = ()


def see(stored: StoredCard, view: View) -> Seen:
    """`stored` as `view`'s reader sees it."""
    card = stored.card
    links = tuple(link for link in card.relations if view.can_read(link.target))
    if len(links) != len(card.relations):
        card = replace(card, relations=links)
    by = stored.superseded_by
    return Seen(
        stored=replace(stored, card=card, superseded_by=by if by is not None and view.can_read(by) else None),
        conflicts=tuple(view.key(ordinal) for ordinal in view.conflicts(stored.ordinal)),
    )
