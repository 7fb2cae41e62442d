"""Recording events and reading a card back exactly."""

from __future__ import annotations

import hashlib

from mn_contract.errors import ContextError, InvalidInput, SourceMismatch
from mn_engine.domain.cards import StoredCard
from mn_engine.domain.events import Batch, BatchReceipt, check_replay
from mn_engine.domain.requests import NewEvent, check_batch
from mn_engine.domain.scope import Scope
from mn_engine.domain.seen import Seen
from mn_engine.service.engine import Call, Engine
from mn_engine.service.prepare import prepare
from mn_engine.service.seen import see


def record_events(
    engine: Engine, scope: Scope, call: Call, *, events: tuple[NewEvent, ...], expected_revision: int | None
) -> BatchReceipt:
    """Commits the events, all or none. A batch of replays is answered from the record, whatever has changed since."""
    check_batch(events)
    call.check()
    run = engine.store.run(scope.run_key)
    run.check_readable()
    try:
        prepared = prepare(engine, scope, events, run.revision)
    except ContextError:
        # What a replay once pointed at may be hidden or gone from the writer's sight by now; its receipt is not.
        replayed = _replayed(engine, scope, events)
        if replayed is None:
            raise
        return replayed
    batch = Batch(run_key=scope.run_key, events=prepared, expected_revision=expected_revision)
    return engine.store.commit(batch, expired=call.expired)


def _replayed(engine: Engine, scope: Scope, events: tuple[NewEvent, ...]) -> BatchReceipt | None:
    recorded = [engine.store.event(scope.run_key, scope.principal, event.key) for event in events]
    receipts = []
    for event, receipt in zip(events, recorded, strict=True):
        if receipt is None:
            return None
        receipts.append(check_replay(receipt, event.fingerprint))
    return BatchReceipt(revision=engine.store.run(scope.run_key).revision, events=tuple(receipts))


def get_card(engine: Engine, scope: Scope, call: Call, *, ref: str, revision: int | None) -> tuple[Seen, int]:
    """A card as the asker sees it at `revision` (None: the newest), its text checked against its frozen bytes."""
    call.check()
    run = engine.store.run(scope.run_key)
    run.check_readable()
    at = run.revision if revision is None else check_revision(revision, run.revision)
    view = engine.indexes.view(scope, at)
    ordinal = view.resolve(ref, live=False)
    stored = engine.store.cards(scope.run_key, [ordinal], revision=at)
    verify_bodies(engine, scope, stored)
    return see(stored[0], view), at


def check_revision(asked: int, newest: int) -> int:
    """`asked` where the run has been there. Raises InvalidInput."""
    if not 0 <= asked <= newest:
        raise InvalidInput(f"the run's revisions are 0-{newest}", field="at.revision", newest=newest)
    return asked


def verify_bodies(engine: Engine, scope: Scope, stored: list[StoredCard]) -> None:
    """Checks each card's text against its frozen bytes, by range and hash (invariant 6). Raises SourceMismatch."""
    bodies = [found.card.body for found in stored]
    frozen = engine.store.read_ranges(scope.run_key, [body.span for body in bodies]) if bodies else []
    for found, data in zip(stored, frozen, strict=True):
        card = found.card
        if data != card.text.encode("utf-8") or hashlib.sha256(data).hexdigest() != card.body.sha256:
            raise SourceMismatch(
                "a card's text is not what its frozen bytes say; it was not used",
                artifact_sha256=card.body.artifact,
                start=card.body.start,
                end=card.body.end,
            )
