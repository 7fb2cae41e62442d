"""Random histories of places, and what held by a naive model: a calendar that is written on and never worked out.

A calendar has a sheet for each year, with the facts that hold in it. A plural fact is written on its years. A singular
one takes the place of all that stands on its years; where it says no end it goes on up to the next year on whose sheet
something begins. A fact that is said again, the same object from the same year on, was never said before. What was
known after so many steps is a calendar written from those alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mn_benchmark.report import ALL, OURS, Sample
from mn_benchmark.temporal.made import Said, batches
from mn_benchmark.temporal.open import OpenRecord
from mn_contract.limits import BATCH_CARDS_MAX
from mn_engine.store.memory import MemoryStore

YEARS: Final = 12
"""Sheets of a calendar; what holds in the last one holds on."""
_STEPS: Final = 8
_OBJECTS: Final = ("red", "green", "blue")
_PREDICATES: Final = ("shows", "shown in", "show")
"""Alike, so that likeness would retire facts that have nothing to do with each other."""
_QUALIFIERS: Final = ("", "", "left")
_PLURAL: Final = 0.15
_TIMES: Final = 2
"""Times asked of each history after a step of its own choice, and of what is known at the end."""
_COMPILED: Final = 10
"""One history in so many is asked by contexts, too."""
_TOKENS: Final = 1000
_TOLD_AFTER: Final = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A fact of a history: in which place, and the years [since, until) that it gives (None: no end)."""

    place: tuple[str, str]
    object: str
    since: int
    until: int | None
    singular: bool

    def said(self, subject: str) -> Said:
        """As it is recorded."""
        predicate, qualifier = self.place
        until = {} if self.until is None else {"valid_until": moment(self.until)}
        return {
            "subject": subject,
            "predicate": predicate,
            "object": self.object,
            "qualifier": qualifier,
            "singular": self.singular,
            "valid_from": moment(self.since),
            **until,
        }


def drawn(rng: random.Random) -> list[Step]:
    """A history of one subject, in the order in which it is recorded."""
    places = [(rng.choice(_PREDICATES), rng.choice(_QUALIFIERS)) for _ in range(rng.choice((1, 1, 2)))]
    return [_step(rng, rng.choice(places)) for _ in range(rng.randint(1, _STEPS))]


def _step(rng: random.Random, place: tuple[str, str]) -> Step:
    since = rng.randrange(1, YEARS - 2)
    return Step(
        place=place,
        object=rng.choice(_OBJECTS),
        since=since,
        until=rng.randrange(since + 1, YEARS) if rng.random() < 0.35 else None,
        singular=rng.random() >= _PLURAL,
    )


def calendar(steps: Sequence[Step]) -> list[set[int]]:
    """The facts, by their number, that hold in each year."""
    sheets: list[set[int]] = [set() for _ in range(YEARS)]
    for place in {step.place for step in steps}:
        for year, holding in enumerate(_calendar_of(place, steps)):
            sheets[year] |= holding
    return sheets


def _calendar_of(place: tuple[str, str], steps: Sequence[Step]) -> list[set[int]]:
    sheets: list[set[int]] = [set() for _ in range(YEARS)]
    for number, step in enumerate(steps):
        said = (place, step.object, step.since)
        if step.place != place or any(said == (one.place, one.object, one.since) for one in steps[number + 1 :]):
            continue
        begins = [year for year in range(1, YEARS) if sheets[year] - sheets[year - 1]]
        end = YEARS if step.until is None else step.until
        if step.singular and step.until is None:
            end = min((year for year in begins if year > step.since), default=YEARS)
        for year in range(step.since, end):
            sheets[year] = {number} if step.singular else sheets[year] | {number}
    return sheets


def checked(count: int, seed: int, progress: Callable[[str], None]) -> Iterator[Sample]:
    """Histories, each of a subject of its own, in one run: the first facts of all, then the second ones, and so on.
    Then each is asked what held at times by chance, now and as it was known after a step by chance. For each history:
    whether nothing was told that did not hold (`stale_suppressed`) and all that held was (`past_found`); `contexts` of
    compiled ones."""
    rng = random.Random(seed)
    told = _Histories([drawn(rng) for _ in range(count)])
    with OpenRecord(MemoryStore()) as opened:
        told.record(opened, progress)
        yield from told.asked(opened, rng, progress)
        yield from told.compiled(opened, rng, progress)


