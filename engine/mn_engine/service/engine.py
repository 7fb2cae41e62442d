"""What every use case works with: the store, the derived indexes, the watchers and the clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mn_contract.errors import ContextBudgetExceeded
from mn_engine.domain.deadlines import Remaining, endless
from mn_engine.domain.signed_notes import SigningKey
from mn_engine.recall.embedder import Embedder, NoEmbedder
from mn_engine.select.cmp.profiles import ModelProfile
from mn_engine.service.indexes import Indexes
from mn_engine.service.selector import Consultant
from mn_engine.service.watch import Watchers
from mn_engine.store.port import Store

Clock = Callable[[], int]
"""Microseconds since 1970, UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One record, opened, with what is derived from it."""

    store: Store
    indexes: Indexes
    watchers: Watchers
    clock: Clock
    embedder: Callable[[], Embedder] = NoEmbedder
    """Made when it is first needed."""
    consultant: Consultant | None = None
    """Whom to ask for the order of optional candidates; None unless it is configured."""
    profiles: tuple[ModelProfile, ...] = ()
    """Model profiles that were added to the built-in ones."""
    signing_key: SigningKey | None = None
    """What signs a run's root; None unless it is configured."""

    def close(self) -> None:
        """Ends watches, waits for commits under way and lets go of the record. Idempotent."""
        self.watchers.close()
        self.store.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The caller's side of one call: how long it still waits."""

    remaining: Remaining = endless

    def expired(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self.remaining() <= 0

    def check(self) -> None:
        """Raises ContextBudgetExceeded where nobody waits for the answer any more."""
        if self.expired():
            raise ContextBudgetExceeded("the call's deadline has passed; nothing was written", budget="deadline")
