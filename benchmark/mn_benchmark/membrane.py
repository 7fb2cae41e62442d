"""Our system: an embedded engine over a record of its own, used through the SDK's client as any program would."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final

from mn.context.working.v1 import card_pb2, packet_pb2
from mn_benchmark.systems import Document
from mn_benchmark.tokens import tokens
from mn_contract.limits import PACKET_BUDGET_BYTES_MAX, RECALL_PAGE_MAX
from mn_sdk.arguments import read_time
from mn_sdk.client import WorkingMemoryClient
from mn_sdk.context_session import pieces
from mn_sdk.context_session.observation import KINDS, STANCES
from mn_sdk.scope import SessionScope
from mn_sdk.transport.embedded import EmbeddedTransport

JOB: Final = "benchmark"
PRINCIPAL: Final = "benchmark"
_EVENT_CARDS: Final = 256


class Membrane:
    """A run of one corpus, recorded in order: a card a document, several for one that is longer than a card.

    Runs with the same `root` share an engine and its record for as long as one of them is open; without one a run has
    its own.
    """

    def __init__(self, documents: Sequence[Document], *, root: Path | None = None, run_id: str = "run") -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="membrane-benchmark-") if root is None else None
        scope = SessionScope(job_id=JOB, run_id=run_id, principal=PRINCIPAL)
        self.client = WorkingMemoryClient(EmbeddedTransport(self._folder.name if self._folder else str(root), scope))
        self._cards: list[tuple[str, ...]] = []
        """The ids of each document's cards."""
        with ExitStack() as opened:
            if self._folder:
                opened.callback(self._folder.cleanup)
            opened.callback(self.client.close)
            self.client.open_run()
            self.record(documents)
            self._close = opened.pop_all().close

    def record(self, documents: Sequence[Document]) -> int:
        """Records further documents; the run's revision after them."""
        waiting: list[card_pb2.Card] = []
        for document in documents:
            cards = self._read(document)
            if waiting and len(waiting) + len(cards) > _EVENT_CARDS:
                self._write(waiting)
            waiting += cards
        if waiting:
            self._write(waiting)
        return self.client.run().revision

    def rank(self, question: str, limit: int) -> list[int]:
        """See Ranker."""
        found: list[int] = []
        cursor = ""
        while len(found) < limit:
            page = min(limit - len(found), RECALL_PAGE_MAX)
            request = packet_pb2.RecallRequest(
                decision=packet_pb2.Decision(focus=question), page_size=page, cursor=cursor
            )
            answer = self.client.recall(request)
            # A long document is several cards; the best of them stands for it.
            places = [_place(candidate.card.id) for candidate in answer.candidates]
            found += [place for place in dict.fromkeys(places) if place not in found]
            cursor = answer.cursor
            if not cursor:
                break
        return found

    def packet(
        self,
        question: str,
        budget: int,
        *,
        claims: Sequence[str] = (),
        opposing: float | None = None,
        supporting: float | None = None,
        revision: int | None = None,
    ) -> packet_pb2.Packet:
        """The packet for a question in `budget` tokens, at the newest revision or a past one; shares that are None are
        the engine's own. Raises NeedsPartition."""
        request = packet_pb2.CompileRequest(
            decision=packet_pb2.Decision(focus=question, claims=claims),
            at=packet_pb2.At(revision=revision),
            budget_bytes=PACKET_BUDGET_BYTES_MAX,
            budget_tokens=budget,
            counter_evidence_share=opposing,
            supporting_evidence_share=supporting,
        )
        return self.client.compile(request)

    def held(self, packet: packet_pb2.Packet) -> set[int]:
        """Places of the documents that a packet holds whole: with every card of theirs."""
        cards = Counter(_place(item.card.id) for item in packet.items)
        return {place for place, count in cards.items() if count == len(self._cards[place])}

    def _read(self, document: Document) -> list[card_pb2.Card]:
        """The cards of the next document. A long one is cut, linked and named as the SDK does it; each of its cards is
        charged for its own part of the text."""
        place = len(self._cards)
        data = document.text.encode("utf-8")
        cuts = list(pieces.ranges(data))
        if len(cuts) == 1:
            cards = [_card(str(place), document, document.text, charged=document.charged)]
        else:
            parts = [data[start:end].decode("utf-8") for start, end in cuts]
            cards = [
                _card(pieces.piece_id(str(place), number), document, part, charged=part)
                for number, part in enumerate(parts, start=1)
            ]
            for before, card in itertools.pairwise(cards):
                card.relations.add(type=pieces.CONTINUES, target=before.id)
            cards[0].relations.add(type=pieces.LAST_PIECE, target=cards[-1].id)
        for type_, target in document.relations:
            for card in cards:
                for ref in self._cards[target]:
                    card.relations.add(type=type_, target=ref)
        self._cards.append(tuple(card.id for card in cards))
        return cards

    def _write(self, cards: list[card_pb2.Card]) -> None:
        self.client.record([card_pb2.Event(key=f"documents-{cards[0].id}", cards=cards)])
        cards.clear()

    def __enter__(self) -> Membrane:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()


def _place(card_id: str) -> int:
    return int(card_id.partition("/")[0])


def _card(card_id: str, document: Document, text: str, *, charged: str) -> card_pb2.Card:
    return card_pb2.Card(
        id=card_id,
        kind=KINDS[document.kind],
        text=text,
        tokens=tokens(charged),
        entities=document.entities,
        topics=document.topics,
        occurred_at=read_time(document.occurred_at, "occurred_at"),
        stance=STANCES[document.stance],
        claims=[card_pb2.Claim(claim=claim, stance=STANCES[said]) for claim, said in document.claims.items()],
    )
