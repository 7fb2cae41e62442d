"""Packs: CMP over the same recall - one view, one ranking, one order - with a policy of its own (invariants 1, 4-8).

A page considers whole windows of the ranking, as many as its profile's budget could hold, so that what it chooses from
does not depend on the budget that was asked for.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

import numpy as np

from mn_contract.canonical import digest, encoded
from mn_contract.errors import InvalidInput
from mn_contract.limits import (
    ARTIFACT_CHUNK_BYTES_MAX,
    CANDIDATES_MAX,
    DIVERSITY_WINDOW,
    PACK_CANDIDATE_TOKENS,
)
from mn_contract.names import PACK_MEDIA_TYPE
from mn_contract.smp import PIN_PREFIX, memory_of
from mn_engine.domain.access import Acl
from mn_engine.domain.cards import ordinal_of
from mn_engine.domain.packets import CoverageStatus, Decision
from mn_engine.domain.packs import (
    Change,
    Pack,
    Packaged,
    PackCoverage,
    PackItem,
    PackRequest,
    Telling,
    check_session_id,
)
from mn_engine.domain.requests import NewRange
from mn_engine.domain.scope import Scope
from mn_engine.recall.analysis import Query, analyse_query
from mn_engine.recall.rank import Ranking, rank, retrievers
from mn_engine.recall.required import applying
from mn_engine.recall.view import View
from mn_engine.select.cmp.around import follow_ups, graph_of
from mn_engine.select.cmp.folding import fold
from mn_engine.select.cmp.ladder import rungs
from mn_engine.select.cmp.packing import Packed, by_layer, knapsack, speaking_for
from mn_engine.select.cmp.profiles import ModelProfile, resolve_profile
from mn_engine.select.cmp.table import ITEM_OVERHEAD_TOKENS, REDUNDANCY_PENALTY
from mn_engine.select.cmp.utility import time_of, utility
from mn_engine.select.cmp.working_set import Delta, Fate, WorkingSet, advance
from mn_engine.select.cursor import START, Position, encode_cursor
from mn_engine.select.order import Order
from mn_engine.select.stances import OPPOSING, stances_toward
from mn_engine.service.artifacts import keep_artifact, read_artifact
from mn_engine.service.compile import load, place, why_of
from mn_engine.service.counting import counter_of
from mn_engine.service.engine import Call, Engine
from mn_engine.service.seen import see

_SHA256: Final = re.compile("[0-9a-f]{64}")
_EXCLUDED: Final = re.compile(r"(?<=[^~])~([1-9][0-9]{0,8})\Z")
_MARK_DIGITS: Final = 16
_CHECK_DIGITS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A pack, what it was made over, and what an item costs in it."""

    pack: Pack
    view: View
    query: Query
    newest: int
    cost: Callable[[PackItem], int]


def get_context(
    engine: Engine,
    scope: Scope,
    call: Call,
    *,
    request: PackRequest | None = None,
    pinned: str = "",
    session_id: str = "",
    pin: bool = False,
    telling: Telling | None = None,
) -> Packaged:
    """The best pack for the question that fits the budget; what it changes for a session; kept, where it is to be. Or,
    without a request, the pack that was kept under the handle `pinned`.

    Raises NeedsPartition where what is required does not fit, NotFound for a named memory that is not there.
    """
    if request is None:
        return replace(read_pin(engine, scope, call, pin=pinned), telling=telling or Telling())
    if session_id:
        check_session_id(session_id)
    built = build(engine, scope, call, request)
    document = built.pack.document(scope.principal)
    packaged = Packaged(document=document, digest=digest(document), session_id=session_id, telling=telling or Telling())
    if pin:
        packaged = replace(packaged, pin=_keep(engine, scope, call, document))
    if session_id:
        packaged = replace(packaged, change=_change(engine, scope, built, document, session_id))
    return packaged


