"""Questions whose answer takes several paragraphs: HotpotQA and MuSiQue.

The paragraphs of all questions of a file are one pool, a card each, charged as `title: paragraph`.
`all_gold@4000tokens` is the share of questions all of whose supporting paragraphs are among the best that fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mn_benchmark.data import Data
from mn_benchmark.report import ALL, Sample
from mn_benchmark.suites.asked import Asked, Samples
from mn_benchmark.systems import Document
from mn_benchmark.tokens import within
from mn_benchmark.values import Value

_TOKENS: Final = 4000
_RANKED: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pool:
    case: str
    paragraphs: Sequence[Document]
    questions: Sequence[tuple[str, frozenset[int]]]


def run(asked: Asked) -> Iterator[Sample]:
    """The suite: a case a file, and `all`."""
    samples = Samples()
    for pool in (
        *asked.each("hotpotqa", "*.jsonl", _hotpotqa),
        *asked.each("musique", "*.json", _musique, but="*_corpus.json"),
    ):
        for name, opened in asked.systems.items():
            asked.progress(f"{pool.case}: {name} on {len(pool.questions)} questions")
            with opened(pool.paragraphs) as ranker:
                for question, gold in pool.questions:
                    found = within(_TOKENS, ranker.rank(question, _RANKED), pool.paragraphs)
                    samples.add(name, "all_gold@4000tokens", float(gold <= set(found)), ALL, pool.case)
    yield from samples


def _hotpotqa(data: Data, file: Path) -> _Pool:
    return _pool(file, data.json_lines(file))


def _musique(data: Data, file: Path) -> _Pool:
    return _pool(file, data.json(file).items())


def _pool(file: Path, given: Sequence[Value]) -> _Pool:
    places: dict[str, int] = {}
    questions = []
    for one in given:
        texts = dict(map(_paragraph, one.field("contexts", "paragraphs").items()))
        gold = frozenset(places.setdefault(text, len(places)) for text in texts if texts[text])
        for text in texts:
            places.setdefault(text, len(places))
        questions.append((one.field("question_text", "question").question(), gold))
    documents = [Document(text=text, charged=text) for text in places]
    return _Pool(
        case=f"{file.parent.name}/{file.stem}",
        paragraphs=documents,
        questions=[one for one in questions if one[1]],
    )


def _paragraph(given: Value) -> tuple[str, bool]:
    """Its text, and whether it supports the answer."""
    text = f"{given.field('title').text()}: {given.field('paragraph_text').text()}"
    return text, given.field("is_supporting").truth()
