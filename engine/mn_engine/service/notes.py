"""What models write: memories and proposals. A model records what it has learned; it makes no rules.

Constraints and obligations bind every later decision, so they are not a model's to make, to end or to replace
(invariant 14). A proposal is a hypothesis until somebody who may confirms it, by recording what takes its place.

Keys and ids of notes begin with NOTE_PREFIX, whatever a model calls them: no note takes the name of an event that the
runtime is still to record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from mn_contract.canonical import digest
from mn_contract.errors import InvalidInput, NotFound, PermissionDenied
from mn_contract.names import check_id, format_ref
from mn_engine.domain.cards import SUPERSEDES, Kind
from mn_engine.domain.requests import NewCard, NewEvent
from mn_engine.domain.scope import Scope
from mn_engine.service.engine import Call, Engine
from mn_engine.service.record import record_events
from mn_engine.service.runs import written_run

BINDING: Final = frozenset({Kind.CONSTRAINT, Kind.OBLIGATION})
NOTE_PREFIX: Final = "note/"
_KEY_DIGITS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A memory that was recorded, or had been."""

    ref: str
    revision: int
    replayed: bool
    proposed: bool


def remember_this(engine: Engine, scope: Scope, call: Call, *, memory: NewCard, key: str) -> Noted:
    """Records a memory. The same again, under the same key, changes nothing; nor does it without one, while what it
    recorded is live. Raises PermissionDenied where it would bind decisions or end what does, InvalidInput where it says
    nothing."""
    if memory.kind in BINDING:
        raise PermissionDenied("constraints and obligations are not recorded by this tool; record them as an event")
    run = written_run(engine, scope)
    view = engine.indexes.view(scope, run.revision)
    for type_, target in memory.relations:
        if type_ == SUPERSEDES:
            ordinal = view.resolve(target, live=False)
            if view.kind(ordinal) in BINDING or view.key(ordinal).owner != scope.principal:
                raise PermissionDenied("this tool replaces only memories of your own, and no constraint or obligation")
    if memory.valid_from is None and any(type_ == SUPERSEDES for type_, _ in memory.relations):
        memory = replace(memory, valid_from=memory.occurred_at, begins=True)  # until then the old one held
    return _record(engine, scope, call, memory, key, proposed=False)


def propose_memory(engine: Engine, scope: Scope, call: Call, *, memory: NewCard, key: str) -> Noted:
    """Records a memory as a hypothesis."""
    written_run(engine, scope)
    return _record(engine, scope, call, replace(memory, kind=Kind.HYPOTHESIS), key, proposed=True)


def _record(engine: Engine, scope: Scope, call: Call, memory: NewCard, key: str, *, proposed: bool) -> Noted:
    for name, said in (("text", memory.text), *(("entities", one) for one in memory.entities)):
        if not said.strip():
            raise InvalidInput(f"{name}: it is blank", field=name)
    named = key or digest(memory.as_json())[:_KEY_DIGITS]
    while True:
        event = NewEvent(key=note_key(named), cards=(memory,))
        (receipt,) = record_events(engine, scope, call, events=(event,), expected_revision=None).events
        (card,) = receipt.cards
        if key or not receipt.replayed or _live(engine, scope, format_ref(card.owner, card.id, scope.principal)):
            break
        named = digest([named, receipt.revision])[:_KEY_DIGITS]  # it no longer holds, so saying it is another write
    return Noted(
        ref=format_ref(card.owner, card.id, scope.principal),
        revision=receipt.revision,
        replayed=receipt.replayed,
        proposed=proposed,
    )


def note_key(key: str) -> str:
    """The event key of a model's write: names of its own, so that it takes nobody else's. Raises InvalidInput."""
    return check_id(NOTE_PREFIX + key, "key")


def _live(engine: Engine, scope: Scope, ref: str) -> bool:
    """Whether the memory is there and nothing has taken its place."""
    view = engine.indexes.view(scope, engine.store.run(scope.run_key).revision)
    try:
        view.resolve(ref)
    except NotFound:
        return False
    return True
