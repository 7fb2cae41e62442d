"""What a commit decides, whatever keeps the record: replay, fences, clashes and the storage budget, in the port's
order.

Pure: a store looks up what is known and writes what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mn_contract.errors import ContextBudgetExceeded, IdempotencyConflict, InvalidInput, NotFound
from mn_engine.domain.artifacts import Artifact
from mn_engine.domain.cards import RESOLVES, SUPERSEDES, CardKey, ordinal_of
from mn_engine.domain.deadlines import Expired
from mn_engine.domain.events import (
    Batch,
    BatchReceipt,
    EventReceipt,
    PreparedArtifact,
    PreparedCard,
    PreparedEvent,
    check_expected,
    check_replay,
)
from mn_engine.domain.runs import Run
from mn_engine.store.columns import card_meta, index_row
from mn_engine.store.port import RESOLVED, SUPERSEDED
from mn_engine.store.tree import (
    EndingRow,
    Leaf,
    Numbers,
    leaf_of_card,
    leaf_of_ending,
    leaf_of_event,
    leaf_of_handle,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a record knows of the things that a batch names."""

    run: Run
    event: Callable[[str, str], EventReceipt | None]
    has_cards: Callable[[set[CardKey]], set[CardKey]]
    """Those of the keys that the run has."""
    has_handle: Callable[[Artifact], bool]


@dataclass(frozen=True, slots=True)
class CardRow:
    """A card as it is to be stored: `columns` are those of INDEX_CARDS."""

    prepared: PreparedCard
    ordinal: int
    columns: tuple[Any, ...]
    meta: str
    leaf: Leaf


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """An event as it is to be stored. `handles` are those of its artifacts that are new."""

    event: PreparedEvent
    handles: tuple[tuple[PreparedArtifact, Leaf], ...]
    cards: tuple[CardRow, ...]
    endings: tuple[tuple[EndingRow, Leaf], ...]
    receipt: EventReceipt
    leaf: Leaf

    @property
    def leaves(self) -> Iterator[Leaf]:
        """All of them, in their order."""
        yield from (leaf for _, leaf in self.handles)
        yield from (card.leaf for card in self.cards)
        yield from (leaf for _, leaf in self.endings)
        yield self.leaf


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What to do: write `new` as revision `run.revision` (nothing where it is empty), then answer `receipt`."""

    run: Run
    new: tuple[Written, ...]
    receipt: BatchReceipt


def decide(batch: Batch, known: Known) -> Decided:
    """What becomes of `batch`. Raises RunClosed, IdempotencyConflict, StaleRevision, NotFound, InvalidInput,
    ContextBudgetExceeded."""
    known.run.check_readable()
    replays: dict[str, EventReceipt] = {}
    new: list[PreparedEvent] = []
    for event in batch.events:
        recorded = known.event(event.owner, event.key)
        if recorded is None:
            new.append(event)
        else:
            replays[event.key] = check_replay(recorded, event.fingerprint)
    if not new:
        receipts = tuple(replays[event.key] for event in batch.events)
        return Decided(run=known.run, new=(), receipt=BatchReceipt(revision=known.run.revision, events=receipts))
    known.run.check_writable()
    check_expected(batch.expected_revision, known.run.revision)
    _check_cards(new, known)
    artifacts = _new_artifacts(new, known)
    charged = sum(event.card_bytes for event in new)
    charged += sum(artifact.handle.size for some in artifacts for artifact in some)
    known.run.check_room(charged)
    revision = known.run.revision + 1
    written = tuple(_written(new, artifacts, revision, Numbers(known.run.frontier.size)))
    run = known.run.recorded((leaf.hash for one in written for leaf in one.leaves), charged=charged, revision=revision)
    made = {one.event.key: one.receipt for one in written}
    receipts = tuple(replays.get(event.key) or made[event.key] for event in batch.events)
    return Decided(run=run, new=written, receipt=BatchReceipt(revision=run.revision, events=receipts))


def _new_artifacts(events: list[PreparedEvent], known: Known) -> list[list[PreparedArtifact]]:
    """Each event's artifacts whose handle neither the run nor an earlier event has."""
    taken: set[Artifact] = set()
    found: list[list[PreparedArtifact]] = []
    for event in events:
        found.append([])
        for artifact in event.artifacts:
            if artifact.handle not in taken and not known.has_handle(artifact.handle):
                found[-1].append(artifact)
            taken.add(artifact.handle)
    return found


