"""Facts: what somebody said of a subject, and when it held, on two axes of time.

A fact is a card that says (subject, predicate, object), with a qualifier where one predicate has several places: an
address at home and one at work. Valid time is the card's, `valid_from` to `valid_until`; recorded time is its revision.
A predicate that is said to be singular has one object at a time. What that means for facts that were recorded one after
another is worked out from them whenever it is asked, and never stored: so every reader has a history of what they may
read (invariant 7), at every revision.

The rule, for the facts of one subject, predicate and qualifier, in the order in which they were recorded:

- A fact that was said again, the same object from the same time on, stands as it was said last.
- A singular fact holds from its `valid_from` to its `valid_until`; without one, to the next beginning that was known
  when it was recorded. There it takes the place of what was said before; what that said of other times stands.
- A plural fact takes nobody's place.

Other facts, however alike, have nothing to do with it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mn_contract.facts import fact_entities, fact_text, same
from mn_contract.limits import FACT_OBJECT_BYTES_MAX
from mn_contract.names import check_label, check_text
from mn_engine.domain.hashes import hash64
from mn_engine.domain.times import MICROS_MAX

FOREVER: Final = MICROS_MAX + 1
"""The end of what has none, so that ends are compared as numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """What a card says, as a triple."""

    subject: str
    predicate: str
    object: str
    qualifier: str = ""
    singular: bool = True

    def __post_init__(self) -> None:
        check_label(self.subject, "subject")
        check_label(self.predicate, "predicate")
        check_text(self.object, "object", FACT_OBJECT_BYTES_MAX, bytes_min=1)
        if self.qualifier:
            check_label(self.qualifier, "qualifier")
        for name in ("subject", "predicate", "object"):
            if not getattr(self, name).strip():
                check_text("", name, FACT_OBJECT_BYTES_MAX, bytes_min=1)

    @property
    def place_hash(self) -> int:
        """64 bits that stand for what has one object at a time: subject, predicate and qualifier, as `same` reads
        them."""
        return hash64("\0".join(map(same, (self.subject, self.predicate, self.qualifier))))

    @property
    def triple_hash(self) -> int:
        """64 bits that stand for the same with its object, which counts to the letter."""
        return hash64("\0".join((*map(same, (self.subject, self.predicate, self.qualifier)), self.object.strip())))

    @property
    def statement(self) -> str:
        """It in words."""
        return fact_text(self.subject, self.predicate, self.object, self.qualifier)

    @property
    def entities(self) -> tuple[str, ...]:
        """Whom it is about."""
        return fact_entities(self.subject, self.object)

    def as_json(self) -> list[Any]:
        """[subject, predicate, object, qualifier, singular]."""
        return [self.subject, self.predicate, self.object, self.qualifier, self.singular]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Fact:
        """The inverse of as_json."""
        subject, predicate, object_, qualifier, singular = value
        return cls(subject=subject, predicate=predicate, object=object_, qualifier=qualifier, singular=singular)


@dataclass(frozen=True, slots=True)
class Said:
    """One fact of a place, as a timeline sees it. `until` is FOREVER where the fact gives no end."""

    triple: Hashable
    since: int
    until: int
    singular: bool


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """When a fact holds: [since, until), and its number among those that were given."""

    since: int
    until: int
    fact: int


def timeline(said: Sequence[Said]) -> list[Span]:
    """When each of these facts of one place holds, ascending; they are given in the order in which they were recorded.

    Spans of singular facts do not overlap. A fact may have several, or none.
    """
    last = {(one.triple, one.since): number for number, one in enumerate(said)}
    spans: list[Span] = []
    disjoint = True
    for number, one in enumerate(said):
        if last[one.triple, one.since] != number:
            continue
        if not one.singular:
            _insert(spans, Span(one.since, one.until, number))
            disjoint = False
            continue
        until = one.until
        if until == FOREVER:
            at = bisect_right(spans, one.since, key=lambda span: span.since)
            until = spans[at].since if at < len(spans) else FOREVER
        # Of spans that do not overlap, those that the new one touches stand side by side.
        first = bisect_right(spans, one.since, key=lambda span: span.until) if disjoint else 0
        end = bisect_left(spans, until, key=lambda span: span.since) if disjoint else len(spans)
        touched = spans[first : max(first, end)]
        spans[first : max(first, end)] = sorted([*_without(touched, one.since, until), Span(one.since, until, number)])
    return spans


def holders(spans: Iterable[Span], time: int) -> list[int]:
    """The facts that hold at a time, in the order in which they were recorded."""
    return sorted({span.fact for span in spans if span.since <= time < span.until})


def heads(said: Sequence[Said], spans: Sequence[Span]) -> list[int]:
    """The facts that are the newest of a place in valid time, in the order in which they were recorded: the singular
    one that holds last, and plural ones whose end nobody has taken."""
    ends: dict[int, int] = {}
    for span in spans:
        ends[span.fact] = max(ends.get(span.fact, span.until), span.until)
    last = max((end for fact, end in ends.items() if said[fact].singular), default=None)
    return sorted(fact for fact, end in ends.items() if end == (last if said[fact].singular else said[fact].until))


def successor(said: Sequence[Said], spans: Sequence[Span], fact: int) -> int | None:
    """The fact that stands where this one ends or, where it holds at no time, where it was to begin; None for heads and
    where nothing follows."""
    if fact in heads(said, spans):
        return None
    again = [
        number
        for number, one in enumerate(said)
        if number > fact and (one.triple, one.since) == (said[fact].triple, said[fact].since)
    ]
    if again:
        return again[-1]
    own = [span for span in spans if span.fact == fact]
    if not own:
        return next((span.fact for span in spans if span.since <= said[fact].since < span.until), None)
    end = max(span.until for span in own)
    return next((span.fact for span in spans if span.since >= end and said[span.fact].singular), None)


def contradictions(said: Sequence[Said], sources: Sequence[frozenset[Hashable]]) -> list[tuple[int, int]]:
    """Pairs of singular facts of one place that say otherwise of one time, from sources that have nothing in common;
    each pair in the order in which it was recorded.

    A fact speaks of the time that it gives. One that gives no end speaks up to the next beginning: that something else
    came to hold later is no contradiction, but what time brings.
    """
    last = {(one.triple, one.since): number for number, one in enumerate(said)}
    facts = [number for number, one in enumerate(said) if one.singular and last[one.triple, one.since] == number]
    begins = sorted({said[number].since for number in facts})

    def ends(one: Said) -> int:
        if one.until != FOREVER:
            return one.until
        at = bisect_right(begins, one.since)
        return begins[at] if at < len(begins) else FOREVER

    facts.sort(key=lambda number: said[number].since)
    pairs = []
    for place, one in enumerate(facts):
        end = ends(said[one])
        for other in facts[place + 1 :]:
            if said[other].since >= end:
                break
            overlap = said[other].since < ends(said[other])
            if overlap and said[one].triple != said[other].triple and not sources[one] & sources[other]:
                pairs.append((min(one, other), max(one, other)))
    return sorted(pairs)


def _insert(spans: list[Span], span: Span) -> None:
    spans.insert(bisect_right(spans, span), span)


def _without(spans: Iterable[Span], since: int, until: int) -> Iterable[Span]:
    """What the spans say of other times than [since, until)."""
    for span in spans:
        if span.since < min(span.until, since):
            yield Span(span.since, min(span.until, since), span.fact)
        if max(span.since, until) < span.until:
            yield Span(max(span.since, until), span.until, span.fact)
