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
    # What a hidden card has ended has not ended for this asker, so the view tells, and not the record.
    superseded, resolved = view.superseded_by(stored.ordinal), view.resolved_by(stored.ordinal)
    return Seen(
        stored=replace(
            stored,
            card=card,
            superseded_revision=superseded and superseded[0],
            superseded_by=superseded and superseded[1],
            resolved_revision=resolved and resolved[0],
        ),
        conflicts=tuple(view.key(ordinal) for ordinal in view.conflicts(stored.ordinal)),
    )
