"""What was committed last of each run, as its index takes it: catching up with it costs no query."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final

from mn_engine.domain.cards import ordinal_of
from mn_engine.domain.runs import Run
from mn_engine.store.columns import arrow
from mn_engine.store.duckdb.schema import CARDS, ENDINGS, RELATIONS
from mn_engine.store.duckdb.staging import Staged
from mn_engine.store.port import INDEX_CARDS, INDEX_ENDINGS, INDEX_RELATIONS, IndexColumns

RUNS_MAX: Final = 64
ROWS_MAX: Final = 512
"""Rows kept of one run: some 600 bytes each."""
_Row = tuple[Any, ...]
_card = itemgetter(*map(CARDS.names.index, INDEX_CARDS.names))
_relation = itemgetter(*map(RELATIONS.names.index, INDEX_RELATIONS.names))
_ending = itemgetter(*map(ENDINGS.names.index, INDEX_ENDINGS.names))


@dataclass(frozen=True, slots=True)
class _Group:
    """What revisions (after, upto] added."""

    after: int
    upto: int
    cards: Sequence[_Row]
    relations: Sequence[_Row]
    endings: Sequence[_Row]

    def __len__(self) -> int:
        return len(self.cards) + len(self.relations) + len(self.endings)


@dataclass(slots=True)
class _Kept:
    """A run's newest groups, each going on where the one before it ends."""

    groups: deque[_Group] = field(default_factory=deque)
    rows: int = 0

    def add(self, group: _Group) -> None:
        if self.groups and self.groups[-1].upto != group.after:
            self.groups.clear()
            self.rows = 0
        self.groups.append(group)
        self.rows += len(group)
        while self.rows > ROWS_MAX:
            self.rows -= len(self.groups.popleft())


class Latest:
    """The newest rows of the runs that were written to last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, _Kept] = OrderedDict()

    def take(self, staged: Staged) -> None:
        """Keeps what has been committed."""
        with self._lock:
            for run_key, head in staged.heads.items():
                self._take(run_key, head, staged)
            while len(self._runs) > RUNS_MAX:
                self._runs.popitem(last=False)

    def columns(self, run_key: str, *, after: int, upto: int) -> IndexColumns | None:
        """What revisions (after, upto] added; None where not all of it is kept."""
        with self._lock:
            kept = self._runs.get(run_key)
            groups = [group for group in kept.groups if group.upto > after] if kept is not None else []
        if not groups or groups[0].after > after or groups[-1].upto < upto:
            return None
        low, high = ordinal_of(after + 1, 0), ordinal_of(upto + 1, 0)
        return IndexColumns(
            cards=arrow(INDEX_CARDS, [row for group in groups for row in group.cards if low <= row[0] < high]),
            relations=arrow(
                INDEX_RELATIONS, [row for group in groups for row in group.relations if low <= row[0] < high]
            ),
            endings=arrow(INDEX_ENDINGS, [row for group in groups for row in group.endings if after < row[0] <= upto]),
        )

    def _take(self, run_key: str, head: Run, staged: Staged) -> None:
        revisions = [revision for of, revision, *_ in staged.rows.get("events", ()) if of == run_key]
        many = len(staged.rows.get("cards", ())) > ROWS_MAX or any(of == run_key for of, _ in staged.arrays)
        if head.tombstone is not None or many:
            self._runs.pop(run_key, None)
        elif revisions:
            cards, relations, endings = (
                [pick(row) for row in staged.rows.get(table, ()) if row[0] == run_key]
                for table, pick in (("cards", _card), ("relations", _relation), ("endings", _ending))
            )
            group = _Group(min(revisions) - 1, head.revision, cards, relations, endings)
            self._runs.setdefault(run_key, _Kept()).add(group)
            self._runs.move_to_end(run_key)
