"""Between what a store keeps and the leaves of a run's tree. Pure: every store numbers and hashes alike."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mn_contract.canonical import encoded
from mn_engine.domain.artifacts import Artifact
from mn_engine.domain.events import EventReceipt
from mn_engine.domain.leaves import (
    artifact_leaf,
    card_leaf,
    columns_sha256,
    ending_leaf,
    event_leaf,
    proved_card_leaf,
)
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


def leaf_hashes_of_cards(
    columns: Sequence[pa.ChunkedArray], meta: pa.ChunkedArray, text: pa.ChunkedArray
) -> list[bytes]:
    """The hashes of many cards' leaves, given the columns of INDEX_CARDS."""
    parts = [part for column in columns[1:] for part in _spelled(column)]
    spelled = pc.binary_join_element_wise(*parts, b"")
    sha256 = hashlib.sha256
    return [
        leaf_hash(
            proved_card_leaf(
                ordinal=ordinal,
                meta_sha256=sha256(meta_bytes).hexdigest(),
                text_sha256=sha256(text_bytes).hexdigest(),
                columns=sha256(joined).hexdigest(),
            )
        )
        for ordinal, joined, meta_bytes, text_bytes in zip(
            columns[0].to_pylist(),
            spelled.to_pylist(),
            meta.cast(pa.binary()).to_pylist(),
            text.cast(pa.binary()).to_pylist(),
            strict=True,
        )
    ]


def _spelled(column: pa.ChunkedArray) -> list[Any]:
    """A column as `columns_sha256` writes it, in parts that follow each other."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        mark = b'"' if pa.types.is_string(column.type) else b":"
        lengths = pc.binary_length(column).cast(pa.string()).cast(pa.binary())
        return [lengths, mark, column.cast(pa.binary())]
    whole = column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column
    written = pc.binary_join_element_wise(whole.cast(pa.string()).cast(pa.binary()), b"", b";")
    return [pc.fill_null(written, b"-")]


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


def leaf_of_event(owner: str, receipt: EventReceipt, recorded_at: int) -> bytes:
    """The record of an event."""
    return event_leaf(
        revision=receipt.revision,
        owner=owner,
        key=receipt.key,
        fingerprint=receipt.fingerprint,
        cards=card_ids(receipt),
        recorded_at=recorded_at,
    )


def card_ids(receipt: EventReceipt) -> str:
    """The `cards` column of an event: canonical JSON of its cards' ids."""
    return encoded([key.id for key in receipt.cards]).decode()
