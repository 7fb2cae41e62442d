"""Runs: what they accept, what they have used, and what stays of one that was cleared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from mn_contract.canonical import digest
from mn_contract.errors import ContextBudgetExceeded, InvalidInput, RunClosed
from mn_contract.limits import RUN_STORED_BYTES_MAX
from mn_engine.domain.merkle import Frontier


class RunState(IntEnum):
    """A run only moves forward through these. Numbers are those of the wire."""

    OPEN = 1
    CANCELLED = 2
    CLEARED = 3


class Removal(IntEnum):
    """How far a clear has come (invariant 15). Numbers are those of the wire."""

    LOGICAL = 1
    PHYSICAL = 2


EMPTY_ROOT: Final = digest(b"mn.context run")
"""The root of a run of which nothing was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """What stays of a cleared run."""

    revision: int
    root: str
    cleared_at: int
    removal: Removal


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run's head. `frontier` is that of the tree over all that was recorded, and `root` chains its roots;
    `max_stored_bytes` None means no budget."""

    job_id: str
    run_id: str
    state: RunState = RunState.OPEN
    revision: int = 0
    root: str = EMPTY_ROOT
    frontier: Frontier = field(default=Frontier())
    stored_bytes: int = 0
    max_stored_bytes: int | None = None
    opened_at: int
    reason: str = ""
    tombstone: Tombstone | None = None

    def check_writable(self) -> None:
        """Raises RunClosed where the run takes no more writes."""
        if self.state is RunState.CANCELLED:
            raise RunClosed("the run was cancelled and takes no more writes", reason="RUN_CANCELLED", state="cancelled")
        self.check_readable()

    def check_readable(self) -> None:
        """Raises RunClosed where the run was cleared."""
        if self.state is RunState.CLEARED:
            raise RunClosed("the run was cleared; only its tombstone is left", reason="RUN_CLEARED", state="cleared")

    def recorded(self, leaves: Iterable[bytes], *, charged: int, revision: int | None = None) -> Run:
        """The run with more leaves, hashed, that cost `charged` bytes, and as `revision` where they make one."""
        frontier = self.frontier.extended(leaves)
        at = self.revision if revision is None else revision
        return replace(
            self,
            revision=at,
            frontier=frontier,
            root=next_root(self.root, at, frontier),
            stored_bytes=self.stored_bytes + charged,
        )

    def check_room(self, needed: int) -> None:
        """Raises ContextBudgetExceeded, with the numbers, where `needed` more bytes are over the storage budget."""
        if self.max_stored_bytes is not None and self.stored_bytes + needed > self.max_stored_bytes:
            raise ContextBudgetExceeded(
                f"the run has stored {self.stored_bytes} of its {self.max_stored_bytes} bytes and this write needs"
                f" {needed} more; nothing was written",
                budget="storage",
                limit=self.max_stored_bytes,
                used=self.stored_bytes,
                needed=needed,
            )


def check_max_stored_bytes(budget: int | None) -> int | None:
    """`budget` where it is a run's storage budget, or None. Raises InvalidInput."""
    if budget is not None and not 1 <= budget <= RUN_STORED_BYTES_MAX:
        raise InvalidInput(
            f"max_stored_bytes must be 1-{RUN_STORED_BYTES_MAX}; leave it out to keep the run's budget, or give the"
            " largest value to lift it",
            field="max_stored_bytes",
        )
    return budget


def next_root(root: str, revision: int, frontier: Frontier) -> str:
    """The root after a write, which chains the tree's to the one before. `frontier` is the tree's after it."""
    return chained_root(root, revision, frontier.size, frontier.root)


def chained_root(root: str, revision: int, size: int, tree: str) -> str:
    """The same: SHA-256 of canonical JSON of [root before, revision, leaves, root of the tree over them]."""
    return digest([root, revision, size, tree])
