"""What is known: facts with the times at which they hold, and what they rest on, as an asker is told them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mn_contract.names import format_ref
from mn_engine.domain.cards import Card, CardKey
from mn_engine.domain.facts import FOREVER, Fact
from mn_engine.domain.seen import Seen
from mn_engine.domain.times import MICROS_MAX, format_rfc3339

STATED_IN = "stated_in"
"""The relation of a fact to the episode that it was read in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFact:
    """A fact, the spans in which it holds (ascending; FOREVER where they have no end), those that say otherwise of its
    time from other sources, and the one that holds after it."""

    seen: Seen
    spans: tuple[tuple[int, int], ...]
    contradicts: tuple[CardKey, ...] = ()
    successor: CardKey | None = None

    @property
    def card(self) -> Card:
        """Its card."""
        return self.seen.stored.card

    @property
    def fact(self) -> Fact:
        """What it says."""
        assert self.card.fact is not None, "the card says no triple"
        return self.card.fact

    def document(self, asker: str) -> dict[str, Any]:
        """As `asker` reads it: `held` are the spans in which it holds, `valid_from` and `valid_until` what was said."""
        card, stored, fact = self.card, self.seen.stored, self.fact
        by = self.successor or stored.superseded_by
        return {
            "ref": format_ref(card.owner, card.id, asker),
            "subject": fact.subject,
            "predicate": fact.predicate,
            "object": fact.object,
            "qualifier": fact.qualifier or None,
            "singular": fact.singular,
            "valid_from": _time(card.valid_from),
            "valid_until": _time(card.valid_until),
            "held": [{"from": _time(since), "until": _time(until)} for since, until in self.spans],
            "recorded_at": _time(card.captured_at),
            "recorded_revision": stored.revision,
            "superseded_by": by and format_ref(by.owner, by.id, asker),
            "contradicts": [format_ref(key.owner, key.id, asker) for key in self.contradicts],
            "confidence": card.confidence,
            "source_url": card.source_url or None,
            "stated_in": [format_ref(key.owner, key.id, asker) for key in card.targets(STATED_IN)],
            "sources": [
                {"artifact": source.artifact, "start": source.start, "end": source.end, "sha256": source.sha256}
                for source in card.sources
            ],
        }


def _time(micros: int | None) -> str | None:
    return None if micros is None or micros in (FOREVER, MICROS_MAX) else format_rfc3339(micros)
