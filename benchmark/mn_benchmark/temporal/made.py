"""Facts that nobody said, as many as wanted, and questions that they answer.

People, organisations, modules by their paths and errors by their codes are said to have to do with each other, by
singular and plural predicates, in places told apart by qualifiers, over twenty years. Most facts of a place come in the
order in which they began to hold; one in ten is a correction that is dated back, half of these with an end; one in
twenty says otherwise of a time that was spoken of before. The same seed gives the same facts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

_Item = TypeVar("_Item")
Said = dict[str, Any]
"""A fact as `Facts.upsert_many` takes it."""

_NAMES: Final = {
    kind: words.split()
    for kind, words in {
        "first": "Ada Bo Cleo Dara Emil Fay Gus Hana Ivo Jun Kai Lena Milo Nora Omar Pia Quin Rosa Sven Tara",
        "last": "Adler Brandt Costa Diaz Egede Fiala Grant Horn Ito Jonas Keller Lund Mora Novak Okafor Pham Rossi",
        "what": "Amber Boreal Cobalt Delta Ember Fjord Granite Harbor Indigo Juniper Kestrel Lumen Meridian",
        "trade": "Bank Cargo Data Energy Foods Labs Media Power Rail Robotics Systems Textiles",
        "package": "billing search ingest ledger pricing routing storage gateway audit planner",
        "file": "rate_table userProfile merge_queue retryPolicy token_cache indexWriter batch_loader planNode",
        "failure": "TIMEOUT RATE_LIMIT BAD_CURSOR STALE_READ NO_QUORUM PARSE OVERFLOW",
        "city": "Accra Bergen Cork Delhi Essen Fukuoka Ghent Hanoi Izmir Jena Kyoto Lima Malmo Nantes Oslo",
        "role": "engineer auditor buyer director planner translator",
        "level": "minor major critical",
    }.items()
}
_FACTS_A_SUBJECT: Final = 20
_BACK_DATED, _DISPUTED, _ENDING = 0.1, 0.05, 0.1
_EPOCH: Final = datetime(2004, 1, 1)
_DAYS: Final = 20 * 365
_FIRST_DAYS: Final = 5 * 365
_STEP_DAYS: Final = (20, 1500)
_LATE_DAYS: Final = 6 * 365
_DAY_SECONDS: Final = 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class _Predicate:
    name: str
    objects: str
    """What kind of thing it is said to be; a kind of subject, or of object."""
    question: str
    singular: bool = True
    qualifiers: tuple[str, ...] = ("",)


_PREDICATES: Final = {
    "person": (
        _Predicate("lives_in", "city", "Where does {} live now?"),
        _Predicate("works_for", "firm", "Who does {} work for, and where is it based?"),
        _Predicate("has_role", "role", "What is the role of {}?"),
        _Predicate("phone", "number", "What is the phone number of {} at work?", qualifiers=("home", "work", "mobile")),
        _Predicate("knows", "person", "Who are the people that {} knows?", singular=False),
    ),
    "firm": (
        _Predicate("headed_by", "person", "Who is the head of {}, and where do they live?"),
        _Predicate("based_in", "city", "Where is {} based?"),
        _Predicate("owns", "firm", "What are the firms that {} owns?", singular=False),
    ),
    "module": (
        _Predicate("owned_by", "person", "Who is the owner of {}?"),
        _Predicate("version", "version", "Which version of {} is in production?", qualifiers=("staging", "production")),
        _Predicate("imports", "module", "What does {} import, and who owns that?", singular=False),
        _Predicate("raises", "error", "Which errors does {} raise?", singular=False),
    ),
    "error": (
        _Predicate("raised_in", "module", "Which module raises {}?"),
        _Predicate("severity", "level", "How severe is {}?"),
        _Predicate("fixed_in", "version", "In which versions is {} fixed?", singular=False),
    ),
}
_KINDS: Final = tuple(_PREDICATES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, of which subject and predicate."""

    text: str
    subject: str
    predicate: str


