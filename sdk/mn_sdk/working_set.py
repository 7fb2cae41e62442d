"""A session's working set on the side of who reads it: deltas are applied, content is kept, the pack is whole.

The engine says what changed (`items=new`); here stands what was sent before. After every turn `items` is the pack: its
memories, in its order. A delta that comes twice changes nothing and answers no new task; one that was lost is noticed
by its number, or by a memory that is missing, and the whole pack is asked for again. What stood here before it is let
go: the engine takes it that the lost delta came, and would not send again what that one changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mn_contract.errors import DependencyUnavailable, InvalidInput
from mn_contract.limits import SESSION_KNOWN_MAX
from mn_contract.smp import memory_of

GetContext = Callable[..., Mapping[str, Any]]
"""Answers an envelope for the arguments of get_context, over whatever face."""
_NOT_ASKED: Final[Mapping[str, Any]] = {
    "relevance": None,
    "relevance_basis": None,
    "why": {"retrievers": [], "matched_terms": [], "fused_rank": None},
}
"""What is known of a memory's match with a question that it was not sent for."""


class WorkingSet:
    """The memories of one session. `get_context` answers envelopes; `arguments` go with every call of it.

    Not thread-safe: a session's turns follow each other.
    """

    def __init__(self, get_context: GetContext, session_id: str, **arguments: Any) -> None:
        if not session_id:
            raise InvalidInput("a working set needs a session_id", field="session_id")
        self._get_context = get_context
        self._arguments = {**arguments, "session_id": session_id}
        self._kept: dict[str, dict[str, Any]] = {}
        self._cursor = 0
        self.items: list[dict[str, Any]] = []
        """The pack of the last turn, most useful first. Of a memory that was sent in an earlier turn nothing is said
        of the match with this turn's question."""

    def update(self, task: str, **arguments: Any) -> list[dict[str, Any]]:
        """The next turn: asks for what changed, and answers the whole pack."""
        asked = {**self._arguments, **arguments, "task": task}
        before = self._cursor
        for whole in ({"items": "new"}, {}):
            if self.apply(self._get_context(**asked, **whole)) and self._cursor > before:
                return self.items
        raise DependencyUnavailable(
            "the session moves on faster than this working set can follow: another program uses its session_id",
            dependency="engine",
        )

    def apply(self, envelope: Mapping[str, Any]) -> bool:
        """Takes in an envelope of the session. False where one before it was lost, or it is of a turn that is over:
        then nothing is changed, and the next one must hold all items."""
        change = envelope["working_memory"]
        if change is None:
            raise InvalidInput("the envelope is of no session", field="working_memory")
        number = int(change["cursor"])
        whole = all(len(item) > 1 for item in envelope["items"])
        if number == self._cursor:
            return True
        known = all(len(item) > 1 or item["ref"] in self._kept for item in envelope["items"])
        if number < self._cursor or not (whole or (number == self._cursor + 1 and known)):
            return False
        if number != self._cursor + 1:
            self._kept.clear()
        self._cursor = number
        for ref in (*change["evicted"], *(one["ref"] for one in change["superseded"])):
            self._kept.pop(ref, None)
        self.items = [self._item(item) for item in envelope["items"]]
        while len(self._kept) > SESSION_KNOWN_MAX:
            del self._kept[next(iter(self._kept))]
        return True

    def _item(self, item: dict[str, Any]) -> dict[str, Any]:
        ref = item["ref"]
        kept = memory_of(item) if len(item) > 1 else self._kept[ref]
        self._kept.pop(ref, None)
        self._kept[ref] = kept  # what was served last stands last
        return item if len(item) > 1 else {**kept, **_NOT_ASKED}
