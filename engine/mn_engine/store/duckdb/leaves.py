"""Which rows of the record are leaves of their run's tree, and which record each row is hashed as."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mn_engine.domain.leaves import artifact_leaf, event_leaf
from mn_engine.store.duckdb.schema import ENDINGS
from mn_engine.store.port import INDEX_CARDS
from mn_engine.store.tree import EndingRow, leaf_of_card, leaf_of_ending


@dataclass(frozen=True, slots=True)
class LeafRows:
    """The columns that a table's leaves are hashed over, and the record that they make."""

    columns: tuple[str, ...]
    record: Callable[[Sequence[Any]], bytes]

    @property
    def select(self) -> str:
        """The columns, in SQL."""
        return ", ".join(f'"{name}"' for name in self.columns)


def _artifact(row: Sequence[Any]) -> bytes:
    sha256, size, media_type, owner, acl = row
    return artifact_leaf(sha256=sha256, size=size, media_type=media_type, owner=owner, acl=acl)


def _card(row: Sequence[Any]) -> bytes:
    *columns, meta, text = row
    return leaf_of_card(columns[0], columns, meta, text)


def _ending(row: Sequence[Any]) -> bytes:
    return leaf_of_ending(EndingRow(**dict(zip(_ENDING, row, strict=True))))


def _event(row: Sequence[Any]) -> bytes:
    return event_leaf(**dict(zip(_EVENT, row, strict=True)))


_EVENT: Final = ("revision", "owner", "key", "fingerprint", "cards", "recorded_at")
_ENDING: Final = tuple(ENDINGS.names[1:-2])
LEAF_ROWS: Final = {
    "artifacts": LeafRows(("sha256", "size", "media_type", "owner", "acl"), _artifact),
    "cards": LeafRows((*INDEX_CARDS.names, "meta", "text"), _card),
    "endings": LeafRows(_ENDING, _ending),
    "events": LeafRows(_EVENT, _event),
}
"""By table, in the order in which they stand within an event."""
