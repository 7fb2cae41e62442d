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

from mn_benchmark.data import Data, Reading, lines_of
from mn_benchmark.report import ALL, Sample
from mn_benchmark.suites.asked import Asked, Samples
from mn_benchmark.systems import Document

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
        for text in [" ".join(f"{one['T']} {one['W']}".split()) or "-"]
    ]
    asked_for = [" ".join(one["W"].split()) for one in _records(data, questions)]
    relevant = _judgments(data, judged)
    with Reading(judged):
        if max(relevant, default=0) > len(asked_for) or max(map(max, relevant.values()), default=0) > len(abstracts):
            raise ValueError("it judges questions or documents that are not there: a file is cut short")
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


def _records(data: Data, file: Path) -> list[dict[str, str]]:
    """Each `.I` record's sections by letter."""
    text = data.text(file)
    records: list[dict[str, str]] = []
    with Reading(file):
        marks = list(_SECTION.finditer(text))
        for mark, end in zip(marks, [*(one.start() for one in marks[1:]), len(text)], strict=True):
            if mark[1] == "I":
                records.append(defaultdict(str))
            else:
                records[-1][mark[1]] += text[mark.end() : end]
        if not records:
            raise ValueError("it has no .I records")
    return records


def _judgments(data: Data, file: Path) -> dict[int, set[int]]:
    found: dict[int, set[int]] = defaultdict(set)
    text = data.text(file)
    with Reading(file):
        for line in lines_of(text):
            question, document, grade = map(int, line.split()[:3])
            if grade > 0:
                found[question].add(document)
    return found
