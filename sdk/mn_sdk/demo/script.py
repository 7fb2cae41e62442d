"""The investigation: what each decision reads, observes, owes and asks. A plan made from the material, the same every
time.

Each decision reads the next share of the material, asks about the most telling new word in it, and looks in what it has
read for lines that speak against relying on what the word names.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

from mn_contract.errors import InvalidInput
from mn_sdk.demo.material import Unit

_WORD: Final = re.compile(r"[a-z]{5,24}")
_DOUBT: Final = re.compile(
    r"\b(not|never|cannot|deprecated|unsafe|insecure|without|bug|broken|unsupported|fails?|wrong|obsolete)\b",
    re.IGNORECASE,
)
_PLAIN: Final = frozenset(
    ("class", "false", "raise", "value", "values", "other", "about", "which", "there", "import", "return")
)
_LINE_CHARS_MAX: Final = 300
_DOUBTS_MAX: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A line that speaks against relying on something: where it stands in its unit, in bytes."""

    unit: Unit
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision of the script. `number` counts from 1."""

    number: int
    units: tuple[Unit, ...]
    word: str
    doubts: tuple[Doubt, ...]

    @property
    def name(self) -> str:
        """The name of its model call."""
        return f"decision-{self.number:03d}"

    @property
    def claim(self) -> str:
        """The claim that it weighs."""
        return f"the code can rely on {self.word}"

    @property
    def question(self) -> str:
        """What it asks."""
        return f"What does the record say about {self.word}, and what speaks against relying on it?"


def plan(units: list[Unit], count: int) -> list[Decision]:
    """`count` decisions over the units. Raises InvalidInput where the material has too few words to ask about."""
    overall: Counter[str] = Counter()
    words = []
    for unit in units:
        found = set(_WORD.findall(unit.text.lower())) - _PLAIN
        words.append(found)
        overall.update(found)
    bounds = [len(units) * at // count for at in range(count + 1)]
    used: set[str] = set()
    decisions = []
    for number in range(1, count + 1):
        first, last = bounds[number - 1], bounds[number]
        share = range(first, last) if last > first else range(max(first - 1, 0), max(first, 1))
        word = _telling([(units[at], words[at]) for at in share], overall, used)
        used.add(word)
        doubts = tuple(_doubts([units[at] for at in share], word))
        decisions.append(Decision(number=number, units=tuple(units[first:last]), word=word, doubts=doubts))
    return decisions


def _telling(share: list[tuple[Unit, set[str]]], overall: Counter[str], used: set[str]) -> str:
    """The unused word that is frequent here and rare elsewhere; in what is doubted first. Ties go by the alphabet."""
    counts: Counter[str] = Counter()
    for unit, words in share:
        text = unit.text.lower()
        for word in words - used:
            counts[word] += min(text.count(word), 20)
        for line in text.splitlines():
            if len(line) <= _LINE_CHARS_MAX and _DOUBT.search(line):
                for word in set(_WORD.findall(line)) & words - used:
                    counts[word] += 5
    if not counts:
        raise InvalidInput("the input has too few words to ask about; give more of it", field="--input")
    return min(counts, key=lambda word: (-counts[word] / (overall[word] + 2), word))


def _doubts(units: list[Unit], word: str) -> list[Doubt]:
    found = []
    for unit in units:
        start = 0
        for line in unit.text.encode().splitlines(keepends=True):
            text = line.decode().strip()
            if word in text.lower() and len(text) <= _LINE_CHARS_MAX and _DOUBT.search(text):
                inside = line.decode().index(text)
                begin = start + len(line.decode()[:inside].encode())
                found.append(Doubt(unit=unit, start=begin, end=begin + len(text.encode()), text=text))
                if len(found) == _DOUBTS_MAX:
                    return found
            start += len(line)
    return found
