"""Between what a store keeps and the leaves of a run's tree. Pure: every store numbers and hashes alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mn_contract.canonical import encoded
from mn_engine.domain.artifacts import Artifact
from mn_engine.domain.events import EventReceipt
from mn_engine.domain.leaves import artifact_leaf, card_leaf, columns_sha256, ending_leaf, event_leaf
from mn_engine.domain.merkle import leaf_hash
from mn_engine.store.columns import acl_text


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf's number in the tree, and its hash."""

    number: int
    hash: bytes


class Numbers:
    """Gives leaves their numbers, from the size of the tree on."""

    def __init__(self, size: int) -> None:
        self._next = size

    def leaf(self, record: bytes) -> Leaf:
        """The next leaf."""
        leaf = Leaf(self._next, leaf_hash(record))
        self._next += 1
        return leaf


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingRow:
    """What ended a card, as it is stored."""

    revision: int
    target_hash: int
    kind: int
    by_hash: int | None
    by_owner: str | None
    by_id: str | None


def leaf_of_handle(handle: Artifact) -> bytes:
    """The record of a handle."""
    return artifact_leaf(
        sha256=handle.sha256,
        size=handle.size,
        media_type=handle.media_type,
        owner=handle.owner,
        acl=acl_text(handle.acl),
    )


def leaf_of_card(ordinal: int, columns: Sequence[Any], meta: str, text: str) -> bytes:
    """The record of a card, given its INDEX_CARDS row."""
    return card_leaf(ordinal=ordinal, meta=meta, text=text, columns=columns_sha256(columns[1:]))


def leaf_of_ending(row: EndingRow) -> bytes:
    """The record of an ending."""
    return ending_leaf(
        revision=row.revision,
        target_hash=row.target_hash,
        kind=row.kind,
        by_hash=row.by_hash,
        by_owner=row.by_owner,
        by_id=row.by_id,
    )


def leaf_of_event(owner: str, receipt: EventReceipt) -> bytes:
    """The record of an event."""
    return event_leaf(
        revision=receipt.revision,
        owner=owner,
        key=receipt.key,
        fingerprint=receipt.fingerprint,
        cards=card_ids(receipt),
    )


def card_ids(receipt: EventReceipt) -> str:
    """The `cards` column of an event: canonical JSON of its cards' ids."""
    return encoded([key.id for key in receipt.cards]).decode()
