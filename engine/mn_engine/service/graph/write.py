"""Recording episodes and facts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mn_contract.canonical import digest
from mn_contract.errors import InvalidInput
from mn_contract.limits import ARTIFACT_INLINE_BYTES_MAX, CARD_TEXT_BYTES_MAX
from mn_contract.names import format_ref
from mn_engine.domain.cards import Kind
from mn_engine.domain.facts import Fact
from mn_engine.domain.known import STATED_IN
from mn_engine.domain.requests import TEXT_MEDIA_TYPE, NewArtifact, NewCard, NewEvent, NewRange
from mn_engine.domain.scope import Scope
from mn_engine.recall.view import View
from mn_engine.service.compile import load
from mn_engine.service.engine import Call, Engine
from mn_engine.service.notes import note_key
from mn_engine.service.record import record_events
from mn_engine.service.runs import root_at, written_run

_DIGITS: Final = 16
"""Of a name that is made of what is said: a model reads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """An episode or a fact that was recorded, or had been: the references of its cards, in order."""

    refs: tuple[str, ...]
    revision: int
    root: str
    replayed: bool


def record_episode(
    engine: Engine,
    scope: Scope,
    call: Call,
    *,
    content: str,
    source: str,
    occurred_at: int | None,
    entities: tuple[str, ...],
    key: str,
) -> Written:
    """Records what happened, in words. What is longer than a card becomes one artifact and cards over its parts. The
    same again changes nothing."""
    data = content.encode("utf-8")
    if len(data) > ARTIFACT_INLINE_BYTES_MAX:
        raise InvalidInput(
            f"content is at most {ARTIFACT_INLINE_BYTES_MAX} bytes, not {len(data)}: put a longer one as an artifact, "
            "and record cards over its parts",
            field="content",
        )
    if not content.strip():
        raise InvalidInput("content says nothing", field="content")
    artifact = NewArtifact(data=data, media_type=TEXT_MEDIA_TYPE)
    cards = tuple(
        NewCard(
            kind=Kind.OBSERVATION,
            body=NewRange(artifact=artifact.sha256, start=start, end=end),
            source_url=source,
            occurred_at=occurred_at,
            entities=entities,
        )
        for start, end in _parts(data)
    )
    written_run(engine, scope)
    named = note_key(key) if key else f"episode-{digest([content, source, occurred_at, list(entities)])[:_DIGITS]}"
    return _written(engine, scope, call, NewEvent(key=named, artifacts=(artifact,), cards=cards))


def upsert_fact(
    engine: Engine,
    scope: Scope,
    call: Call,
    *,
    fact: Fact,
    valid_from: int | None,
    valid_until: int | None,
    source_episode: str,
    source_range: tuple[int, int] | None,
    confidence: float | None,
    key: str,
) -> Written:
    """Records a fact, which holds from now on where it does not say since when. What it takes the place of follows
    from the record. A fact that stands already as it is said changes nothing. Raises InvalidInput, NotFound for an
    episode that is not there."""
    now = engine.clock()
    run = written_run(engine, scope)
    if source_range is not None and not source_episode:
        raise InvalidInput("a source_range lies in a source_episode: give that, too", field="source_range")
    sources: tuple[NewRange, ...] = ()
    relations: tuple[tuple[str, str], ...] = ()
    if source_episode:
        view = engine.indexes.view(scope, run.revision)
        sources, relations = _stated(engine, scope, call, view, source_episode, source_range)
    card = NewCard(
        kind=Kind.FACT,
        text=fact.statement,
        sources=sources,
        entities=fact.entities,
        confidence=confidence,
        valid_from=valid_from,
        valid_until=valid_until,
        relations=relations,
        fact=fact,
    )
    if key:
        return _written(engine, scope, call, NewEvent(key=note_key(key), cards=(card,)))
    standing = _standing(engine, scope, call, engine.indexes.view(scope, run.revision), card, now)
    if standing is not None:
        return Written(refs=(standing,), revision=run.revision, root=run.root, replayed=True)
    named = f"fact-{digest([card.as_json(), now, run.revision])[:_DIGITS]}"
    return _written(engine, scope, call, NewEvent(key=named, cards=(card,)))


def _written(engine: Engine, scope: Scope, call: Call, event: NewEvent) -> Written:
    receipt = record_events(engine, scope, call, events=(event,), expected_revision=None)
    (told,) = receipt.events
    return Written(
        refs=tuple(format_ref(key.owner, key.id, scope.principal) for key in told.cards),
        revision=told.revision,
        root=root_at(engine, scope, told.revision),
        replayed=told.replayed,
    )


def _parts(data: bytes) -> Iterable[tuple[int, int]]:
    """Ranges that a card holds each, cut at whole characters."""
    start = 0
    while start < len(data):
        end = min(start + CARD_TEXT_BYTES_MAX, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        yield start, end
        start = end


def _stated(
    engine: Engine, scope: Scope, call: Call, view: View, episode: str, part: tuple[int, int] | None
) -> tuple[tuple[NewRange, ...], tuple[tuple[str, str], ...]]:
    """What a fact cites that was read in an episode, and its relation to it. `part` is in bytes of the card's text."""
    ordinal = view.resolve(episode, live=False)
    (stored,) = load(engine, scope, call, view, [ordinal])
    body = stored.card.body
    start, end = part or (0, body.end - body.start)
    if not 0 <= start < end <= body.end - body.start:
        raise InvalidInput(
            f"source_range must lie in the episode's {body.end - body.start} bytes", field="source_range"
        )
    cited = NewRange(artifact=body.artifact, start=body.start + start, end=body.start + end)
    return (cited,), ((STATED_IN, episode),)


def _standing(engine: Engine, scope: Scope, call: Call, view: View, asked: NewCard, now: int) -> str | None:
    """The reader's own fact that says the very same and holds since `asked` begins; now, where that does not say."""
    assert asked.fact is not None
    at, fact = now if asked.valid_from is None else asked.valid_from, asked.fact
    holding = [place for place in view.facts.said(fact.place_hash) if view.facts.triple(place) == fact.triple_hash]
    stored = load(engine, scope, call, view, [view.ordinal(place) for place in holding])
    spans = [source.span for source in asked.sources]
    for place, one in zip(holding, stored, strict=True):
        card = one.card
        held = any(since <= at < until for since, until in view.facts.spans(place))
        alike = card.fact == fact and card.valid_until == asked.valid_until
        again = alike and asked.valid_from in (None, card.valid_from)
        cited = not spans or [source.span for source in card.sources] == spans
        if held and again and cited and asked.confidence in (None, card.confidence) and card.owner == scope.principal:
            return view.ref(place)
    return None