def build(engine: Engine, scope: Scope, call: Call, request: PackRequest) -> Built:
    """The same, with what it was made over."""
    decision = request.decision
    profile = resolve_profile(request.model, engine.profiles)
    counter, tokens = counter_of(request.model, profile)
    cursor, excluded = _read_cursor(request.cursor)
    bound = _bound(request, profile, excluded)
    reading = place(engine, scope, call, decision, request.revision, None, cursor=cursor, request_digest=bound)
    view, query = reading.view, analyse_query(decision.focus)
    named = [view.place(view.resolve(ref)) for ref in decision.required]
    ranking = rank(view, decision, engine.embedder(), held=np.asarray(named, np.int64))
    asked = bool(query.terms or decision.topics or decision.claims or decision.entities)
    required = list(dict.fromkeys([*named, *_top_constraint(view, decision, ranking if asked else None)]))
    page = _Page(
        engine=engine,
        scope=scope,
        call=call,
        view=view,
        query=query,
        ranking=ranking,
        required=required,
        profile=profile,
        request=request,
        budget=profile.budget(request.budget_tokens),
        tokens=tokens,
    )
    position = reading.position
    while True:
        filled = page.fill(position)
        position = filled.next
        excluded += filled.excluded
        if filled.packed.taken or position is None:
            break
    cursor = ""
    if position is not None:
        bound = _bound(request, profile, excluded)
        cursor = _cursor(encode_cursor(position, revision=view.revision, request_digest=bound, scope=scope), excluded)
    items = tuple(item for _, item in filled.packed.taken)
    missing = not len(ranking) and not required
    short = bool(filled.pending or excluded)
    status = CoverageStatus.MISSING if missing else CoverageStatus.DEGRADED if short else CoverageStatus.COMPLETE
    pack = Pack(
        revision=view.revision,
        model=profile.name,
        budget=page.budget,
        used=filled.packed.used,
        counter=counter,
        coverage=PackCoverage(status=status, excluded=excluded, deduped=filled.deduped, pending=filled.pending),
        items=items,
        cursor=cursor,
        follow_ups=tuple(follow_ups(items, decision, budget=page.budget, pending=filled.pending)),
        graph=graph_of(items, scope.principal),
    )
    return Built(pack=pack, view=view, query=query, newest=reading.newest, cost=page.cost)


def _bound(request: PackRequest, profile: ModelProfile, excluded: int) -> str:
    """What a cursor is good for: the question, whatever the budget, and what it says was excluded."""
    return digest(["pack", request.decision.as_json(), profile.name, request.counter_share, excluded])


def _cursor(position: str, excluded: int) -> str:
    """A pack's cursor: that of its position, and how many memories the pages so far have found to fit none."""
    return f"{position}~{excluded}" if excluded else position


def _read_cursor(cursor: str) -> tuple[str, int]:
    """(the position's cursor, excluded): the inverse. What is neither stays as it is, and is refused as no position."""
    found = _EXCLUDED.search(cursor)
    return (cursor[: found.start()], int(found[1])) if found else (cursor, 0)


