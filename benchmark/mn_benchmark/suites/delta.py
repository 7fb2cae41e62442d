"""The working-memory delta: what a conversation saves that is sent what changed, and not every pack again.

A session is 30 turns over a LoCoMo conversation; a turn's task is the last four of its questions. Two sessions of each
window of questions ask for the same packs, one for whole ones, one for `items=new`, whose working set keeps what came
before.

- `tokens_saved`: the tokens (o200k) of the items that are sent less, as text, which is what budgets count; for each
  session. `all` is the profile gpt; `cursor` and `claude` stand beside it.
- `envelope_tokens_saved`: the same of whole envelopes as JSON, legend, names of what was sent before and all.
- `working_set_equal`: the share of turns in which the kept memories are those of the whole pack, in its order.
- `three_turns`: for each conversation, whether a first turn calls all it cites new, a second with more room only what
  it cites for the first time, and a third, which asks the same again, nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mn_benchmark.membrane import Membrane
from mn_benchmark.report import ALL, OURS, Sample
from mn_benchmark.suites.asked import Asked, Samples
from mn_benchmark.suites.locomo import Question, conversations_of
from mn_benchmark.tokens import tokens
from mn_contract.smp import item_text, memory_of
from mn_sdk.memories import Memories
from mn_sdk.working_set import WorkingSet

_TURNS: Final = 30
_QUESTIONS: Final = 4
"""Of a turn's task: the newest ones."""
_CASES: Final = {"gpt": ALL, "cursor": "cursor", "claude": "claude"}
_BUDGETS: Final = (1200, 11000, 11000)
"""Of the three turns."""
_MODEL: Final = "claude"
"""Of the three turns: the one with the most room."""


def run(asked: Asked) -> Iterator[Sample]:
    """The suite."""
    samples = Samples()
    for conversations in asked.each("locomo", "*.json", conversations_of):
        for conversation in conversations:
            with Membrane(conversation.turns) as membrane:
                memories = Memories(membrane.client.call)
                for question in conversation.questions[:1]:
                    samples.add(OURS, "three_turns", float(_three_turns(memories, question.text)), ALL)
                for first in range(0, len(conversation.questions) - _TURNS + 1, _TURNS):
                    asked.progress(f"{conversation.name}: a session from question {first + 1} on")
                    for model, case in _CASES.items():
                        tasks = list(_tasks(conversation.questions[first : first + _TURNS]))
                        _session(samples, memories, f"s{first}-{model}", model, case, tasks)
    yield from samples


def _tasks(questions: Sequence[Question]) -> Iterator[str]:
    for turn in range(len(questions)):
        yield "\n".join(question.text for question in questions[max(turn + 1 - _QUESTIONS, 0) : turn + 1])


def _session(
    samples: Samples, memories: Memories, session_id: str, model: str, case: str, tasks: Sequence[str]
) -> None:
    sent: list[Mapping[str, Any]] = []

    def get_context(**arguments: Any) -> Mapping[str, Any]:
        sent.append(memories.context(**arguments))
        return sent[-1]

    working_set = WorkingSet(get_context, session_id, model=model)
    whole = []
    for task in tasks:
        kept = working_set.update(task)
        whole.append(memories.context(task=task, model=model))
        equal = list(map(memory_of, kept)) == list(map(memory_of, whole[-1]["items"]))
        samples.add(OURS, "working_set_equal", float(equal), case)
    samples.add(OURS, "tokens_saved", 1 - _in_items(sent) / _in_items(whole), case)
    samples.add(OURS, "envelope_tokens_saved", 1 - _in_all(sent) / _in_all(whole), case)


def _in_items(envelopes: Sequence[Mapping[str, Any]]) -> int:
    """Tokens of the items whose content is sent."""
    return sum(tokens(item_text(item)) for one in envelopes for item in one["items"] if "content" in item)


def _in_all(envelopes: Sequence[Mapping[str, Any]]) -> int:
    return sum(tokens(json.dumps(one, separators=(",", ":"), ensure_ascii=False)) for one in envelopes)


def _three_turns(memories: Memories, task: str) -> bool:
    known: set[str] = set()
    for budget in _BUDGETS:
        told = memories.context(task=task, model=_MODEL, token_budget=budget, session_id="three")
        cited = {item["ref"] for item in told["items"]}
        if {new["ref"] for new in told["working_memory"]["new"]} != cited - known:
            return False
        known |= cited
    return True