class _Histories:
    def __init__(self, histories: Sequence[Sequence[Step]]) -> None:
        self._histories = histories
        self._subjects = [f"sign {number}" for number in range(len(histories))]
        self._refs: list[list[str]] = [[] for _ in histories]
        """The references of each history's facts."""
        self._of: dict[str, tuple[int, int]] = {}
        """Of which history a reference is, and its number there."""
        self._revisions: list[int] = []
        """The run's revision after each step."""

    def record(self, opened: OpenRecord, progress: Callable[[str], None]) -> None:
        """Records all of them, step by step."""
        facts = opened.facts()
        for step in range(_STEPS):
            some = [number for number, one in enumerate(self._histories) if step < len(one)]
            progress(f"temporal: step {step + 1} of {_STEPS} of {len(some):,} histories")
            for batch in batches(some, BATCH_CARDS_MAX):
                said = [self._histories[number][step].said(self._subjects[number]) for number in batch]
                refs = facts.upsert_many(said, key=f"{step}-{batch[0]}")["refs"]
                for number, ref in zip(batch, refs, strict=True):
                    self._of[ref] = number, len(self._refs[number])
                    self._refs[number].append(ref)
            self._revisions.append(opened.revision)

    def asked(self, opened: OpenRecord, rng: random.Random, progress: Callable[[str], None]) -> Iterator[Sample]:
        """By time travel. Questions of one time and revision follow each other, so that they share a view."""
        facts = opened.facts()
        questions = []
        for number, history in enumerate(self._histories):
            some = {(_STEPS, rng.randrange(YEARS)) for _ in range(_TIMES)}
            some |= {(rng.randint(1, len(history)), rng.randrange(YEARS)) for _ in range(_TIMES)}
            questions += [(steps, year, number) for steps, year in some]
        questions.sort()
        clean, found = [1.0] * len(self._histories), [1.0] * len(self._histories)
        for at, (steps, year, number) in enumerate(questions):
            if at % _TOLD_AFTER == 0:
                progress(f"temporal: time travel, question {at + 1:,} of {len(questions):,}")
            answer = facts.time_travel(
                moment(year, inside=True), recorded_as_of=self._revisions[steps - 1], subject=self._subjects[number]
            )
            held = self._held(number, steps, year)
            refs = [fact["ref"] for fact in answer["facts"]]
            if not held.issuperset(refs) or len(refs) != len(set(refs)):
                clean[number] = 0.0
            if not held.issubset(refs):
                found[number] = 0.0
        yield from _told(ALL, clean, found)

    def compiled(self, opened: OpenRecord, rng: random.Random, progress: Callable[[str], None]) -> Iterator[Sample]:
        """By contexts, whose every fact is looked at, of whatever history: one now, and one as of a time."""
        facts = opened.facts()
        some = range(0, len(self._histories), _COMPILED)
        progress(f"temporal: contexts of {len(some):,} histories, now and then")
        clean, found = dict.fromkeys(some, 1.0), dict.fromkeys(some, 1.0)
        now = [(YEARS - 1, number) for number in some]
        then = sorted((rng.randrange(YEARS), number) for number in some)
        for year, number in [*now, *then]:  # what holds in the last year holds now
            as_of = None if year == YEARS - 1 else moment(year, inside=True)
            question = f"What does {self._subjects[number]} show?"
            refs = facts.compile(question, max_tokens=_TOKENS, as_of=as_of)["refs"]
            if not all(self._holds(ref, year) for ref in refs):
                clean[number] = 0.0
            if not self._statements(self._held(number, _STEPS, year)) <= self._statements(refs):
                found[number] = 0.0
        yield from _told("contexts", list(clean.values()), list(found.values()))

    def _held(self, number: int, steps: int, year: int) -> set[str]:
        """What held of a history in a year, as known after so many steps."""
        return {self._refs[number][fact] for fact in calendar(self._histories[number][:steps])[year]}

    def _statements(self, refs: Iterable[str]) -> set[tuple[int, tuple[str, str], str]]:
        """What facts say: of several that say the same a context tells one."""
        named = [(number, self._histories[number][fact]) for number, fact in map(self._of.__getitem__, refs)]
        return {(number, step.place, step.object) for number, step in named}

    def _holds(self, ref: str, year: int) -> bool:
        number, fact = self._of[ref]
        return fact in calendar(self._histories[number])[year]


def _told(case: str, clean: Sequence[float], found: Sequence[float]) -> Iterator[Sample]:
    for metric, values in (("stale_suppressed", clean), ("past_found", found)):
        yield Sample(case=case, system=OURS, metric=metric, values=values)


def moment(year: int, *, inside: bool = False) -> str:
    """The beginning of a calendar's year, or a time within."""
    return f"{1990 + year}-{'07-02T11:30:00' if inside else '01-01T00:00:00'}Z"
