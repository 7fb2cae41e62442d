"""The derived indexes: one a run, built from stored columns, caught up by revision, thrown away under a byte limit.

An index is never the truth: it can be dropped at any time and comes back equal (invariant 5). Readers keep the snapshot
they were given; catching up makes a new one (invariant 4).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from mn_engine.domain.scope import Scope
from mn_engine.recall.columns import rows_from_arrow
from mn_engine.recall.index import RunIndex
from mn_engine.recall.view import View
from mn_engine.store.port import Store

INDEX_BYTES_MAX: Final = 1 << 30
"""All indexes together; the one in use is kept even where it alone is larger."""
_VIEWS_MAX: Final = 4
"""Views kept of one run: some 15 bytes a card each."""


@dataclass(slots=True)
class _Slot:
    lock: threading.Lock = field(default_factory=threading.Lock)
    index: RunIndex = field(default_factory=RunIndex.empty)
    views: OrderedDict[tuple[Scope, int, int | None, bool], View] = field(default_factory=OrderedDict)
    """Views of `index`, least recently used out first."""
    dropped: bool = False


class Indexes:
    """Indexes by run, least recently used out first. Thread-safe: one thread catches a run up, others wait for it."""

    def __init__(self, store: Store, *, bytes_max: int = INDEX_BYTES_MAX) -> None:
        self._store = store
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._slots: OrderedDict[str, _Slot] = OrderedDict()

    def view(self, scope: Scope, revision: int, as_of: int | None = None, *, history: bool = False) -> View:
        """What `scope` sees of its run at `revision`, or of what held at `as_of` then; with `history`, also what no
        longer holds. Those who ask alike share a view and what it has worked out; so do those who ask of times between
        which nothing began or ceased to hold."""
        index = self.at_least(scope.run_key, revision)
        as_of = None if as_of is None else index.settled(as_of)
        views, key = self._slot(scope.run_key).views, (scope, revision, as_of, history)
        with self._lock:
            view = views.get(key)
            if view is None or view.index is not index:
                alike = (one for one in views.values() if one.reader == scope and one.revision == revision)
                beside = next((one for one in alike if one.index is index), None)
                view = views[key] = View(index, scope, revision, as_of, history=history, beside=beside)
            views.move_to_end(key)
            while len(views) > _VIEWS_MAX:
                views.popitem(last=False)
            return view

    def at_least(self, run_key: str, revision: int) -> RunIndex:
        """An index of the run that covers `revision`."""
        slot = self._slot(run_key)
        index = slot.index
        if index.revision < revision:
            with slot.lock:
                index = slot.index
                if index.revision < revision:
                    index = self._caught_up(run_key, index, revision)
                    if not slot.dropped:
                        slot.index = index
                        with self._lock:
                            slot.views.clear()  # they hold the index before this one
            self._shrink(run_key)
        return index

    def drop(self, run_key: str) -> None:
        """Forgets a run's index (a cleared run's, say)."""
        with self._lock:
            slot = self._slots.pop(run_key, None)
        if slot is not None:
            slot.dropped = True

    @property
    def nbytes(self) -> int:
        """What all indexes take."""
        with self._lock:
            return sum(slot.index.nbytes for slot in self._slots.values())

    def _caught_up(self, run_key: str, index: RunIndex, revision: int) -> RunIndex:
        columns = self._store.index_columns(run_key, after=index.revision, upto=revision)
        return index.extended(rows_from_arrow(columns.cards, columns.relations, columns.endings), upto=revision)

    def _slot(self, run_key: str) -> _Slot:
        with self._lock:
            slot = self._slots.get(run_key)
            if slot is None:
                slot = self._slots[run_key] = _Slot()
            self._slots.move_to_end(run_key)
            return slot

    def _shrink(self, keep: str) -> None:
        with self._lock:
            held = sum(slot.index.nbytes for slot in self._slots.values())
            for run_key in list(self._slots):
                if held <= self._bytes_max:
                    return
                if run_key != keep:
                    slot = self._slots.pop(run_key)
                    slot.dropped = True
                    held -= slot.index.nbytes