def _top_constraint(view: View, decision: Decision, ranking: Ranking | None) -> list[int]:
    """The place of the constraint that every pack for the decision holds: the best that was found for it, whatever
    topics it names (found is applying); where none was, or nothing was asked (None), the newest that applies to every
    decision or names a topic or claim of this one. Empty where there is none."""
    constraints = np.flatnonzero(view.constraints())
    best = None if ranking is None else ranking.best_of(constraints)
    return [int(place) for place in applying(view, decision, constraints)[-1:]] if best is None else [best]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filled:
    """A page's items, what became of the other memories, and where the next one begins (None: nothing is left)."""

    packed: Packed
    excluded: int
    deduped: int
    pending: int
    next: Position | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """What the pages of one request have in common. `required` are places."""

    engine: Engine
    scope: Scope
    call: Call
    view: View
    query: Query
    ranking: Ranking
    required: Sequence[int]
    profile: ModelProfile
    request: PackRequest
    budget: int
    tokens: Callable[[str], int]

    def fill(self, position: Position | None) -> _Filled:
        """The page at `position` (None: the first). What is required stands on the first one, and on no other."""
        at, first = position or START, position is None
        considered = _considered(self.profile)
        end = min(at.end + max(considered - len(at.skipped), 0), len(self.ranking))
        ordered = self.ranking.ordered(end)
        ranks = [*at.skipped[:considered], *range(at.end, end)]
        ranks = [one for one in ranks if first or int(ordered.places[one]) not in self.required]
        ranked = [int(ordered.places[one]) for one in ranks]
        places = [*ranked, *(place for place in self.required if first and place not in ranked)]
        whys = [(retrievers(int(ordered.found_by[one])), one + 1, int(ordered.scores[one])) for one in ranks] + [
            (("required",), 0, 0)
        ] * (len(places) - len(ranks))
        items = self._items(places, whys)
        must = {places.index(place) for place in self.required} if first else set()
        packed, folded = self._packed(places, items, must)
        served = {one for one, _ in packed.taken}
        gone = served | {one for one, into in folded.items() if into in served}
        oversize = {one for one in range(len(items)) if one not in gone and not self._fits(items[one])}
        skipped = [rank for one, rank in enumerate(ranks) if one not in gone and one not in oversize]
        skipped += at.skipped[considered:]
        elsewhere = int(np.isin(self.required, ordered.places[end:]).sum())  # on the first page, wherever they rank
        pending = len(skipped) + len(self.ranking) - end - elsewhere
        return _Filled(
            packed=packed,
            excluded=len(oversize),
            deduped=len(gone) - len(served),
            pending=pending,
            next=Position(end=end, skipped=tuple(sorted(skipped))) if pending else None,
        )

    def cost(self, item: PackItem) -> int:
        """Tokens that an item takes: those of its text, ref, layer and time included."""
        return self.tokens(item.text(self.scope.principal)) + ITEM_OVERHEAD_TOKENS

    def _fits(self, item: PackItem) -> bool:
        """Whether an empty page would hold an item in any form."""
        forms = rungs(item.card) if self.profile.knapsack else ()
        shorter = (replace(item, form=form, end=end) for form, end in forms)
        return any(self.cost(one) <= self.budget for one in chain((item,), shorter))

    def _items(self, places: Sequence[int], whys: Sequence[tuple[tuple[str, ...], int, int]]) -> list[PackItem]:
        stored = load(self.engine, self.scope, self.call, self.view, [self.view.ordinal(place) for place in places])
        return [
            PackItem(seen=see(one, self.view), why=why_of(one, self.query, *why))
            for one, why in zip(stored, whys, strict=True)
        ]

    def _packed(self, places: Sequence[int], items: list[PackItem], must: set[int]) -> tuple[Packed, Mapping[int, int]]:
        """What of the items stands in the page, and which of them another one speaks for."""
        if not items:
            return Packed(taken=(), used=0), {}
        asker = self.scope.principal
        stances = stances_toward(self.view, self.request.decision)[np.asarray(places, np.int64)]
        opposing = frozenset(np.flatnonzero(np.isin(stances, OPPOSING)).tolist())
        share = self.request.counter_share
        if not self.profile.knapsack:
            packed = by_layer(
                items,
                required=must,
                opposing=opposing,
                counter_share=share,
                budget=self.budget,
                cost=self.cost,
                asker=asker,
            )
            return packed, {}
        order = self._order(places, items)
        offered = [items[one] for one in order]
        into = fold([item.seen for item in offered], apart=frozenset(map(order.index, must)))
        turns = list(range(len(order)))
        for speaker in set(into.values()):
            folded = [one for one, other in into.items() if other == speaker]
            offered[speaker] = speaking_for(offered[speaker], [offered[one] for one in sorted(folded)], asker)
            turns[speaker] = min(speaker, *folded)  # what is said is offered when it is first due, whoever says it
        kept = sorted((one for one in range(len(order)) if one not in into), key=turns.__getitem__)
        packed = knapsack(
            [offered[one] for one in kept],
            required={kept.index(order.index(one)) for one in must},
            opposing={number for number, one in enumerate(kept) if order[one] in opposing},
            counter_share=share,
            budget=self.budget,
            cost=self.cost,
            asker=asker,
        )
        taken = tuple((order[kept[number]], item) for number, item in packed.taken)
        return replace(packed, taken=taken), {order[one]: order[other] for one, other in into.items()}

    def _order(self, places: Sequence[int], items: Sequence[PackItem]) -> list[int]:
        """The order in which the items are offered, whatever the budget. Recency counts from the time that is asked of,
        else from the newest of them; what is dated after all of them were noted is as recent as these."""
        as_of = self.request.decision.as_of
        newest = max(time_of(item.card) for item in items) if as_of is None else as_of
        newest = min(newest, max(item.card.captured_at for item in items))
        best = max(item.why.score for item in items)
        utilities = [
            utility(item.card, score=item.why.score, best=best, newest=newest, weights=self.profile.weights)
            for item in items
        ]
        order = Order(
            self.view,
            np.asarray(places, np.int64),
            np.asarray(utilities, np.int64),
            np.asarray([self.cost(item) for item in items], np.int64),
            penalty=REDUNDANCY_PENALTY,
        )
        windows = range(-(-len(items) // DIVERSITY_WINDOW))
        return [one for number in windows for one in order.window(number)]


def _considered(profile: ModelProfile) -> int:
    """How many candidates a page looks at: whole windows, as many as the profile's budget could hold."""
    windows = 1 + profile.pack_token_budget // (PACK_CANDIDATE_TOKENS * DIVERSITY_WINDOW)
    return min(windows * DIVERSITY_WINDOW, CANDIDATES_MAX)


# Pins.


def _keep(engine: Engine, scope: Scope, call: Call, document: Mapping[str, Any]) -> str:
    """Stores a pack's bytes, for its asker alone and only with the roles that it was made with."""
    data = encoded(document)
    sha256 = hashlib.sha256(data).hexdigest()
    keep_artifact(
        engine,
        scope,
        call,
        media_type=PACK_MEDIA_TYPE,
        expected_sha256=sha256,
        acl=Acl(allow_principals=frozenset({scope.principal}), require_roles=scope.roles),
        chunks=[data[at : at + ARTIFACT_CHUNK_BYTES_MAX] for at in range(0, len(data), ARTIFACT_CHUNK_BYTES_MAX)],
    )
    return f"{PIN_PREFIX}{sha256}.{_pin_check(sha256, scope)}"


def read_pin(engine: Engine, scope: Scope, call: Call, *, pin: str) -> Packaged:
    """The pack that was kept under a handle, byte for byte. Raises InvalidInput where the handle is not one that this
    asker was given."""
    sha256, _, check = pin.removeprefix(PIN_PREFIX).partition(".")
    wrong = InvalidInput("the pin is not one that you were given in this run and with these roles", field="pinned")
    if not pin.startswith(PIN_PREFIX) or not _SHA256.fullmatch(sha256) or check != _pin_check(sha256, scope):
        raise wrong
    kept = engine.store.artifacts(scope.run_key, {sha256}).get(sha256, ())
    own = next((handle for handle in kept if handle.pack and handle.owner == scope.principal), None)
    if own is None:  # the check is no secret: what the engine has not kept for this asker is no pack
        raise wrong
    wanted = NewRange(artifact=sha256, start=0, end=own.size, sha256=sha256)
    data = b"".join(piece.chunk for piece in read_artifact(engine, scope, call, ranges=(wanted,)))
    return Packaged(document=json.loads(data), digest=sha256, pin=pin)


def _pin_check(sha256: str, scope: Scope) -> str:
    bound = ["pin", scope.job_id, scope.run_id, scope.principal, sorted(scope.roles), sha256]
    return digest(bound)[:_CHECK_DIGITS]


# Sessions.


def _change(engine: Engine, scope: Scope, built: Built, document: Mapping[str, Any], session_id: str) -> Change:
    """Moves a session on by the pack that it is served, durably; what that changes for it."""
    items = built.pack.items
    marks = [(item.seen.stored.ordinal, _mark(told)) for item, told in zip(items, document["items"], strict=True)]
    view = engine.indexes.view(scope, built.newest)

    def decide(text: str) -> tuple[str, Delta]:
        state, delta = advance(
            WorkingSet.decode(text),
            marks,
            tokens=built.pack.used,
            terms=built.query.terms,
            fate_of=lambda ordinals: _fate(view, ordinals),
        )
        return state.encoded(), delta

    delta = engine.store.decide_session(scope.run_key, scope.principal, session_id, decide)

    def ref(ordinal: int) -> str:
        return view.ref(view.place(ordinal))

    relevances = {item.seen.stored.ordinal: item.relevance for item in items}
    return Change(
        new=tuple((ref(ordinal), relevances[ordinal]) for ordinal in delta.new),
        evicted=tuple(map(ref, delta.evicted)),
        superseded=tuple((ref(stale), None if head is None else ref(head)) for stale, head in delta.superseded),
        cursor=str(delta.cursor),
        fresh=frozenset(map(ref, delta.fresh)),
    )


def _fate(view: View, ordinals: Iterable[int]) -> Fate:
    """What the view says of memories that a session knows."""
    known = list(ordinals)
    there = [(ordinal, view.place(ordinal)) for ordinal in known if ordinal < ordinal_of(view.revision + 1, 0)]
    return Fate(
        unseen=frozenset(known) - {ordinal for ordinal, _ in there},
        hidden=frozenset(ordinal for ordinal, place in there if not view.readable[place]),
        heads={ordinal: view.head(ordinal) for ordinal, _ in there if view.superseded_by(ordinal)},
    )


def _mark(told: Mapping[str, Any]) -> str:
    """What tells whether a memory stands as it stood: all that is said of it whatever was asked."""
    return digest(memory_of(told))[:_MARK_DIGITS]
