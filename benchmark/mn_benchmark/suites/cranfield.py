"""Cranfield: 1,400 abstracts of aerodynamics, 225 questions, relevance judged by people.

One abstract (title and text) is one card; `ndcg@10` with a gain of 1 for whatever was judged relevant at all.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from mn_benchmark.data import Data
from mn_benchmark.report import ALL, Sample
from mn_benchmark.suites.asked import Asked, Samples
from mn_benchmark.systems import Document
from mn_benchmark.values import Value

_TOP: Final = 10
_SECTION: Final = re.compile(r"^\.([A-Z])[ \t]*(\d*)[ \t]*$", re.MULTILINE)


def run(asked: Asked) -> Iterator[Sample]:
    """The suite. The questions' numbers in the judgments are their places, from 1 up."""
    data = asked.data
    (documents,), (questions,), (judged,) = (
        data.files("cranfield", name) for name in ("cran.all.1400", "cran.qry", "cranqrel")
    )
    abstracts = [
        Document(text=text, charged=text)
        for one in _records(data, documents)
        for text in [" ".join(f"{one.field('T').text()} {one.field('W').text()}".split()) or "-"]
    ]
    asked_for = [" ".join(one.field("W").question().split()) for one in _records(data, questions)]
    relevant = _judgments(data, judged, len(asked_for), len(abstracts))
    samples = Samples()
    for name, opened in asked.systems.items():
        asked.progress(f"cranfield: {name} on {len(asked_for)} questions")
        with opened(abstracts) as ranker:
            for number, question in enumerate(asked_for, start=1):
                if relevant[number]:
                    ranked = [place + 1 for place in ranker.rank(question, _TOP)]
                    samples.add(name, "ndcg@10", ndcg(ranked, relevant[number]), ALL)
    yield from samples


def ndcg(ranked: Sequence[int], relevant: set[int]) -> float:
    """Normalized discounted cumulative gain of a ranking, with gains of 0 and 1."""
    gains = [1 / math.log2(place + 2) for place in range(max(len(ranked), _TOP))]
    gained = sum(gain for gain, one in zip(gains, ranked, strict=False) if one in relevant)
    return gained / sum(gains[: min(len(relevant), _TOP)])


def _records(data: Data, file: Path) -> list[Value]:
    """Each record's sections by letter. A record begins at `.I` and its number; an `.I` alone may end a file."""
    text = data.text(file)
    records: list[dict[str, str]] = []
    whole = Value(found=records, file=file)
    marks = list(_SECTION.finditer(text))
    if not marks or marks[0][1] != "I" or not marks[0][2]:
        raise whole.damage("records that begin with a line such as .I 1", "none at its start")
    for mark, end in zip(marks, [*(one.start() for one in marks[1:]), len(text)], strict=True):
        if mark[1] == "I" and mark[2]:
            records.append({})
        else:
            records[-1][mark[1]] = records[-1].get(mark[1], "") + text[mark.end() : end]
    return whole.items()


def _judgments(data: Data, file: Path, questions: int, documents: int) -> dict[int, set[int]]:
    """The documents that are relevant to each question, of so many."""
    found: dict[int, set[int]] = defaultdict(set)
    for line in data.lines(file):
        question, document, grade = line.parsed(_judgment, "the numbers of a question and a document, and a grade")
        if not (1 <= question <= questions and 1 <= document <= documents):
            raise line.damage(f"one of {questions} questions and {documents} documents (is another file cut short?)")
        if grade > 0:
            found[question].add(document)
    return found


def _judgment(line: str) -> tuple[int, int, int]:
    question, document, grade = map(int, line.split()[:3])
    return question, document, grade
