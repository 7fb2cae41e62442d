"""From text to what might be facts: simple sentences and `key: value` lines, with where each stands. Deterministic.

What comes out is proposed and written by nobody: whoever asked looks at it and says what to record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mn_contract.limits import FACT_OBJECT_BYTES_MAX, LABEL_BYTES_MAX

_PROPOSED_MAX: Final = 256
_VERBS: Final = (
    "is|are|was|were|has|have|had|uses|use|used|owns|owned|runs|ran|needs|requires|supports|contains|includes|returns|"
    "depends on|belongs to|works at|works for|works on|worked at|worked for|lives in|lived in|moved to|reports to|"
    "replaces|replaced|prefers|likes|wants|created|wrote|maintains|listens on|points to|is called"
)
_SENTENCE: Final = re.compile(r"[^.!?\n]+(?:[.!?](?=\S)[^.!?\n]+)*[.!?]?")
_CLAUSE: Final = re.compile(
    rf"\s*(?:[Tt]he )?(?P<subject>[^\s,;:][^,;:\n]*?)\s+(?P<predicate>{_VERBS})\s+(?P<object>[^\s].*?)\s*[.!]?\s*\Z"
)
_KEY: Final = r"[^\s:=#.](?:[^:=.\n]|\.(?=\S)){0,100}?"
_PAIR: Final = re.compile(rf"[ \t]*(?:[-*][ \t]+)?(?P<key>{_KEY})[ \t]*[:=][ \t]+(?P<value>\S.*)")
_DOUBTS: Final = re.compile(r"\b(?:not|never|no|if|unless|may|might|could|would|should|perhaps|maybe)\b|n't\b|\?", re.I)
"""What says that a sentence states nothing, or states it of nothing."""
_PRONOUNS: Final = frozenset(
    {"it", "he", "she", "they", "we", "i", "you", "this", "that", "these", "those", "there", "what", "who", "which"}
)
_LINE_MAX: Final = 2000
"""Characters of a line that is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What might be a fact, and the bytes [start, end) of the text, in UTF-8, that say so."""

    subject: str
    predicate: str
    object: str
    start: int
    end: int


def candidates(text: str, *, about: str = "") -> list[Candidate]:
    """What simple declarative sentences and `key: value` lines of a text say, in its order, at most 256.

    A line's subject is what its key names before the last dot (`service.port: 8080`), else `about`; without either it
    says nothing of anybody and is left out. So are questions, denials, conditions, sentences about a pronoun, and lines
    of more than 2,000 characters.
    """
    found: list[Candidate] = []
    offset = 0
    for line in text.splitlines(keepends=True):
        for candidate in _of_line(line, about) if len(line) <= _LINE_MAX else ():
            start = offset + len(line[: candidate.start].encode("utf-8", "surrogatepass"))
            length = len(line[candidate.start : candidate.end].encode("utf-8", "surrogatepass"))
            found.append(
                Candidate(
                    subject=candidate.subject,
                    predicate=candidate.predicate,
                    object=candidate.object,
                    start=start,
                    end=start + length,
                )
            )
            if len(found) == _PROPOSED_MAX:
                return found
        offset += len(line.encode("utf-8", "surrogatepass"))
    return found


def _of_line(line: str, about: str) -> Iterator[Candidate]:
    """The same of one line, in characters."""
    pair = _PAIR.match(line.rstrip())
    if pair is not None:
        subject, _, predicate = pair["key"].rpartition(".")
        yield from _checked(subject or about, predicate, pair["value"], line, pair.start("key"), pair.end("value"))
        return
    for sentence in _SENTENCE.finditer(line):
        clause = None if _DOUBTS.search(sentence[0]) else _CLAUSE.match(sentence[0])
        if clause is not None:
            start, end = sentence.start() + clause.start("subject"), sentence.start() + clause.end("object")
            yield from _checked(clause["subject"], clause["predicate"], clause["object"], line, start, end)


def _checked(subject: str, predicate: str, object_: str, line: str, start: int, end: int) -> Iterator[Candidate]:
    """The candidate, where a fact could be made of it."""
    labels = (subject.strip(), predicate.strip())
    if any(not 1 <= len(label.encode("utf-8", "surrogatepass")) <= LABEL_BYTES_MAX for label in labels):
        return
    if labels[0].casefold() in _PRONOUNS or len(object_.encode("utf-8", "surrogatepass")) > FACT_OBJECT_BYTES_MAX:
        return
    yield Candidate(subject=labels[0], predicate=labels[1], object=object_, start=start, end=end)
