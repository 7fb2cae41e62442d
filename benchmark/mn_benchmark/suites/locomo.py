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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from mn_benchmark.data import Data
from mn_benchmark.membrane import Membrane
from mn_benchmark.report import ALL, OURS, Sample
from mn_benchmark.suites.asked import Asked, Samples
from mn_benchmark.systems import Document
from mn_benchmark.tokens import within
from mn_benchmark.values import Value

_CASES: Final = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
_SESSION: Final = re.compile(r"session_(\d{1,9})")
_TURN_ID: Final = re.compile(r"D:?(\d{1,9}):(\d{1,9})")
_TOP: Final = 10
_TOKENS: Final = 2000
_STEPS: Final = tuple(range(200, 4001, 200))
"""Budgets in tokens that a step leads between."""
_STEPPED: Final = 20
"""Questions of each conversation that the steps are taken for, evenly spread."""
_RANKED: Final = 400
"""More turns than 2,000 tokens hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and the turns that its evidence is in."""

    text: str
    case: str
    evidence: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation's turns, and the questions that have evidence in them."""

    name: str
    turns: Sequence[Document]
    questions: Sequence[Question]


def run(asked: Asked) -> Iterator[Sample]:
    """The suite."""
    samples = Samples()
    for conversations in asked.each("locomo", "*.json", conversations_of):
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


def _steps(conversation: Conversation) -> Iterator[bool]:
    """Of each step to a larger budget, whether it lost evidence."""
    with Membrane(conversation.turns) as membrane:
        for question in conversation.questions[:: max(len(conversation.questions) // _STEPPED, 1)]:
            found = [
                len(question.evidence & membrane.held(membrane.packet(question.text, budget))) for budget in _STEPS
            ]
            yield from (after < before for before, after in itertools.pairwise(found))


def _recall(found: Sequence[int], question: Question) -> float:
    return len(question.evidence.intersection(found)) / len(question.evidence)


def conversations_of(data: Data, file: Path) -> list[Conversation]:
    """The conversations of a file."""
    return [_conversation(given) for given in data.json(file).items()]


def _conversation(given: Value) -> Conversation:
    said = given.field("conversation")
    sessions = sorted(int(named[1]) for name in said.fields() if (named := _SESSION.fullmatch(name)))
    turns: list[Document] = []
    places: dict[tuple[int, int], int] = {}
    for session in sessions:
        date = said.field(f"session_{session}_date_time")
        when = date.parsed(_time, "a time such as 1:56 pm on 8 May, 2023")
        for turn in said.field(f"session_{session}").items():
            places[turn.field("dia_id").parsed(_turn_id, "a turn's id such as D1:3")] = len(turns)
            turns.append(_turn(turn.field("speaker").label(), turn.field("text").text(), date.text(), when))
    questions = [_question(one, places) for one in given.field("qa").items()]
    return Conversation(
        name=given.field("sample_id").name(), turns=turns, questions=[one for one in questions if one.evidence]
    )


def _time(text: str) -> datetime:
    return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


def _turn_id(text: str) -> tuple[int, int]:
    found = _TURN_ID.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return int(found[1]), int(found[2])


def _turn(speaker: str, text: str, date: str, when: datetime) -> Document:
    return Document(text=text or "-", charged=f"[{date}] {speaker}: {text}", entities=(speaker,), occurred_at=when)


def _question(given: Value, places: Mapping[tuple[int, int], int]) -> Question:
    """A question; without evidence where it is of no case, or names only turns that are not there."""
    case = _CASES.get(given.field("category").whole(), "")
    named = [_TURN_ID.findall(one.text()) for one in given.field("evidence").items()] if case else []
    turns = {places.get((int(session), int(turn))) for one in named for session, turn in one}
    return Question(
        text=given.field("question").question(),
        case=case,
        evidence=frozenset(place for place in turns if place is not None),
    )
