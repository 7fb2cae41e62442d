"""What a commit decides, whatever keeps the record: replay, fences, clashes and the storage budget, in the port's
order.

Pure: a store looks up what is known and writes what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from operator import attrgetter

from mn_contract.errors import ContextBudgetExceeded, IdempotencyConflict, InvalidInput, NotFound
from mn_engine.domain.cards import RESOLVES, SUPERSEDES, CardKey
from mn_engine.domain.deadlines import Expired
from mn_engine.domain.events import (
    Batch,
    BatchReceipt,
    EventReceipt,
    PreparedEvent,
    check_expected,
    check_replay,
)
from mn_engine.domain.runs import Run, next_root


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a record knows of the things that a batch names."""

    run: Run
    event: Callable[[str, str], EventReceipt | None]
    has_cards: Callable[[set[CardKey]], set[CardKey]]
    """Those of the keys that the run has."""
    new_artifact_bytes: Callable[[PreparedEvent], int]
    """Bytes of an event's artifacts that have no such handle yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What to do: write `new` as revision `run.revision` (nothing where it is empty), then answer `receipt`."""

    run: Run
    new: tuple[PreparedEvent, ...]
    receipt: BatchReceipt


def decide(
    batch: Batch, known: Known, *, card_bytes: Callable[[PreparedEvent], int] = attrgetter("card_bytes")
) -> Decided:
    """What becomes of `batch`; `card_bytes` is what an event's cards are charged. Raises RunClosed,
    IdempotencyConflict, StaleRevision, NotFound, InvalidInput, ContextBudgetExceeded."""
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
    charged = sum(card_bytes(event) + known.new_artifact_bytes(event) for event in new)
    known.run.check_room(charged)
    run = advanced(known.run, charged, [event.fingerprint for event in new])
    made = {event.key: receipt_of(event, run.revision) for event in new}
    receipts = tuple(replays.get(event.key) or made[event.key] for event in batch.events)
    return Decided(run=run, new=tuple(new), receipt=BatchReceipt(revision=run.revision, events=receipts))


def advanced(run: Run, charged: int, fingerprints: list[str]) -> Run:
    """The run one revision on."""
    revision = run.revision + 1
    return replace(
        run,
        revision=revision,
        root=next_root(run.root, revision, fingerprints),
        stored_bytes=run.stored_bytes + charged,
    )


def receipt_of(event: PreparedEvent, revision: int) -> EventReceipt:
    """The receipt of an event that was committed at `revision`."""
    return EventReceipt(
        key=event.key,
        revision=revision,
        replayed=False,
        fingerprint=event.fingerprint,
        cards=tuple(prepared.card.key for prepared in event.cards),
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
