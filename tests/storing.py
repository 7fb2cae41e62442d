"""Events, cards and tables for tests of stores, made by hand: the analysis is bytes, not recall's."""

from __future__ import annotations

import hashlib
from typing import Any

import pyarrow as pa

from mn_engine.domain.access import OPEN, Acl
from mn_engine.domain.artifacts import Artifact
from mn_engine.domain.cards import RESOLVES, SUPERSEDES, Card, CardKey, Kind, Relation, SourceRange
from mn_engine.domain.events import Analysis, Batch, PreparedArtifact, PreparedCard, PreparedEvent
from mn_engine.domain.hashes import hash64
from mn_engine.domain.scope import run_key
from mn_engine.store.columns import arrow, bulk_row
from mn_engine.store.port import BULK_CARDS, Store

JOB, RUN = "job", "run"
KEY = run_key(JOB, RUN)
NOW = 1_700_000_000_000_000


def sha(data: bytes) -> str:
    """The SHA-256 of bytes, as it is written everywhere."""
    return hashlib.sha256(data).hexdigest()


def open_run(store: Store, run: str = RUN, *, max_stored_bytes: int | None = None) -> str:
    """Opens a run of the test job; answers its key."""
    store.open_run(JOB, run, max_stored_bytes=max_stored_bytes, now=NOW)
    return run_key(JOB, run)


def artifact(data: bytes, *, owner: str = "ada", acl: Acl = OPEN, media_type: str = "text/plain") -> PreparedArtifact:
    """Bytes under a handle."""
    handle = Artifact(sha256=sha(data), size=len(data), media_type=media_type, owner=owner, acl=acl)
    return PreparedArtifact(handle=handle, data=data)


def card(card_id: str, text: str = "", *, owner: str = "ada", **fields: Any) -> PreparedCard:
    """A card of its own bytes, with an analysis that only names it."""
    text = text or f"text of {card_id}"
    data = text.encode()
    body = SourceRange(artifact=sha(data), start=0, end=len(data), sha256=sha(data))
    fields = {"kind": Kind.OBSERVATION, "captured_at": NOW, "sources": (body,), **fields}
    made = Card(owner=owner, id=card_id, text=text, body=body, **fields)
    analysis = Analysis(
        version=1,
        terms=hash64(text).to_bytes(8, "little"),
        counts=b"\x01\x02",
        length=3,
        topics=b"",
        entities=b"",
        claims=b"",
        claim_stances=b"",
        id_hash=hash64(card_id),
        key_hash=made.key.hash,
        text_hash=hash64(text),
        document_bytes=len(data) + 100,
        document_tokens=len(data) // 4 + 9,
        body_hash=hash64(sha(data)),
    )
    return PreparedCard(card=made, analysis=analysis)


def handles(store: Store, sha256: str, run: str = KEY) -> tuple[Artifact, ...]:
    """All handles of one artifact."""
    return store.artifacts(run, [sha256]).get(sha256, ())


def supersedes(*ids: str, owner: str = "ada") -> tuple[Relation, ...]:
    """Relations by which a card replaces others."""
    return tuple(Relation(SUPERSEDES, CardKey(owner, target)) for target in ids)


def resolving(*ids: str, owner: str = "ada") -> tuple[Relation, ...]:
    """Relations by which a card settles others."""
    return tuple(Relation(RESOLVES, CardKey(owner, target)) for target in ids)


def event(key: str, *cards: PreparedCard, owner: str = "ada", content: str = "", **fields: Any) -> PreparedEvent:
    """An event of cards and the artifacts that are their bodies; `content` stands for what the caller said."""
    fields.setdefault("artifacts", tuple(artifact(made.card.text.encode(), owner=owner) for made in cards))
    return PreparedEvent(owner=owner, key=key, fingerprint=sha(f"{key} {content}".encode()), cards=cards, **fields)


def batch(*events: PreparedEvent, run: str = KEY, expected: int | None = None) -> Batch:
    """A batch for the test run."""
    return Batch(run_key=run, events=events, expected_revision=expected)


def observe(store: Store, key: str, *, run: str = KEY, owner: str = "ada", **fields: Any) -> int:
    """Commits one event of one card, both named `key`; answers the revision."""
    return store.commit(batch(event(key, card(key, owner=owner, **fields), owner=owner), run=run)).revision


def bulk(*cards: PreparedCard) -> pa.Table:
    """A bulk table of cards."""
    return arrow(BULK_CARDS, [bulk_row(prepared) for prepared in cards])


def everything(store: Store, run: str = KEY) -> dict[str, Any]:
    """All that a run's reads answer at its newest revision, to compare stores by."""
    head = store.run(run)
    columns = store.index_columns(run, after=0, upto=head.revision)
    ordinals = columns.cards["ordinal"].to_pylist()
    return {
        "head": head,
        "cards": columns.cards.to_pylist(),
        "relations": columns.relations.to_pylist(),
        "endings": columns.endings.to_pylist(),
        "stored": store.cards(run, ordinals, revision=head.revision),
    }
