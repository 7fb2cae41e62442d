"""From what a caller asks to what can be committed: references resolved, ranges read and hashed, cards analysed.

Everything a card points at must be there and readable by its writer, and a card must not be readable by more than the
artifacts it cites (invariants 6 and 7). Only reads happen here; the store decides idempotency when it commits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mn_contract.errors import InvalidInput, NotFound
from mn_contract.limits import ARTIFACT_READ_BYTES_MAX
from mn_contract.names import SUMMARY_MEDIA_TYPE, format_ref, parse_ref
from mn_engine.domain.access import Acl
from mn_engine.domain.artifacts import Artifact, check_hash, check_range
from mn_engine.domain.cards import DERIVED_FROM, Card, CardKey, Kind, Relation, SourceRange
from mn_engine.domain.events import PreparedArtifact, PreparedCard, PreparedEvent
from mn_engine.domain.requests import TEXT_MEDIA_TYPE, NewCard, NewEvent, NewRange
from mn_engine.domain.scope import Scope
from mn_engine.recall.analysis import analyse
from mn_engine.recall.view import View
from mn_engine.service.engine import Engine

Span = tuple[str, int, int]


@dataclass(slots=True, kw_only=True)
class _Batch:
    """What one batch has at hand while it is prepared."""

    engine: Engine
    scope: Scope
    revision: int
    now: int
    handles: dict[str, list[Artifact]] = field(default_factory=dict)
    inline: dict[str, bytes] = field(default_factory=dict)
    found: dict[Span, bytes] = field(default_factory=dict)
    new_cards: dict[CardKey, Card] = field(default_factory=dict)
    new_keys: set[CardKey] = field(default_factory=set)
    seen: View | None = None

    @property
    def view(self) -> View:
        """What the writer sees at the newest revision. An index is caught up only for events that point at cards."""
        if self.seen is None:
            self.seen = self.engine.indexes.view(self.scope, self.revision)
        return self.seen


def prepare(engine: Engine, scope: Scope, events: tuple[NewEvent, ...], revision: int) -> tuple[PreparedEvent, ...]:
    """`events`, ready to commit, as their writer sees the run at `revision`, the newest.

    Raises NotFound for what is absent or hidden, InvalidInput, SourceMismatch where a cited hash is not that of the
    bytes.
    """
    batch = _Batch(engine=engine, scope=scope, revision=revision, now=engine.clock())
    _collect_artifacts(batch, events)
    _collect_bytes(batch, events)
    batch.new_keys = {
        CardKey(scope.principal, event.card_id(place)) for event in events for place in range(len(event.cards))
    }
    return tuple(_event(batch, event) for event in events)


def _event(batch: _Batch, event: NewEvent) -> PreparedEvent:
    artifacts = [
        PreparedArtifact(
            handle=_handle(batch, artifact.sha256, artifact.data, artifact.media_type, artifact.acl), data=artifact.data
        )
        for artifact in event.artifacts
    ]
    cards: list[Card] = []
    for place, asked in enumerate(event.cards):
        if asked.body is None:
            data = _utf8(asked.text)
            sha256 = hashlib.sha256(data).hexdigest()
            media_type = SUMMARY_MEDIA_TYPE if asked.kind is Kind.SUMMARY else TEXT_MEDIA_TYPE
            artifacts.append(PreparedArtifact(handle=_handle(batch, sha256, data, media_type, asked.acl), data=data))
        card = _card(batch, asked, event.card_id(place))
        batch.new_cards[card.key] = card
        cards.append(card)
    return PreparedEvent(
        owner=batch.scope.principal,
        key=event.key,
        fingerprint=event.fingerprint,
        artifacts=tuple(artifacts),
        cards=tuple(_analysed(batch, cards)),
        resolves=tuple(_obligation(batch, ref) for ref in event.resolves),
        recorded_at=batch.now,
    )


def _analysed(batch: _Batch, cards: list[Card]) -> Iterator[PreparedCard]:
    vectors = batch.engine.embedder().embed([card.text for card in cards]) if cards else ()
    for card, vector in zip(cards, vectors, strict=True):
        yield PreparedCard(card=card, analysis=analyse(card, vector.tobytes()))


def _card(batch: _Batch, asked: NewCard, card_id: str) -> Card:
    body, text = _body(batch, asked)
    card = Card(
        owner=batch.scope.principal,
        id=card_id,
        kind=asked.kind,
        text=text,
        body=body,
        sources=tuple(_source(batch, source, asked.acl) for source in asked.sources) or (body,),
        summary=asked.summary,
        topics=asked.topics,
        entities=asked.entities,
        stance=asked.stance,
        claims=asked.claims,
        validation=asked.validation,
        confidence=asked.confidence,
        trust=asked.trust,
        occurred_at=asked.occurred_at,
        captured_at=batch.now if asked.captured_at is None else asked.captured_at,
        valid_from=batch.now if asked.valid_from is None and (asked.begins or asked.fact) else asked.valid_from,
        valid_until=asked.valid_until,
        source_url=asked.source_url,
        relations=tuple(Relation(type_, _target(batch, ref)) for type_, ref in asked.relations),
        acl=asked.acl,
        occurrences=asked.occurrences,
        tokens=asked.tokens,
        fact=asked.fact,
    )
    return _capped(batch, card) if card.derived else card


def _body(batch: _Batch, asked: NewCard) -> tuple[SourceRange, str]:
    if asked.body is None:
        data = _utf8(asked.text)
        sha256 = hashlib.sha256(data).hexdigest()
        return SourceRange(artifact=sha256, start=0, end=len(data), sha256=sha256), asked.text
    body = (
        _summary_body(batch, asked.body, asked.acl)
        if asked.kind is Kind.SUMMARY
        else _source(batch, asked.body, asked.acl)
    )
    try:
        text = batch.found[body.span].decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            "a card's body must be UTF-8 text; cut the range at whole characters", field="card.body"
        ) from error
    if asked.text and asked.text != text:
        raise InvalidInput("card.text is not the text of card.body; leave one of them out", field="card.text")
    return body, text


def _source(batch: _Batch, asked: NewRange, acl: Acl) -> SourceRange:
    citable = [handle for handle in batch.handles[asked.artifact] if handle.citable]
    if not citable:
        raise InvalidInput(
            "a summary is derived and cannot be cited: cite what it comes from, and point at it with derived_from",
            field="card.sources",
        )
    return _range(batch, asked, acl, citable)


def _summary_body(batch: _Batch, asked: NewRange, acl: Acl) -> SourceRange:
    derived = [handle for handle in batch.handles[asked.artifact] if not handle.citable]
    if not derived:
        raise InvalidInput(
            f"a summary's body stands in an artifact of media type {SUMMARY_MEDIA_TYPE!r}, which nobody can cite: put "
            "its text as one, or give it as card.text",
            field="card.body",
        )
    return _range(batch, asked, acl, derived)


def _range(batch: _Batch, asked: NewRange, acl: Acl, handles: list[Artifact]) -> SourceRange:
    if not any(acl.within(handle.acl) for handle in handles):
        raise InvalidInput(
            "a card must not be readable by more than what it cites: give it the artifact's acl", field="card.acl"
        )
    sha256 = hashlib.sha256(batch.found[asked.span]).hexdigest()
    check_hash(sha256, asked.sha256)
    return SourceRange(artifact=asked.artifact, start=asked.start, end=asked.end, sha256=sha256)


def _target(batch: _Batch, ref: str) -> CardKey:
    owner, card_id = parse_ref(ref, "card.relations")
    own = CardKey(owner or batch.scope.principal, card_id)
    if own in batch.new_keys:
        return own
    return batch.view.key(batch.view.resolve(ref, live=False))


def _obligation(batch: _Batch, ref: str) -> CardKey:
    key = _target(batch, ref)
    new = batch.new_cards.get(key)
    kind = new.kind if new is not None else batch.view.kind(batch.view.resolve(ref, live=False))
    if kind is not Kind.OBLIGATION:
        raise InvalidInput(f"{ref!r} is no obligation, so nothing resolves it", field="event.resolves")
    return key


def _capped(batch: _Batch, card: Card) -> Card:
    """A summary is never more trusted than the least trusted card it comes from; an unknown trust caps it to
    unknown."""
    targets = card.targets(DERIVED_FROM)
    if not targets and card.sources == (card.body,):
        raise InvalidInput(
            "a summary says what it comes from: give it sources or derived_from relations", field="card.relations"
        )
    known = [batch.new_cards[key] for key in targets if key in batch.new_cards]
    stored = [key for key in targets if key not in batch.new_cards]
    if stored:
        asker = batch.scope.principal
        ordinals = [batch.view.resolve(format_ref(key.owner, key.id, asker), live=False) for key in stored]
        read = batch.engine.store.cards(batch.scope.run_key, ordinals, revision=batch.view.revision)
        known += [found.card for found in read]
    trusts = [origin.trust for origin in known]
    if not trusts:
        return card
    if card.trust is None or None in trusts:
        return card.with_trust(None)
    return card.with_trust(min([card.trust, *(trust for trust in trusts if trust is not None)]))


def _handle(batch: _Batch, sha256: str, data: bytes, media_type: str, acl: Acl) -> Artifact:
    return Artifact(sha256=sha256, size=len(data), media_type=media_type, owner=batch.scope.principal, acl=acl)


def _collect_artifacts(batch: _Batch, events: Iterable[NewEvent]) -> None:
    """Handles of every artifact that the batch cites, as far as the writer may read them."""
    for event in events:
        for artifact in event.artifacts:
            sha256 = artifact.sha256
            batch.inline[sha256] = artifact.data
            handle = _handle(batch, sha256, artifact.data, artifact.media_type, artifact.acl)
            batch.handles.setdefault(sha256, []).append(handle)
    cited = {wanted.artifact for wanted in _cited(events)}
    stored = batch.engine.store.artifacts(batch.scope.run_key, cited)
    for sha256 in cited:
        for handle in stored.get(sha256, ()):
            if handle.acl.permits(batch.scope, owner=handle.owner):
                batch.handles.setdefault(sha256, []).append(handle)
        if not batch.handles.get(sha256):
            raise NotFound("a cited artifact is not in this run, or it is not yours to read")


def _collect_bytes(batch: _Batch, events: Iterable[NewEvent]) -> None:
    """The bytes of every cited range, in one read."""
    wanted: list[Span] = []
    for cited in _cited(events):
        check_range(batch.handles[cited.artifact][0].size, cited.start, cited.end)
        if cited.artifact in batch.inline:
            batch.found[cited.span] = batch.inline[cited.artifact][cited.start : cited.end]
        elif cited.span not in batch.found:
            batch.found[cited.span] = b""
            wanted.append(cited.span)
    if sum(end - start for _, start, end in wanted) > ARTIFACT_READ_BYTES_MAX:
        raise InvalidInput(f"a batch cites at most {ARTIFACT_READ_BYTES_MAX} bytes", field="card.sources")
    batch.found.update(zip(wanted, batch.engine.store.read_ranges(batch.scope.run_key, wanted), strict=True))


def _cited(events: Iterable[NewEvent]) -> list[NewRange]:
    return [
        cited
        for event in events
        for card in event.cards
        for cited in (*card.sources, *((card.body,) if card.body is not None else ()))
    ]


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInput("card.text holds a lone surrogate, which UTF-8 cannot carry", field="card.text") from error