class Made:
    """`facts`, in the order in which they are recorded."""

    def __init__(self, count: int, seed: int) -> None:
        self._rng = random.Random(seed)
        self._subjects = max(count // _FACTS_A_SUBJECT, len(_KINDS))
        self._newest: dict[tuple[str, str, str], int] = {}
        """The day on which the newest fact of each place began to hold."""
        self.facts: list[Said] = [self._fact() for _ in range(count)]

    def questions(self, count: int, seed: int) -> list[Question]:
        """So many questions that facts answer."""
        asked = {one.name: one.question for some in _PREDICATES.values() for one in some}
        return [
            Question(
                text=asked[fact["predicate"]].format(fact["subject"]),
                subject=fact["subject"],
                predicate=fact["predicate"],
            )
            for fact in random.Random(seed).choices(self.facts, k=count)
        ]

    def times(self, count: int, seed: int) -> list[str]:
        """So many different times of the last years, when about as much held as holds now."""
        seconds = random.Random(seed).sample(range(_LATE_DAYS * _DAY_SECONDS), count)
        return [_time(_DAYS, -one) for one in seconds]

    def _fact(self) -> Said:
        rng = self._rng
        number = rng.randrange(self._subjects)
        kind = _KINDS[number % len(_KINDS)]
        subject, predicate = _name(kind, number), rng.choice(_PREDICATES[kind])
        qualifier = rng.choice(predicate.qualifiers)
        since, until = self._when((subject, predicate.name, qualifier))
        return {
            "subject": subject,
            "predicate": predicate.name,
            "object": self._object(predicate.objects),
            "qualifier": qualifier,
            "singular": predicate.singular,
            "valid_from": _time(since),
            **({} if until is None else {"valid_until": _time(until)}),
        }

    def _when(self, place: tuple[str, str, str]) -> tuple[int, int | None]:
        """When the next fact of a place begins to hold, and ends where it says so, in days."""
        rng, newest = self._rng, self._newest.get(place)
        drawn = rng.random()
        if newest is not None and drawn < _DISPUTED:
            return newest, None
        if newest is not None and newest > 1 and drawn < _DISPUTED + _BACK_DATED:
            since = rng.randrange(newest)
            return since, rng.randrange(since + 1, newest + 1) if rng.random() < 0.5 else None
        since = rng.randrange(_FIRST_DAYS) if newest is None else min(newest + rng.randint(*_STEP_DAYS), _DAYS)
        self._newest[place] = since
        return since, since + rng.randint(*_STEP_DAYS) if rng.random() < _ENDING else None

    def _object(self, kind: str) -> str:
        if kind in _KINDS:
            number = self._rng.randrange(self._subjects)
            return _name(kind, number - number % len(_KINDS) + _KINDS.index(kind))
        if kind == "number":
            return f"+47 {self._rng.randrange(10**8):08}"
        if kind == "version":
            return f"v{self._rng.randrange(9)}.{self._rng.randrange(40)}.{self._rng.randrange(20)}"
        return self._rng.choice(_NAMES[kind])


def batches(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """The items, `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _name(kind: str, number: int) -> str:
    """The name of a subject: a kind's numbers are those that are its place in _KINDS, modulo their count."""
    drawn = number // len(_KINDS)
    if kind == "person":
        return _joined("{} {}{}", " {}", drawn, "first", "last")
    if kind == "firm":
        return _joined("{} {}{}", " {}", drawn, "what", "trade")
    if kind == "module":
        return _joined("src/{}/{}{}.py", "_{}", drawn, "package", "file")
    failures = _NAMES["failure"]
    return f"ERR_{failures[drawn % len(failures)]}_{1000 + drawn}"


def _joined(form: str, mark: str, number: int, one: str, other: str) -> str:
    """A name of two words, and of a number where others are made of the same words."""
    ones, others = _NAMES[one], _NAMES[other]
    again = number // (len(ones) * len(others))
    words = ones[number % len(ones)], others[number // len(ones) % len(others)]
    return form.format(*words, mark.format(again + 1) if again else "")


def _time(day: int, seconds: int = 0) -> str:
    return f"{(_EPOCH + timedelta(days=day, seconds=seconds)).isoformat()}Z"
