"""Facts that a newer one replaces: letta-evals' lists, a run each.

The facts of a list are recorded, then the newer one; the question is the focus, in 1,000 tokens. Where the newer one
supersedes its `supporting_fact_indices`, `stale_suppressed` is the share of lists with none of them in the current
packet, `asof_found` with all of them in the packet as of the revision before, and `newer_found` with the newer one in
the current packet. Where it contradicts them instead, `both_shown_marked` is the share of lists whose packet holds the
newer one and all of them, each naming the other. As triples of the fact graph, the newer one said of the same subject
from a later time on, `triple_stale_suppressed` and `triple_asof_found` are the same of contexts compiled now and as of
the time between. Of a peer, which knows no time, `stale_suppressed` says how often rank
alone keeps the old out of the same tokens.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mn_benchmark.data import Data
from mn_benchmark.membrane import Membrane
from mn_benchmark.report import ALL, OURS, Sample
from mn_benchmark.suites.asked import Asked, Samples
from mn_benchmark.systems import Document
from mn_benchmark.tokens import within
from mn_benchmark.values import Value
from mn_sdk.facts import Facts

_TOKENS: Final = 1000
_BEFORE, _BETWEEN, _SINCE = "2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z", "2022-01-01T00:00:00Z"
"""When the old facts began to hold, a time at which they held, and when the newer one began."""


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
    for name, lists in asked.each("letta-evals", "*.jsonl", _lists):
        cases = (ALL, f"letta-evals/{name}")
        asked.progress(f"{name}: {OURS} on {len(lists)} lists")
        with tempfile.TemporaryDirectory(prefix="membrane-benchmark-") as folder:
            root = Path(folder)
            with Membrane((), root=root):  # keeps the engine open from list to list
                for number, one in enumerate(lists):
                    _superseded(one, root, f"superseded-{number}", samples, cases)
                    _contradicted(one, root, f"contradicted-{number}", samples, cases)
                    _said_as_triples(one, root, f"triples-{number}", samples, cases)
        for peer, opened in asked.peers.items():
            asked.progress(f"{name}: {peer} on {len(lists)} lists")
            for one in lists:
                facts = [*one.facts, one.later("supersedes")]
                with opened(facts) as ranker:
                    shown = within(_TOKENS, ranker.rank(one.question, len(facts)), facts)
                samples.add(peer, "stale_suppressed", float(one.old.isdisjoint(shown)), *cases)
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


def _said_as_triples(one: _List, root: Path, run_id: str, samples: Samples, cases: tuple[str, ...]) -> None:
    with Membrane((), root=root, run_id=run_id) as ours:
        facts = Facts(ours.client.call)
        said = [_triple(place, fact.text, _BEFORE) for place, fact in enumerate(one.facts)]
        refs = facts.upsert_many(said, key="facts")["refs"]
        facts.upsert_many([_triple(place, one.newer, _SINCE) for place in sorted(one.old)], key="newer")
        now, then = (facts.compile(one.question, max_tokens=_TOKENS, as_of=at)["refs"] for at in (None, _BETWEEN))
    old = {refs[place] for place in one.old}
    samples.add(OURS, "triple_stale_suppressed", float(old.isdisjoint(now)), *cases)
    samples.add(OURS, "triple_asof_found", float(old <= set(then)), *cases)


def _triple(place: int, text: str, since: str) -> dict[str, str]:
    """A sentence as a triple: what it says is said of its place in the list."""
    return {"subject": f"fact {place}", "predicate": "says", "object": text or "-", "valid_from": since}


def _lists(data: Data, file: Path) -> tuple[str, list[_List]]:
    """The file's name, and its lists that something is replaced in."""
    lists = [_list(given) for given in data.json_lines(file)]
    return file.stem, [one for one in lists if one.old]


def _list(given: Value) -> _List:
    told = given.field("agent_args").field("extra")
    facts = [_fact(fact.text()) for fact in told.field("facts").items()]
    return _List(
        question=given.field("input").question(),
        facts=facts,
        newer=told.field("contradicting_fact").text(),
        old=frozenset(_replaced(one, len(facts)) for one in told.field("supporting_fact_indices").items()),
    )


def _replaced(given: Value, facts: int) -> int:
    """The place of a fact that the newer one replaces."""
    place = given.whole()
    if not 0 <= place < facts:
        raise given.damage(f"the place of one of the {facts} facts, from 0 up")
    return place


def _fact(text: str, relations: tuple[tuple[str, int], ...] = ()) -> Document:
    return Document(text=text or "-", charged=text, kind="fact", relations=relations)
