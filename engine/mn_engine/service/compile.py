"""Recall and compile: plan -> recall -> rank -> allocate -> pack, all at one revision (invariants 1-8)."""

from __future__ import annotations

from dataclasses import dataclass

from mn_contract.canonical import digest
from mn_contract.errors import InvalidInput
from mn_contract.limits import RECALL_PAGE_DEFAULT, RECALL_PAGE_MAX
from mn_engine.domain.cards import StoredCard
from mn_engine.domain.events import check_expected
from mn_engine.domain.packets import (
    Budget,
    Coverage,
    Decision,
    Packet,
    PacketItem,
    Shares,
    Why,
    packet_digest,
    packet_size,
)
from mn_engine.domain.scope import Scope
from mn_engine.recall.analysis import Query, analyse_query, matched_terms
from mn_engine.recall.rank import rank
from mn_engine.recall.required import required
from mn_engine.recall.view import View
from mn_engine.select.allocate import Selection, select
from mn_engine.select.cursor import Position, decode_cursor, encode_cursor
from mn_engine.select.page import recall_page
from mn_engine.service.engine import Call, Engine
from mn_engine.service.record import check_revision, verify_bodies
from mn_engine.service.seen import Seen, see


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A page of what is relevant, best first."""

    revision: int
    candidates: tuple[tuple[Seen, Why], ...]
    coverage: Coverage
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
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
    reading = _place(engine, scope, call, decision, revision, expected, cursor=cursor, request_digest=request_digest)
    page = recall_page(reading.view, decision, rank(reading.view, decision, engine.embedder()), size, reading.position)
    stored = _load(engine, scope, call, reading.view, [item.ordinal for item in page.items])
    query = analyse_query(decision.focus)
    return Recalled(
        revision=reading.view.revision,
        candidates=tuple(
            (see(card, reading.view), _why(card, query, item.retrievers, item.rank, item.score))
            for card, item in zip(stored, page.items, strict=True)
        ),
        coverage=page.coverage,
        cursor=_cursor(page.next, reading, scope),
    )


def compile_packet(
    engine: Engine,
    scope: Scope,
    call: Call,
    *,
    decision: Decision,
    revision: int | None,
    expected: int | None,
    budget: Budget,
    shares: Shares,
    cursor: str,
    rotation: int | None,
) -> Packet:
    """The best packet for the decision that fits the budget. Raises NeedsPartition where what is required does not."""
    request_digest = digest(["compile", decision.as_json(), shares.opposing, shares.supporting, rotation])
    reading = _place(engine, scope, call, decision, revision, expected, cursor=cursor, request_digest=request_digest)
    view = reading.view
    selection = select(
        view,
        decision,
        rank(view, decision, engine.embedder()),
        required(view, decision),
        budget=budget,
        shares=shares,
        cursor=reading.position,
        rotation=rotation,
    )
    stored = _load(engine, scope, call, view, [item.ordinal for item in selection.items])
    return _packet(selection, stored, reading, scope, analyse_query(decision.focus))


def _place(
    engine: Engine,
    scope: Scope,
    call: Call,
    decision: Decision,
    asked: int | None,
    expected: int | None,
    *,
    cursor: str,
    request_digest: str,
) -> _Reading:
    call.check()
    if decision.as_of is not None and decision.as_of > engine.clock():
        raise InvalidInput("decision.as_of lies in the future; nothing is known of it yet", field="decision.as_of")
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
    return _Reading(view=view, position=position, request_digest=request_digest, newest=run.revision)


def _load(engine: Engine, scope: Scope, call: Call, view: View, ordinals: list[int]) -> list[StoredCard]:
    """The cards' bodies in one query, each checked against its frozen bytes (invariant 6)."""
    call.check()
    stored = engine.store.cards(scope.run_key, ordinals, revision=view.revision) if ordinals else []
    verify_bodies(engine, scope, stored)
    return stored


def _packet(selection: Selection, stored: list[StoredCard], reading: _Reading, scope: Scope, query: Query) -> Packet:
    items = tuple(
        PacketItem(
            stored=seen.stored,
            role=chosen.role,
            why=_why(seen.stored, query, chosen.retrievers, chosen.rank, chosen.score),
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


def _cursor(position: Position | None, reading: _Reading, scope: Scope) -> str:
    if position is None:
        return ""
    return encode_cursor(position, revision=reading.view.revision, request_digest=reading.request_digest, scope=scope)


def _why(stored: StoredCard, query: Query, retrievers: tuple[str, ...], rank: int, score: int) -> Why:
    card = stored.card
    searched = "\n".join((card.text, card.summary, *card.topics, *card.entities))
    return Why(retrievers=retrievers, matched_terms=matched_terms(searched, query), rank=rank, score=score)
