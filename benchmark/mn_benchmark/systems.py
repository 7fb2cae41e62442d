"""What a suite measures: rankers behind one port, ours and the peers.

A suite hands over its documents once and asks for rankings. A peer gets the text that is charged, as it does in every
tool that has no better idea of a record; ours gets what a record has: who said it, when, next to what.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Final, Protocol

from mn_benchmark.report import OURS
from mn_contract.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One record of a data set. `charged` is the text that its tokens are counted of; `relations` are (type, the place
    of an earlier document)."""

    text: str
    charged: str
    kind: str = "observation"
    entities: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    occurred_at: datetime | None = None
    stance: str = "neutral"
    claims: Mapping[str, str] = field(default_factory=dict)
    relations: tuple[tuple[str, int], ...] = ()


class Ranker(Protocol):
    """A system over one corpus."""

    def rank(self, question: str, limit: int) -> list[int]:
        """Places of documents, best first, at most `limit`."""

    def __enter__(self) -> Ranker: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


Open = Callable[[Sequence[Document]], Ranker]


def _ours(documents: Sequence[Document]) -> Ranker:
    from mn_benchmark.membrane import Membrane

    return Membrane(documents)


def _bm25s(documents: Sequence[Document]) -> Ranker:
    from mn_benchmark.peers import Bm25s

    return Bm25s(documents, stemmed=False)


def _bm25s_stemmed(documents: Sequence[Document]) -> Ranker:
    from mn_benchmark.peers import Bm25s

    return Bm25s(documents, stemmed=True)


def _tantivy(documents: Sequence[Document]) -> Ranker:
    from mn_benchmark.peers import Tantivy

    return Tantivy(documents)


SYSTEMS: Final[Mapping[str, Open]] = {
    OURS: _ours,
    "bm25s": _bm25s,
    "bm25s-stemmed": _bm25s_stemmed,
    "tantivy": _tantivy,
}


def systems(peers: Sequence[str]) -> dict[str, Open]:
    """Ours and the named peers. Raises InvalidInput for a name that is none."""
    unknown = sorted(set(peers) - set(SYSTEMS))
    if unknown:
        raise InvalidInput(f"there is no peer {unknown[0]!r}; peers are {', '.join(sorted(SYSTEMS))}", field="peers")
    return {name: SYSTEMS[name] for name in dict.fromkeys((OURS, *peers))}
