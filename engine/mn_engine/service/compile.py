"""Recall and compile: plan -> recall -> rank -> allocate -> pack, all at one revision (invariants 1-8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mn_contract.canonical import digest
from mn_contract.errors import InvalidInput
from mn_contract.limits import RECALL_PAGE_DEFAULT, RECALL_PAGE_MAX
from mn_engine.domain.cards import StoredCard
from mn_engine.domain.events import check_expected
from mn_engine.domain.packets import (
    Coverage,
    Decision,
    Packet,
    PacketItem,
    PacketRequest,
    Why,
    packet_digest,
    packet_size,
)
from mn_engine.domain.scope import Scope
from mn_engine.domain.seen import Seen
from mn_engine.recall.analysis import Query, analyse_query, matched_terms
from mn_engine.recall.rank import Ranking, Trace, rank
from mn_engine.recall.required import required
from mn_engine.recall.view import View
from mn_engine.select.allocate import Selection, select
from mn_engine.select.cursor import Position, decode_cursor, encode_cursor
from mn_engine.select.page import recall_page
from mn_engine.service.engine import Call, Engine
from mn_engine.service.record import check_revision, verify_bodies
from mn_engine.service.seen import see
from mn_engine.service.selector import OFFERED_MAX, Consultant, Consulted, Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A page of what is relevant, best first."""

    revision: int
    candidates: tuple[tuple[Seen, Why], ...]
    coverage: Coverage
    cursor: str
    newest_revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One request, placed at its revision."""

    view: View
    position: Position | None
    request_digest: str
    newest: int


def recall(
    engine: Engine,
    scope: Scope,
    call: Call,
    *,
    decision: Decision,
    revision: int | None,
    expected: int | None,
    page_size: int,
    cursor: str,
) -> Recalled:
    """A page of the ranking, at `revision` (None: the newest), failing unless `expected` (where given) is the
    newest."""
    size = page_size or RECALL_PAGE_DEFAULT
    if not 1 <= size <= RECALL_PAGE_MAX:
        raise InvalidInput(f"page_size must be 1-{RECALL_PAGE_MAX}, or 0 for {RECALL_PAGE_DEFAULT}", field="page_size")
    request_digest = digest(["recall", decision.as_json()])
    reading = place(engine, scope, call, decision, revision, expected, cursor=cursor, request_digest=request_digest)
    ranking = rank(reading.view, decision, engine.embedder())
    page = recall_page(reading.view, decision, ranking, size, reading.position)
    stored = load(engine, scope, call, reading.view, [item.ordinal for item in page.items])
    query = analyse_query(decision.focus)
    return Recalled(
        revision=reading.view.revision,
        candidates=tuple(
            (see(card, reading.view), why_of(card, query, item.retrievers, item.rank, item.score))
            for card, item in zip(stored, page.items, strict=True)
        ),
        coverage=page.coverage,
        cursor=_cursor(page.next, reading, scope),
        newest_revision=reading.newest,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A packet, and what it was chosen from."""

    packet: Packet
    view: View
    ranking: Ranking
    selection: Selection


def compile_packet(engine: Engine, scope: Scope, call: Call, *, request: PacketRequest) -> Packet:
    """The best packet for the decision that fits the budget. Raises NeedsPartition where what is required does not."""
    return build(engine, scope, call, request).packet


def build(
    engine: Engine, scope: Scope, call: Call, request: PacketRequest, trace: Callable[[View], Trace] | None = None
) -> Built:
    """The same, with what it was chosen from. `trace` makes what follows a card through the ranking."""
    decision = request.decision
    reading = place(
        engine,
        scope,
        call,
        decision,
        request.revision,
        request.expected,
        cursor=request.cursor,
        request_digest=request.digest,
    )
    view = reading.view
    must = required(view, decision)
    held = np.asarray([view.place(ordinal) for ordinal, _ in must], np.int64)
    ranking = rank(view, decision, engine.embedder(), held=held, trace=trace and trace(view))

    def selected(preferred: Sequence[int] = ()) -> Selection:
        return select(
            view,
            decision,
            ranking,
            must,
            budget=request.budget,
            shares=request.shares,
            cursor=reading.position,
            rotation=request.rotation,
            preferred=preferred,
        )

    selection, consulted = selected(), Consulted.NOT
    if engine.consultant is not None and reading.position is None:
        preferred, consulted = _preferred(engine.consultant, engine, scope, call, decision, view, selection)
        if preferred:
            selection = selected(preferred)
    stored = load(engine, scope, call, view, [item.ordinal for item in selection.items])
    packet = _packet(selection, stored, reading, scope, analyse_query(decision.focus))
    packet = replace(packet, selector=consulted.value)
    return Built(packet=packet, view=view, ranking=ranking, selection=selection)


