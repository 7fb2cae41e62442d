"""Facts that a newer one replaces: letta-evals' lists, a run each.

The facts of a list are recorded, then the newer one; the question is the focus, in 1,000 tokens. Where the newer one
supersedes its `supporting_fact_indices`, `stale_suppressed` is the share of lists with none of them in the current
packet, `asof_found` with all of them in the packet as of the revision before, and `newer_found` with the newer one in
the current packet. Where it contradicts them instead, `both_shown_marked` is the share of lists whose packet holds the
newer one and all of them, each naming the other. Of a peer, which knows no time, `stale_suppressed` says how often rank
alone keeps the old out of the same tokens.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mn_benchmark.data import Data, Reading, text_of
from mn_benchmark.membrane import Membrane
from mn_benchmark.report import ALL, OURS, Sample
from mn_benchmark.suites.asked import Asked, Samples
from mn_benchmark.systems import Document
from mn_benchmark.tokens import within

_TOKENS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _List:
    """`old` are the places of the facts that `newer` replaces; its own place is after the last of `facts`."""

    question: str
    facts: Sequence[Document]
    newer: str
    old: frozenset[int]

    def later(self, relation: str) -> Document:
        """The newer fact, in this relation to each old one."""
        return _fact(self.newer, tuple((relation, place) for place in sorted(self.old)))


def run(asked: Asked) -> Iterator[Sample]:
    """The suite: a case a file, and `all`."""
    samples = Samples()
    for file in asked.data.files("letta-evals", "*.jsonl"):
        lists = list(_lists(asked.data, file))
        cases = (ALL, f"letta-evals/{file.stem}")
        asked.progress(f"{file.stem}: {OURS} on {len(lists)} lists")
        with tempfile.TemporaryDirectory(prefix="membrane-benchmark-") as folder:
            root = Path(folder)
            with Membrane((), root=root):  # keeps the engine open from list to list
                for number, one in enumerate(lists):
                    _superseded(one, root, f"superseded-{number}", samples, cases)
                    _contradicted(one, root, f"contradicted-{number}", samples, cases)
        for name, opened in asked.peers.items():
            asked.progress(f"{file.stem}: {name} on {len(lists)} lists")
            for one in lists:
                facts = [*one.facts, one.later("supersedes")]
                with opened(facts) as ranker:
                    shown = within(_TOKENS, ranker.rank(one.question, len(facts)), facts)
                samples.add(name, "stale_suppressed", float(one.old.isdisjoint(shown)), *cases)
    yield from samples


def _superseded(one: _List, root: Path, run_id: str, samples: Samples, cases: tuple[str, ...]) -> None:
    with Membrane(one.facts, root=root, run_id=run_id) as ours:
        before = ours.client.run().revision
        ours.record([one.later("supersedes")])
        now = ours.held(ours.packet(one.question, _TOKENS))
        then = ours.held(ours.packet(one.question, _TOKENS, revision=before))
    samples.add(OURS, "stale_suppressed", float(one.old.isdisjoint(now)), *cases)
    samples.add(OURS, "asof_found", float(one.old <= then), *cases)
    samples.add(OURS, "newer_found", float(len(one.facts) in now), *cases)


def _contradicted(one: _List, root: Path, run_id: str, samples: Samples, cases: tuple[str, ...]) -> None:
    with Membrane([*one.facts, one.later("contradicts")], root=root, run_id=run_id) as ours:
        packet = ours.packet(one.question, _TOKENS)
    named = {item.card.ref: set(item.card.conflicts) for item in packet.items}
    newer = str(len(one.facts))
    marked = all(old in named.get(newer, ()) and newer in named.get(old, ()) for old in map(str, one.old))
    samples.add(OURS, "both_shown_marked", float(marked), *cases)


def _lists(data: Data, file: Path) -> Iterator[_List]:
    for number, given in enumerate(data.json_lines(file), start=1):
        with Reading(file, f"record {number}"):
            one = _list(given["input"], given["agent_args"]["extra"])
            if one.old:
                yield one


def _list(question: str, given: Any) -> _List:
    facts = [_fact(text_of(fact)) for fact in given["facts"]]
    old = frozenset(given["supporting_fact_indices"])
    if not old <= set(range(len(facts))):
        raise ValueError(f"the supporting facts {sorted(old)} are not all among the {len(facts)} facts")
    return _List(question=text_of(question), facts=facts, newer=text_of(given["contradicting_fact"]), old=old)


def _fact(text: str, relations: tuple[tuple[str, int], ...] = ()) -> Document:
    return Document(text=text or "-", charged=text, kind="fact", relations=relations)
