"""Explain: why a card is in a packet, or why it is not. The packet is built again from its request (invariant 5)."""

from __future__ import annotations

import numpy as np

from mn_engine.domain.cards import Stance, revision_of
from mn_engine.domain.packets import Decision, Explanation, Left, Out, PacketRequest, Why
from mn_engine.domain.scope import Scope
from mn_engine.recall.analysis import analyse_query
from mn_engine.recall.rank import Trace, retrievers
from mn_engine.recall.view import View
from mn_engine.select.stances import stances_toward
from mn_engine.service.compile import Built, build, load, why_of
from mn_engine.service.engine import Call, Engine


def explain(engine: Engine, scope: Scope, call: Call, *, request: PacketRequest, ref: str) -> Explanation:
    """Why the card that the asker calls `ref` is in the packet of `request`, or why it is not.

    Raises NotFound where the card is absent or not readable, and what building the packet raises.
    """
    call.check()
    newest = engine.store.run(scope.run_key)
    newest.check_readable()
    ordinal = engine.indexes.view(scope, newest.revision).resolve(ref, live=False)
    traces: list[Trace] = []

    def trace(view: View) -> Trace:
        traces.append(Trace(view.place(ordinal) if revision_of(ordinal) <= view.revision else None))
        return traces[0]

    built = build(engine, scope, call, request, trace)
    view = built.view
    if revision_of(ordinal) > view.revision:
        return _outside(built, Out.LATER, Stance.NEUTRAL)
    stance = Stance(int(stances_toward(view, request.decision)[view.place(ordinal)]))
    out = _out(built, request.decision, ordinal)
    if out is not None:
        return _outside(built, out, stance)
    (card,) = load(engine, scope, call, view, [ordinal])
    query = analyse_query(request.decision.focus)
    for item, told in zip(built.selection.items, built.packet.items, strict=True):
        if item.ordinal == ordinal and not item.rank:
            return Explanation(
                packet_digest=built.packet.digest,
                revision=view.revision,
                role=item.role,
                reason=None,
                why=told.why,
                size=item.size,
                tokens=item.tokens,
                stance=stance,
                quotas=built.selection.quotas,
            )
    pool, place = built.selection.pool, view.place(ordinal)
    reason = _left(built, int(np.flatnonzero(pool.places == place)[0]))
    (at,) = pool.ranks_of(np.asarray([place])).tolist()  # from here on in order as far as this card
    weighed = pool.order.weighed(at)
    roles = {item.ordinal: item.role for item in built.selection.items}
    return Explanation(
        packet_digest=built.packet.digest,
        revision=view.revision,
        role=roles.get(ordinal),
        reason=reason,
        why=why_of(card, query, retrievers(int(pool.found_by[at])), int(pool.ranks[at]), int(pool.scores[at])),
        parts=tuple(traces[0].parts),
        size=int(view.item_sizes[place]),
        tokens=int(pool.tokens[at]),
        stance=stance,
        redundancy=weighed.redundancy,
        utility=weighed.utility,
        offered=weighed.offered,
        quotas=built.selection.quotas,
    )


def _out(built: Built, decision: Decision, ordinal: int) -> Out | None:
    """Why a card that the asker can read was not one to choose from; None where it was."""
    view, place = built.view, built.view.place(ordinal)
    if not view.visible[place]:
        return Out.SUPERSEDED if view.superseded_by(ordinal) is not None else Out.INVALID
    if any(item.ordinal == ordinal for item in built.selection.items) or place in built.ranking.places:
        return None
    kinds = decision.kinds
    return Out.KIND if kinds and view.kind(ordinal) not in kinds else Out.IRRELEVANT


def _left(built: Built, at: int) -> Left | None:
    """Why the packet left a card of the pool; None where it did not."""
    return next((reason for reason, mask in built.selection.left.items() if mask[at]), None)


def _outside(built: Built, reason: Out, stance: Stance) -> Explanation:
    return Explanation(
        packet_digest=built.packet.digest,
        revision=built.view.revision,
        role=None,
        reason=reason,
        why=Why(),
        stance=stance,
        quotas=built.selection.quotas,
    )
