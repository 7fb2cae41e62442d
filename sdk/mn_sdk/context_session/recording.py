"""Recording an observation: one event, idempotent under the caller's name for it, however many cards it takes.

A record that was split is one thing to its users: its name stands for all of its cards wherever a reference is taken.
Relations that end something (`supersedes`, `resolves`) are spread over the pieces, one target each, because they take
effect once; relations that say something (`contradicts`, the caller's own) stand on every piece, because each piece may
be recalled alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from mn.context.working.v1 import artifact_pb2, card_pb2
from mn_contract.canonical import digest
from mn_contract.errors import ContextBudgetExceeded, InvalidInput, NotFound, SourceMismatch, StorageFull
from mn_contract.limits import (
    ARTIFACT_INLINE_BYTES_MAX,
    CARD_LIST_MAX,
    CARD_TEXT_BYTES_MAX,
    EVENT_RESOLVES_MAX,
    ID_BYTES_MAX,
)
from mn_sdk.client import WorkingMemoryClient
from mn_sdk.context_session import pieces
from mn_sdk.context_session.observation import RESPONSE_NAMES, Observation

_KNOWN_MAX: Final = 4096
_SUFFIX_BYTES: Final = 24
"""What an attempt's and a piece's number take of an id."""
Link = tuple[str, str]


class Recorder:
    """Records observations of one session. Thread-safe as its client is."""

    def __init__(self, client: WorkingMemoryClient) -> None:
        self._client = client
        self._known: dict[str, tuple[str, ...]] = {}

    def record(self, event_id: str, observation: Observation) -> tuple[str, ...]:
        """The references of the cards that the record is now, in order. The same again changes nothing.

        Raises IdempotencyConflict where `event_id` was used for something else, InvalidInput where it is too large,
        ContextBudgetExceeded before anything is written where the run has no room for all of it.
        """
        linking = [(type_, ref) for type_, record in observation.linking for ref in self.cards_of(record)]
        ending = [(type_, ref) for type_, record in observation.ending for ref in self.cards_of(record)]
        if len(observation.data) <= CARD_TEXT_BYTES_MAX:
            event = _whole(event_id, observation)
        else:
            event = _split(event_id, observation)
        _link(event, linking, ending)
        if len(observation.data) <= ARTIFACT_INLINE_BYTES_MAX:
            (receipt,) = self._client.record([event]).receipts
        else:
            receipt = self._record_large(event, observation)
        refs = tuple(receipt.cards)
        self._remember(event_id, refs)
        return refs

    def cards_of(self, ref: str) -> tuple[str, ...]:
        """The cards that a reference stands for: itself, or the pieces of the record that was split under this name.

        A reference that names nothing here is answered as it is: the engine says what is wrong with it.
        """
        known = self._known.get(ref)
        if known is not None:
            return known
        try:
            self._client.card(ref)
            found: tuple[str, ...] = (ref,)
        except NotFound:
            found = self._pieces_of(ref)
        if found:
            self._remember(ref, found)
        return found or (ref,)

    def check_unanswered(self, name: str) -> None:
        """Raises SourceMismatch where the record has the response to the first attempt at a call that the journal knows
        nothing of: it was made, and the journal has lost it (invariant 10)."""
        event = response_id(name, 1)
        for ref in (event, pieces.piece_id(event, 1)):
            try:
                self._client.card(ref)
            except NotFound:
                continue
            raise SourceMismatch(
                f"the record has the response to call {name!r}, as {ref}, and the journal has lost the call; nothing "
                "was sent. Restore the folder of the journal from a backup, or give the call another name",
                name=name,
                ref=ref,
            )

    def _pieces_of(self, ref: str) -> tuple[str, ...]:
        try:
            first = self._client.card(pieces.piece_id(ref, 1))
        except (NotFound, InvalidInput):  # with the suffix a long name is no id: then it names no split record either
            return ()
        last = next((link.target for link in first.relations if link.type == pieces.LAST_PIECE), "")
        number = last.rpartition("/")[2]
        count = int(number) if number.isdecimal() else 0
        return tuple(pieces.piece_id(ref, place) for place in range(1, count + 1))

    def _record_large(self, event: card_pb2.Event, observation: Observation) -> card_pb2.EventReceipt:
        """Two writes, the bytes and then their cards: what would refuse the second is looked for before the first."""
        put = not self._pieces_of(event.key)  # recorded before: replayed or refused, and either way without the bytes
        if put:
            self._check_room(observation)
            self._client.put_artifact(observation.data, media_type=observation.media_type, acl=observation.acl)
        try:
            (receipt,) = self._client.record([event]).receipts
        except (ContextBudgetExceeded, StorageFull) as error:
            if not put:
                raise
            raise type(error)(
                f"the cards of {event.key!r} were not recorded ({error.reason}), though its bytes were stored before, "
                "as an artifact. Make room and observe it again",
                **error.detail,
            ) from error
        return receipt

    def _check_room(self, observation: Observation) -> None:
        """Raises ContextBudgetExceeded where the run has no room for the bytes and for the cards over them, which are
        charged by their texts."""
        run = self._client.run()
        size = len(observation.data)
        needed = size + len(observation.summary.encode("utf-8"))
        if not self._client.has_artifact(hashlib.sha256(observation.data).hexdigest()):
            needed += size
        if run.max_stored_bytes and run.stored_bytes + needed > run.max_stored_bytes:
            raise ContextBudgetExceeded(
                f"the run has stored {run.stored_bytes} of its {run.max_stored_bytes} bytes and this record needs "
                f"{needed} more; nothing was written",
                budget="storage",
                limit=run.max_stored_bytes,
                used=run.stored_bytes,
                needed=needed,
            )

    def _remember(self, ref: str, cards: tuple[str, ...]) -> None:
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known[ref] = cards


def response_id(name: str, attempt: int) -> str:
    """The name of the event by which the response to an attempt is written back: the call's where it leaves room, else
    its digest."""
    room = ID_BYTES_MAX - len(RESPONSE_NAMES) - _SUFFIX_BYTES
    shown = name if len(name) <= room else f"sha256-{digest(name.encode())}"
    return f"{RESPONSE_NAMES}{shown}/{attempt}"


def _whole(event_id: str, observation: Observation) -> card_pb2.Event:
    event = card_pb2.Event(key=event_id)
    card = event.cards.add()
    card.CopyFrom(observation.card)
    card.text = observation.data.decode("utf-8")
    card.summary = observation.summary
    return event


def _split(event_id: str, observation: Observation) -> card_pb2.Event:
    cuts = list(pieces.ranges(observation.data))
    if len(cuts) > pieces.PIECES_MAX:
        raise InvalidInput(
            f"a record is at most {pieces.PIECES_MAX} cards, and this one takes {len(cuts)}; put the bytes with "
            "put_artifact and observe their parts",
            field="record",
            size=len(observation.data),
        )
    if len(pieces.piece_id(event_id, len(cuts))) > ID_BYTES_MAX:
        most = ID_BYTES_MAX - len(pieces.piece_id("", len(cuts)))
        raise InvalidInput(
            f"this record takes {len(cuts)} cards, which are numbered after its name: event_id must be at most {most} "
            "bytes",
            field="event_id",
        )
    event = card_pb2.Event(key=event_id)
    if len(observation.data) <= ARTIFACT_INLINE_BYTES_MAX:
        event.artifacts.add(media_type=observation.media_type, data=observation.data, acl=observation.acl)
    sha256 = hashlib.sha256(observation.data).hexdigest()
    for number, (start, end) in enumerate(cuts, start=1):
        card = event.cards.add()
        card.CopyFrom(observation.card)
        card.id = pieces.piece_id(event_id, number)
        card.body.CopyFrom(artifact_pb2.SourceRange(artifact_sha256=sha256, start=start, end=end))
        if number > 1:
            card.relations.add(type=pieces.CONTINUES, target=pieces.piece_id(event_id, number - 1))
    event.cards[0].summary = observation.summary
    event.cards[0].relations.add(type=pieces.LAST_PIECE, target=pieces.piece_id(event_id, len(cuts)))
    return event


def _link(event: card_pb2.Event, linking: Iterable[Link], ending: Iterable[Link]) -> None:
    """Gives the event's cards their relations. Raises InvalidInput where there are more than they can carry."""
    for card in event.cards:
        for type_, ref in linking:
            card.relations.add(type=type_, target=ref)
    left = list(ending)
    for card in event.cards:
        room = max(CARD_LIST_MAX - len(card.relations), 0)
        for type_, ref in left[:room]:
            card.relations.add(type=type_, target=ref)
        left = left[room:]
    # An event can resolve without a card's relation; superseding needs the card that takes the place.
    resolved = [ref for type_, ref in left if type_ == "resolves"]
    too_many = len(resolved) < len(left) or len(resolved) > EVENT_RESOLVES_MAX
    if too_many or any(len(card.relations) > CARD_LIST_MAX for card in event.cards):
        raise InvalidInput(
            f"a card has at most {CARD_LIST_MAX} relations, and a record's name counts as all of its cards; spread "
            "them over several observations",
            field="relations",
        )
    event.resolves.extend(resolved)
