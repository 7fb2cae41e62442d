"""LoCoMo: very long conversations, and questions whose evidence is a few of their turns.

One turn is one card and one conversation one run; the question is the focus. `recall@10` is the share of the evidence
among the first ten turns, `recall@2000tokens` among the first that fit 2,000 tokens (o200k) of `[date] speaker: text`.
Questions that should be abstained from (category 5) have no evidence to find and are left out.

`budget_step_drops` is of our packets: how often more room holds less of the evidence, as a share of all steps from one
budget to the next larger one, for some questions of each conversation.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from mn_benchmark.data import Reading
from mn_benchmark.membrane import Membrane
from mn_benchmark.report import ALL, OURS, Sample
from mn_benchmark.suites.asked import Asked, Samples
from mn_benchmark.systems import Document
from mn_benchmark.tokens import within

_CASES: Final = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
_TURN_ID: Final = re.compile(r"D:?(\d+):(\d+)")
_TOP: Final = 10
_TOKENS: Final = 2000
_STEPS: Final = tuple(range(200, 4001, 200))
"""Budgets in tokens that a step leads between."""
_STEPPED: Final = 20
"""Questions of each conversation that the steps are taken for, evenly spread."""
_RANKED: Final = 400
"""More turns than 2,000 tokens hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    text: str
    case: str
    evidence: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Conversation:
    name: str
    turns: Sequence[Document]
    questions: Sequence[_Question]


def run(asked: Asked) -> Iterator[Sample]:
    """The suite."""
    samples = Samples()
    for file in asked.data.files("locomo", "*.json"):
        given = asked.data.json(file)
        with Reading(file):
            conversations = [_conversation(one) for one in given]
        for conversation in conversations:
            asked.progress(f"{conversation.name}: {OURS} in {len(_STEPS)} budgets")
            for dropped in _steps(conversation):
                samples.add(OURS, "budget_step_drops", float(dropped), ALL)
            for name, opened in asked.systems.items():
                asked.progress(f"{conversation.name}: {name} on {len(conversation.questions)} questions")
                with opened(conversation.turns) as ranker:
                    for question in conversation.questions:
                        ranked = ranker.rank(question.text, _RANKED)
                        fitting = within(_TOKENS, ranked, conversation.turns)
                        cases = (ALL, question.case)
                        samples.add(name, "recall@10", _recall(ranked[:_TOP], question), *cases)
                        samples.add(name, "recall@2000tokens", _recall(fitting, question), *cases)
    yield from samples


def _steps(conversation: _Conversation) -> Iterator[bool]:
    """Of each step to a larger budget, whether it lost evidence."""
    with Membrane(conversation.turns) as membrane:
        for question in conversation.questions[:: max(len(conversation.questions) // _STEPPED, 1)]:
            found = [
                len(question.evidence & membrane.held(membrane.packet(question.text, budget))) for budget in _STEPS
            ]
            yield from (after < before for before, after in itertools.pairwise(found))


def _recall(found: Sequence[int], question: _Question) -> float:
    return len(question.evidence.intersection(found)) / len(question.evidence)


def _conversation(given: Any) -> _Conversation:
    said = given["conversation"]
    turns: list[Document] = []
    places: dict[tuple[int, int], int] = {}
    session = 0
    while f"session_{(session := session + 1)}_date_time" in said:
        date = said[f"session_{session}_date_time"]
        for turn in said.get(f"session_{session}", ()):
            found = _TURN_ID.fullmatch(turn["dia_id"])
            if found is None:
                raise ValueError(f"a turn is called {turn['dia_id']!r}")
            places[int(found[1]), int(found[2])] = len(turns)
            turns.append(_turn(turn["speaker"], turn["text"], date))
    questions = [_question(one, places) for one in given["qa"] if one["category"] in _CASES]
    return _Conversation(
        name=str(given["sample_id"]), turns=turns, questions=[one for one in questions if one.evidence]
    )


def _turn(speaker: str, text: str, date: str) -> Document:
    return Document(
        text=text or "-",
        charged=f"[{date}] {speaker}: {text}",
        entities=(speaker,),
        occurred_at=datetime.strptime(date, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC),
    )


def _question(given: Any, places: dict[tuple[int, int], int]) -> _Question:
    named = [_TURN_ID.findall(one) for one in given["evidence"]]
    turns = {places.get((int(session), int(turn))) for one in named for session, turn in one}
    return _Question(
        text=given["question"],
        case=_CASES[given["category"]],
        evidence=frozenset(place for place in turns if place is not None),
    )
