"""What of a record is a leaf of its run's Merkle tree, in the form that is hashed: canonical JSON.

Everything that a run was told is one: handles of artifacts, cards, what ended a card, and events, in the order in which
they were written. A card's text, what else is said of it and what the index keeps of it are in its leaf by their
hashes, so that a leaf can be proved to somebody who is not shown all of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from mn_contract.canonical import encoded

Value = str | int | bytes | bool | None


def artifact_leaf(*, sha256: str, size: int, media_type: str, owner: str, acl: str) -> bytes:
    """Of a handle; `acl` as it is stored."""
    return encoded(["artifact", sha256, size, media_type, owner, acl])


def card_leaf(*, ordinal: int, meta: str, text: str, columns: str) -> bytes:
    """Of a card: its canonical JSON without its text, its text, and `columns_sha256` of its other columns."""
    meta_sha256, text_sha256 = (hashlib.sha256(part.encode("utf-8")).hexdigest() for part in (meta, text))
    return proved_card_leaf(ordinal=ordinal, meta_sha256=meta_sha256, text_sha256=text_sha256, columns=columns)


def proved_card_leaf(*, ordinal: int, meta_sha256: str, text_sha256: str, columns: str) -> bytes:
    """The same, by its hashes: canonical JSON of ["card", ordinal, meta, text, columns]."""
    return f'["card",{ordinal},"{meta_sha256}","{text_sha256}","{columns}"]'.encode("ascii")


def ending_leaf(
    *, revision: int, target_hash: int, kind: int, by_hash: int | None, by_owner: str | None, by_id: str | None
) -> bytes:
    """Of what ended a card."""
    return encoded(["ending", revision, target_hash, kind, by_hash, by_owner, by_id])


def event_leaf(*, revision: int, owner: str, key: str, fingerprint: str, cards: str, recorded_at: int) -> bytes:
    """Of an event; `cards` as they are stored."""
    return encoded(["event", revision, owner, key, fingerprint, cards, recorded_at])


def columns_sha256(values: Iterable[Value]) -> str:
    """Of columns, in their order: each with its length, so that no two rows of values read alike."""
    parts: list[bytes] = []
    for value in values:
        if value is None:
            parts.append(b"-")
        elif isinstance(value, str):
            data = value.encode("utf-8")
            parts += (b'%d"' % len(data), data)
        elif isinstance(value, bytes):
            parts += (b"%d:" % len(value), value)
        else:
            parts.append(b"%d;" % value)
    return hashlib.sha256(b"".join(parts)).hexdigest()
