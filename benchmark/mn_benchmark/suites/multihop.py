"""Questions whose answer takes several paragraphs: HotpotQA and MuSiQue.

The paragraphs of all questions of a file are one pool, a card each, charged as `title: paragraph`.
`all_gold@4000tokens` is the share of questions all of whose supporting paragraphs are among the best that fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mn_benchmark.data import Data, Reading
from mn_benchmark.report import ALL, Sample
from mn_benchmark.suites.asked import Asked, Samples
from mn_benchmark.systems import Document
from mn_benchmark.tokens import within
from mn_contract.errors import NotFound

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
    for pool in _pools(asked.data):
        for name, opened in asked.systems.items():
            asked.progress(f"{pool.case}: {name} on {len(pool.questions)} questions")
            with opened(pool.paragraphs) as ranker:
                for question, gold in pool.questions:
                    found = within(_TOKENS, ranker.rank(question, _RANKED), pool.paragraphs)
                    samples.add(name, "all_gold@4000tokens", float(gold <= set(found)), ALL, pool.case)
    yield from samples


def _pools(data: Data) -> Iterator[_Pool]:
    files = [
        *_there(data, "hotpotqa", "*.jsonl"),
        *(file for file in _there(data, "musique", "*.json") if not file.stem.endswith("_corpus")),
    ]
    if not files:
        raise NotFound(f"there is no hotpotqa/*.jsonl and no musique/*.json under {data.root}")
    for file in files:
        given = data.json_lines(file) if file.suffix == ".jsonl" else data.json(file)
        with Reading(file):
            yield _pool(f"{file.parent.name}/{file.stem}", given)


def _there(data: Data, folder: str, pattern: str) -> list[Path]:
    try:
        return data.files(folder, pattern)
    except NotFound:
        return []


def _pool(case: str, given: Iterable[Any]) -> _Pool:
    places: dict[str, int] = {}
    questions = []
    for one in given:
        paragraphs = one["contexts"] if "contexts" in one else one["paragraphs"]
        texts = {f"{each['title']}: {each['paragraph_text']}": bool(each["is_supporting"]) for each in paragraphs}
        gold = frozenset(places.setdefault(text, len(places)) for text in texts if texts[text])
        for text in texts:
            places.setdefault(text, len(places))
        questions.append((one["question_text"] if "question_text" in one else one["question"], gold))
    documents = [Document(text=text, charged=text) for text in places]
    return _Pool(case=case, paragraphs=documents, questions=[one for one in questions if one[1]])