def _preferred(
    consultant: Consultant,
    engine: Engine,
    scope: Scope,
    call: Call,
    decision: Decision,
    view: View,
    selection: Selection,
) -> tuple[list[int], Consulted]:
    """Places of the cards that a model would offer first, and what came of asking it."""
    pool = selection.pool
    ranks = pool.order.window(0)[:OFFERED_MAX] if len(pool) else []
    places = [int(pool.places[rank]) for rank in ranks]
    stored = load(engine, scope, call, view, [view.ordinal(place) for place in places])
    place_of = {view.ref(place): place for place in places}
    offers = [
        Offer(ref=ref, kind=one.card.kind.name.lower(), stance=one.card.stance.name.lower(), text=one.card.text)
        for ref, one in zip(place_of, stored, strict=True)
    ]
    refs, consulted = consultant.ask(decision.focus, offers, remaining=call.remaining())
    return [place_of[ref] for ref in refs], consulted


def place(
    engine: Engine,
    scope: Scope,
    call: Call,
    decision: Decision,
    asked: int | None,
    expected: int | None,
    *,
    cursor: str,
    request_digest: str,
) -> Reading:
    """The view that a decision is made over: at the cursor's revision, else at `asked` (None: the newest), failing
    unless `expected` (where given) is the newest. Raises InvalidInput, StaleRevision, RunClosed."""
    call.check()
    if decision.as_of is not None and decision.as_of > engine.clock():
        raise InvalidInput(
            "decision.as_of lies in the future, of which nothing is known yet; leave it out to ask of now",
            field="decision.as_of",
        )
    run = engine.store.run(scope.run_key)
    run.check_readable()
    position: Position | None = None
    if cursor:
        position, revision = decode_cursor(cursor, request_digest=request_digest, scope=scope)
        check_revision(revision, run.revision)
    else:
        check_expected(expected, run.revision)
        revision = run.revision if asked is None else check_revision(asked, run.revision)
    view = engine.indexes.view(scope, revision, decision.as_of)
    return Reading(view=view, position=position, request_digest=request_digest, newest=run.revision)


def load(engine: Engine, scope: Scope, call: Call, view: View, ordinals: list[int]) -> list[StoredCard]:
    """The cards' bodies in one query, each checked against its frozen bytes (invariant 6)."""
    call.check()
    stored = engine.store.cards(scope.run_key, ordinals, revision=view.revision) if ordinals else []
    verify_bodies(engine, scope, stored)
    return stored


def _packet(selection: Selection, stored: list[StoredCard], reading: Reading, scope: Scope, query: Query) -> Packet:
    items = tuple(
        PacketItem(
            stored=seen.stored,
            role=chosen.role,
            why=why_of(seen.stored, query, chosen.retrievers, chosen.rank, chosen.score),
            conflicts=seen.conflicts,
        )
        for chosen, seen in zip(selection.items, (see(card, reading.view) for card in stored), strict=True)
    )
    sizes = tuple(chosen.size for chosen in selection.items)
    tokens = tuple(chosen.tokens for chosen in selection.items)
    return Packet(
        revision=reading.view.revision,
        items=items,
        sizes=sizes,
        coverage=selection.coverage,
        cursor=_cursor(selection.next, reading, scope),
        size=packet_size(sizes),
        tokens=sum(tokens),
        item_tokens=tokens,
        digest=packet_digest(
            reading.view.revision, [item.document(scope.principal) for item in items], selection.coverage
        ),
        newest_revision=reading.newest,
        next_rotation=selection.next_rotation,
    )


def _cursor(position: Position | None, reading: Reading, scope: Scope) -> str:
    if position is None:
        return ""
    return encode_cursor(position, revision=reading.view.revision, request_digest=reading.request_digest, scope=scope)


def why_of(stored: StoredCard, query: Query, retrievers: tuple[str, ...], rank: int, score: int) -> Why:
    """Why a card came up."""
    card = stored.card
    searched = "\n".join((card.text, card.summary, *card.topics, *card.entities))
    return Why(retrievers=retrievers, matched_terms=matched_terms(searched, query), rank=rank, score=score)
