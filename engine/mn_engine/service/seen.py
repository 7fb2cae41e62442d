"""From a card to what one asker sees of it."""

from __future__ import annotations

from dataclasses import replace

from mn_engine.domain.cards import StoredCard
from mn_engine.domain.seen import Seen
from mn_engine.recall.view import View


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
