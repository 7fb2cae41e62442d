"""Our system: an embedded engine over a record of its own, used through the SDK's client as any program would."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from types import TracebackType
from typing import Final

from mn.context.working.v1 import card_pb2, packet_pb2
from mn_benchmark.systems import Document
from mn_contract.limits import RECALL_PAGE_MAX
from mn_sdk.client import WorkingMemoryClient
from mn_sdk.context_session.observation import STANCES, read_time
from mn_sdk.scope import SessionScope
from mn_sdk.transport.embedded import EmbeddedTransport

_SCOPE: Final = SessionScope(job_id="benchmark", run_id="run", principal="benchmark")
_EVENT_CARDS: Final = 256


class Membrane:
    """A run of one corpus: a card a document, recorded in order."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._root = tempfile.TemporaryDirectory(prefix="membrane-benchmark-")
        self.client = WorkingMemoryClient(EmbeddedTransport(self._root.name, _SCOPE))
        self.client.open_run()
        for start in range(0, len(documents), _EVENT_CARDS):
            some = enumerate(documents[start : start + _EVENT_CARDS], start)
            cards = [_card(place, document) for place, document in some]
            self.client.record([card_pb2.Event(key=f"documents-{start}", cards=cards)])

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
            found += [int(candidate.card.id) for candidate in answer.candidates]
            cursor = answer.cursor
            if not cursor:
                break
        return found

    def __enter__(self) -> Membrane:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        self._root.cleanup()


def _card(place: int, document: Document) -> card_pb2.Card:
    return card_pb2.Card(
        id=str(place),
        kind=card_pb2.CARD_KIND_OBSERVATION,
        text=document.text,
        entities=document.entities,
        topics=document.topics,
        occurred_at=read_time(document.occurred_at, "occurred_at"),
        stance=STANCES[document.stance],
        claims=[card_pb2.Claim(claim=claim, stance=STANCES[said]) for claim, said in document.claims.items()],
    )
