"""From the store's Arrow columns to the arrays that an index is built of: views where Arrow allows, no text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mn_engine.domain.cards import CONTRADICTS
from mn_engine.recall.vectors import DIMENSIONS

UNKNOWN_TIME: Final = int(np.iinfo(np.int64).min)
NO_END: Final = int(np.iinfo(np.int64).max)
SUPERSEDED: Final = 1
RESOLVED: Final = 2
"""Kinds of an ending, as in the store port's INDEX_ENDINGS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ragged:
    """Rows of different length in one array: row i is values[offsets[i]:offsets[i+1]]."""

    offsets: NDArray[np.int64]
    values: NDArray[Any]

    def lengths(self) -> NDArray[np.int64]:
        """How many values each row has."""
        return np.diff(self.offsets)

    def owners(self) -> NDArray[np.uint32]:
        """The row of each value."""
        return np.repeat(np.arange(len(self.offsets) - 1, dtype=np.uint32), self.lengths())


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRows:
    """What some revisions added: cards ascending by ordinal, and what was said of cards, by key hash."""

    ordinals: NDArray[np.int64]
    owners: list[str]
    owner_codes: NDArray[np.int64]
    ids: Ragged
    kinds: NDArray[np.uint8]
    stances: NDArray[np.uint8]
    acls: list[str]
    acl_codes: NDArray[np.int64]
    terms: Ragged
    counts: NDArray[np.uint8]
    lengths: NDArray[np.uint32]
    topics: Ragged
    entities: Ragged
    claims: Ragged
    claim_stances: NDArray[np.uint8]
    id_hashes: NDArray[np.uint64]
    key_hashes: NDArray[np.uint64]
    text_hashes: NDArray[np.uint64]
    document_bytes: NDArray[np.uint32]
    document_tokens: NDArray[np.uint32]
    body_hashes: NDArray[np.uint64]
    vectors: NDArray[np.int8]
    """DIMENSIONS a card, side by side; zeros where a card has none."""
    occurred: NDArray[np.int64]
    """Microseconds; UNKNOWN_TIME where a card does not say."""
    valid_from: NDArray[np.int64]
    """Microseconds; UNKNOWN_TIME where a card does not say."""
    valid_until: NDArray[np.int64]
    """Microseconds; NO_END where a card does not say."""
    fact_places: NDArray[np.uint64]
    """What facts have one object at a time of; 0 where a card says no triple."""
    fact_triples: NDArray[np.uint64]
    fact_singular: NDArray[np.bool_]
    relation_ordinals: NDArray[np.int64]
    """The cards that point at another; `relation_targets` are the others."""
    relation_targets: NDArray[np.uint64]
    relation_contradicts: NDArray[np.bool_]
    ending_revisions: NDArray[np.int64]
    ending_targets: NDArray[np.uint64]
    ending_kinds: NDArray[np.uint8]
    ending_by: NDArray[np.uint64]
    """The cards that ended others, where `ending_has_by`; an event did it without a card elsewhere."""
    ending_has_by: NDArray[np.bool_]


def rows_from_arrow(cards: pa.Table, relations: pa.Table, endings: pa.Table) -> IndexRows:
    """The rows of three tables whose schemas are the store port's INDEX_CARDS, INDEX_RELATIONS and INDEX_ENDINGS."""
    acl, owner = _one(cards, "acl").dictionary_encode(), _one(cards, "owner").dictionary_encode()
    return IndexRows(
        ordinals=_plain(cards, "ordinal"),
        owners=owner.dictionary.to_pylist(),
        owner_codes=owner.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        ids=_ragged(cards, "id", np.uint8),
        kinds=_plain(cards, "kind"),
        stances=_plain(cards, "stance"),
        acls=acl.dictionary.to_pylist(),
        acl_codes=acl.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        terms=_ragged(cards, "terms", np.uint32),
        counts=_ragged(cards, "counts", np.uint8).values,
        lengths=_plain(cards, "length"),
        topics=_ragged(cards, "topics", np.uint32),
        entities=_ragged(cards, "entities", np.uint32),
        claims=_ragged(cards, "claims", np.uint32),
        claim_stances=_ragged(cards, "claim_stances", np.uint8).values,
        id_hashes=_plain(cards, "id_hash"),
        key_hashes=_plain(cards, "key_hash"),
        text_hashes=_plain(cards, "text_hash"),
        document_bytes=_plain(cards, "document_bytes"),
        document_tokens=_plain(cards, "document_tokens"),
        body_hashes=_plain(cards, "body_hash"),
        vectors=_vectors(cards),
        occurred=_filled(cards, "occurred_at", UNKNOWN_TIME),
        valid_from=_filled(cards, "valid_from", UNKNOWN_TIME),
        valid_until=_filled(cards, "valid_until", NO_END),
        fact_places=_plain(cards, "fact_place"),
        fact_triples=_plain(cards, "fact_triple"),
        fact_singular=_plain(cards, "fact_singular"),
        relation_ordinals=_plain(relations, "source_ordinal"),
        relation_targets=_plain(relations, "target_hash"),
        relation_contradicts=pc.equal(_one(relations, "type"), CONTRADICTS).to_numpy(zero_copy_only=False),
        ending_revisions=_plain(endings, "revision"),
        ending_targets=_plain(endings, "target_hash"),
        ending_kinds=_plain(endings, "kind"),
        ending_by=_filled(endings, "by_hash", 0),
        ending_has_by=_one(endings, "by_hash").is_valid().to_numpy(zero_copy_only=False),
    )


def _vectors(cards: pa.Table) -> NDArray[np.int8]:
    found = _ragged(cards, "vector", np.int8)
    whole = found.lengths() == DIMENSIONS
    if whole.all():
        return found.values
    vectors = np.zeros((len(whole), DIMENSIONS), np.int8)
    vectors[whole] = found.values[np.repeat(whole, found.lengths())].reshape(-1, DIMENSIONS)
    return vectors.reshape(-1)


def _one(table: pa.Table, name: str) -> Any:
    column = table[name]
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _plain(table: pa.Table, name: str) -> NDArray[Any]:
    return np.asarray(_one(table, name).to_numpy(zero_copy_only=False))


def _filled(table: pa.Table, name: str, missing: int) -> NDArray[Any]:
    return np.asarray(_one(table, name).fill_null(missing).to_numpy(zero_copy_only=False))


def _ragged(table: pa.Table, name: str, item: type[np.generic]) -> Ragged:
    column = _one(table, name)
    wide = column.type in (pa.large_binary(), pa.large_string())
    width = np.dtype(item).itemsize
    _, offset_buffer, data = column.buffers()
    if offset_buffer is None or not len(column):
        return Ragged(offsets=np.zeros(1, np.int64), values=np.zeros(0, item))
    raw = np.frombuffer(offset_buffer, np.int64 if wide else np.int32)[column.offset : column.offset + len(column) + 1]
    flat = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    values = flat[raw[0] : raw[-1]]
    return Ragged(offsets=(raw - raw[0]).astype(np.int64) // width, values=values.view(item) if width > 1 else values)
