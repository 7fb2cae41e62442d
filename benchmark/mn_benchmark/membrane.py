"""Our system: an embedded engine over a record of its own, used through the SDK's client as any program would."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from types import TracebackType
from typing import Final

from mn.context.working.v1 import card_pb2, packet_pb2
from mn_benchmark.systems import Document
from mn_contract.limits import CARD_TEXT_BYTES_MAX, RECALL_PAGE_MAX
from mn_sdk.client import WorkingMemoryClient
from mn_sdk.context_session.observation import STANCES, TEXT, Observation, read_time
from mn_sdk.context_session.recording import Recorder
from mn_sdk.scope import SessionScope
from mn_sdk.transport.embedded import EmbeddedTransport

_SCOPE: Final = SessionScope(job_id="benchmark", run_id="run", principal="benchmark")
_EVENT_CARDS: Final = 256


class Membrane:
    """A run of one corpus, recorded in order: a card a document, several for one that is longer than a card."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._root = tempfile.TemporaryDirectory(prefix="membrane-benchmark-")
        self.client = WorkingMemoryClient(EmbeddedTransport(self._root.name, _SCOPE))
        self.client.open_run()
        recorder = Recorder(self.client)
        waiting: list[card_pb2.Card] = []
        for place, document in enumerate(documents):
            if len(document.text.encode("utf-8")) <= CARD_TEXT_BYTES_MAX:
                waiting.append(_card(place, document))
            else:
                recorder.record(str(place), _observation(place, document))
            if len(waiting) == _EVENT_CARDS:
                self._record(waiting)
        self._record(waiting)

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
            places = [int(candidate.card.id.partition("/")[0]) for candidate in answer.candidates]
            found += [place for place in dict.fromkeys(places) if place not in found]
            cursor = answer.cursor
            if not cursor:
                break
        return found

    def _record(self, waiting: list[card_pb2.Card]) -> None:
        if waiting:
            self.client.record([card_pb2.Event(key=f"documents-{waiting[0].id}", cards=waiting)])
            waiting.clear()

    def __enter__(self) -> Membrane:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        self._root.cleanup()


def _observation(place: int, document: Document) -> Observation:
    card = _card(place, document)
    for taken in ("id", "text"):
        card.ClearField(taken)
    return Observation(data=document.text.encode("utf-8"), media_type=TEXT, card=card)


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
