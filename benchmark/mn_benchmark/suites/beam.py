"""BEAM: long chats, and questions of ten abilities about their messages.

One chat is one run and one message one card, without the marker that some end in; a message that is longer than a card
is several, and is found where all of them are. Cards carry no time: the data dates batches, by the day, and no message.
Messages that an instruction_following question cites are recorded as constraints, those of preference_following as
preferences (both: as constraints); all else are observations.

`typed_present` is the share of the questions of these two abilities whose cited messages are all in the packet of 4,000
tokens, found by their type whatever their words; `recall@4000tokens` is the share of what other questions cite. Where
constraints do not fit the budget, the packet is refused and nothing counts as found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from mn_benchmark.data import Data
from mn_benchmark.membrane import Membrane
from mn_benchmark.report import ALL, OURS, Sample
from mn_benchmark.suites.asked import Asked, Samples
from mn_benchmark.systems import Document, Ranker
from mn_benchmark.tokens import within
from mn_benchmark.values import Value
from mn_contract.errors import NeedsPartition

_TOKENS: Final = 4000
_QUESTIONS: Final = "probing_questions/probing_questions.json"
_KINDS: Final = {"preference_following": "preference", "instruction_following": "constraint"}
"""By ability: what the messages that it is about are; the later one goes where both apply."""
_UNANSWERABLE: Final = "abstention"
"""The ability whose questions cite nothing, because nothing can answer them: they are left out."""
_MARKER: Final = re.compile(r"\s*->->\s*\d+\s*,\s*[\w/]+\s*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    text: str
    ability: str
    cited: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chat:
    name: str
    messages: Sequence[Document]
    questions: Sequence[_Question]


def run(asked: Asked) -> Iterator[Sample]:
    """The suite: a case an ability, and `all`."""
    samples = Samples()
    for chat in asked.each("beam", "**/chat.json", _chat):
        asked.progress(f"{chat.name}: {OURS} on {len(chat.questions)} questions")
        with Membrane(chat.messages) as ours:
            _score(samples, OURS, chat, partial(_packed, ours, asked.progress))
        for name, opened in asked.peers.items():
            asked.progress(f"{chat.name}: {name} on {len(chat.questions)} questions")
            with opened(chat.messages) as ranker:
                _score(samples, name, chat, partial(_filled, ranker, chat.messages))
    yield from samples


def _score(samples: Samples, system: str, chat: _Chat, find: Callable[[str], set[int]]) -> None:
    for question in chat.questions:
        found = question.cited & find(question.text)
        if question.ability in _KINDS:
            samples.add(system, "typed_present", float(found == question.cited), ALL, question.ability)
        else:
            recall = len(found) / len(question.cited)
            samples.add(system, "recall@4000tokens", recall, ALL, question.ability)


def _packed(ours: Membrane, tell: Callable[[str], None], question: str) -> set[int]:
    try:
        return ours.held(ours.packet(question, _TOKENS))
    except NeedsPartition as error:
        tell(f"no packet: {error.message}")
        return set()


def _filled(ranker: Ranker, messages: Sequence[Document], question: str) -> set[int]:
    return set(within(_TOKENS, ranker.rank(question, len(messages)), messages))


def _chat(data: Data, file: Path) -> _Chat:
    probing = [
        (ability, question, frozenset(_cited(question.field("source_chat_ids"))))
        for ability, questions in data.json(file.parent / _QUESTIONS).fields().items()
        if ability != _UNANSWERABLE
        for question in questions.items()
    ]
    kinds = {
        message: kind
        for typed, kind in _KINDS.items()
        for ability, _, cited in probing
        if ability == typed
        for message in cited
    }
    messages: dict[int, Document] = {}
    for batch in data.json(file).items():
        for turn in batch.field("turns").items():
            for message in turn.items():
                number = message.field("id").whole()
                if number in messages:
                    raise message.field("id").damage("an id of its own", f"{number} again")
                messages[number] = _message(message, kinds.get(number, "observation"))
    places = {message: place for place, message in enumerate(messages)}
    questions = [
        _Question(
            text=question.field("question").question(),
            ability=ability,
            cited=frozenset(places[message] for message in cited if message in places),
        )
        for ability, question, cited in probing
    ]
    return _Chat(
        name=str(file.parent.relative_to(data.root)),
        messages=list(messages.values()),
        questions=[one for one in questions if one.cited],
    )


def _cited(named: Value) -> Iterator[int]:
    """The messages that a question cites: numbers in lists, or by what they tell."""
    if isinstance(named.found, dict | list):
        inner = named.fields().values() if isinstance(named.found, dict) else named.items()
        for one in inner:
            yield from _cited(one)
    else:
        yield named.whole()


def _message(given: Value, kind: str) -> Document:
    text = without_marker(given.field("content").text()) or "-"
    return Document(text=text, charged=text, kind=kind)


def without_marker(text: str) -> str:
    """A message without the place in its chat's plan, such as `->-> 1,1`, that it may end in."""
    return _MARKER.sub("", text)