def _written(
    events: list[PreparedEvent], artifacts: list[list[PreparedArtifact]], revision: int, numbers: Numbers
) -> Iterator[Written]:
    place = 0
    for event, new in zip(events, artifacts, strict=True):
        handles = tuple((artifact, numbers.leaf(leaf_of_handle(artifact.handle))) for artifact in new)
        cards = []
        for prepared in event.cards:
            ordinal = ordinal_of(revision, place)
            columns, meta = index_row(ordinal, prepared), card_meta(prepared.card)
            record = leaf_of_card(ordinal, columns, meta, prepared.card.text)
            cards.append(CardRow(prepared, ordinal, columns, meta, numbers.leaf(record)))
            place += 1
        ended = tuple((row, numbers.leaf(leaf_of_ending(row))) for row in _ending_rows(event, revision))
        receipt = receipt_of(event, revision)
        yield Written(
            event=event,
            handles=handles,
            cards=tuple(cards),
            endings=ended,
            receipt=receipt,
            leaf=numbers.leaf(leaf_of_event(event.owner, receipt, event.recorded_at)),
        )


def _ending_rows(event: PreparedEvent, revision: int) -> Iterator[EndingRow]:
    for target, effect, by in endings(event):
        yield EndingRow(
            revision=revision,
            target_hash=target.hash,
            kind=SUPERSEDED if effect == SUPERSEDES else RESOLVED,
            by_hash=None if by is None else by.hash,
            by_owner=None if by is None else by.owner,
            by_id=None if by is None else by.id,
        )


def receipt_of(event: PreparedEvent, revision: int) -> EventReceipt:
    """The receipt of an event that was committed at `revision`."""
    return EventReceipt(
        key=event.key,
        revision=revision,
        replayed=False,
        fingerprint=event.fingerprint,
        cards=() if event.bulk else tuple(prepared.card.key for prepared in event.cards),
    )


def clash(key: CardKey) -> IdempotencyConflict:
    """The error for a card id that its writer has used."""
    return IdempotencyConflict(
        f"you have a card {key.id!r} in this run already; give this one an id of its own", key=key.id
    )


def endings(event: PreparedEvent) -> Iterable[tuple[CardKey, str, CardKey | None]]:
    """(target, effect, by) of everything that an event ends: superseded cards and resolved obligations."""
    for prepared in event.cards:
        for effect in (SUPERSEDES, RESOLVES):
            for target in prepared.card.targets(effect):
                yield target, effect, prepared.card.key
    for target in event.resolves:
        yield target, RESOLVES, None


def check_deadline(expired: Expired) -> None:
    """Raises ContextBudgetExceeded where nobody waits for a commit any more."""
    if expired():
        raise ContextBudgetExceeded("the call's deadline has passed; nothing was written", budget="deadline")


def _check_cards(events: list[PreparedEvent], known: Known) -> None:
    added: dict[CardKey, None] = {}  # in the batch's order: the clash that is told is the first one
    for event in events:
        for prepared in event.cards:
            if prepared.card.key in added:
                raise clash(prepared.card.key)
            added[prepared.card.key] = None
    named = {
        target
        for event in events
        for target in (
            *event.resolves,
            *(relation.target for prepared in event.cards for relation in prepared.card.relations),
        )
    }
    there = known.has_cards(named | added.keys())
    for key in added:
        if key in there:
            raise clash(key)
    if named - added.keys() - there:
        raise NotFound("a card that the event points at is not in this run")
    _check_order(events, added.keys())


def _check_order(events: list[PreparedEvent], added: Collection[CardKey]) -> None:
    """Raises InvalidInput where something would end a card that the batch adds later: so no endings make a cycle, and
    of cards that replace each other one is always live."""
    came: set[CardKey] = set()
    for event in events:
        for prepared in event.cards:
            card = prepared.card
            _check_came({*card.targets(SUPERSEDES), *card.targets(RESOLVES)}, came, added, "card.relations")
            came.add(card.key)
        _check_came(set(event.resolves), came, added, "event.resolves")


def _check_came(targets: set[CardKey], came: set[CardKey], added: Collection[CardKey], field: str) -> None:
    if any(target in added and target not in came for target in targets):
        raise InvalidInput(
            "a card supersedes and resolves only what came before it; put it after them in its event or batch",
            field=field,
        )
