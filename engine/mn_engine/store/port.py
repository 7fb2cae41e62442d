"""The store's port: what a record promises, whatever keeps it.

Laws, checked by one contract suite over every store:

- **Durable before acknowledged.** A call that writes returns after its writes survive a power loss. One that raises has
  written nothing; only where the store itself broke while it committed, DependencyUnavailable says that this is not
  known, and the same call again tells.
- **Atomic.** A batch is committed whole, as one revision, or not at all. Readers see whole revisions.
- **Idempotent.** An event already committed under its (run, owner, key) with the same fingerprint is answered from the
  record; with another one the batch is refused. A batch all of whose events are replays makes no revision.
- **Append-only.** Cards, relations, endings, events and artifacts are never rewritten; what a card has become is told
  by later rows. Only clearing a run removes anything.
- **Scoped.** Every call names a run (and, where a principal matters, the principal). ACLs are the caller's business:
  the store answers what it is asked about, to the engine alone.
- **Thread-safe.** Any method may be called from any thread; commits of many threads share transactions.

A card is named by its key_hash in columns, relations and endings: it is CardKey.hash of the card, and unique in a run.
Errors are the contract's: RunClosed, ContextBudgetExceeded, IdempotencyConflict, StaleRevision, NotFound, InvalidInput,
StorageFull, RecordInUse, SourceMismatch, DependencyUnavailable. Row shapes are Arrow schemas, so that a store hands
over columns as it keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import pyarrow as pa

from mn_contract.invocations import Attempt, spent_retries
from mn_engine.domain.access import Acl
from mn_engine.domain.artifacts import Artifact, Permits, to_all
from mn_engine.domain.cards import StoredCard
from mn_engine.domain.deadlines import Expired, never
from mn_engine.domain.events import Batch, BatchReceipt, EventReceipt, PreparedArtifact
from mn_engine.domain.runs import Run, RunState, Tombstone

INDEX_CARDS: Final = pa.schema(
    [
        ("ordinal", pa.int64()),
        ("owner", pa.string()),
        ("id", pa.string()),
        ("kind", pa.uint8()),
        ("stance", pa.uint8()),
        ("acl", pa.string()),  # canonical JSON of Acl.as_json; "" where it is open
        ("occurred_at", pa.int64()),  # microseconds, null where unknown
        ("valid_from", pa.int64()),
        ("valid_until", pa.int64()),
        ("analysis_version", pa.uint16()),
        ("terms", pa.binary()),  # as in domain.events.Analysis, also below
        ("counts", pa.binary()),
        ("length", pa.uint32()),
        ("topics", pa.binary()),
        ("entities", pa.binary()),
        ("claims", pa.binary()),
        ("claim_stances", pa.binary()),
        ("id_hash", pa.uint64()),
        ("key_hash", pa.uint64()),
        ("text_hash", pa.uint64()),
        ("document_bytes", pa.uint32()),
        ("document_tokens", pa.uint32()),
        ("body_hash", pa.uint64()),
        ("vector", pa.binary()),
        ("fact_place", pa.uint64()),
        ("fact_triple", pa.uint64()),
        ("fact_singular", pa.bool_()),
    ]
)
"""Columns of the derived index, one row a card, ascending by ordinal."""

INDEX_RELATIONS: Final = pa.schema(
    [("source_ordinal", pa.int64()), ("type", pa.string()), ("target_hash", pa.uint64())]
)
"""One row a relation, ascending by source; `target_hash` is the target's key_hash."""

INDEX_ENDINGS: Final = pa.schema(
    [("revision", pa.int64()), ("target_hash", pa.uint64()), ("kind", pa.uint8()), ("by_hash", pa.uint64())]
)
"""One row each time a card was superseded (kind 1) or resolved (kind 2), ascending by revision; `by_hash` is the
key_hash of the card that did it, null where an event did it without a card. A card's first ending of a kind
counts."""

SUPERSEDED: Final = 1
RESOLVED: Final = 2

BULK_CARDS: Final = pa.schema(
    [
        *(field for field in INDEX_CARDS if field.name not in ("ordinal", "owner")),
        ("text", pa.string()),
        ("meta", pa.string()),  # canonical JSON of Card.as_json, without the text
    ]
)
"""One row a card of a bulk event; `owner` and ordinals are the event's. Cards of a bulk event carry no relations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexColumns:
    """What was committed in (after, upto]: tables of the three schemas above."""

    cards: pa.Table
    relations: pa.Table
    endings: pa.Table


@dataclass(frozen=True, slots=True)
class RootAt:
    """A root that a run has had: at which revision, over how many leaves."""

    revision: int
    size: int
    root: str


@dataclass(frozen=True, slots=True)
class StoredLeaf:
    """A leaf of a run's tree as it is stored now: its number, what it is (artifact, card, ending, event) and is called,
    its record (see domain.leaves), the hash that was kept of it, and what is wrong with what is stored beside it; empty
    where nothing is."""

    number: int
    kind: str
    name: str
    record: bytes
    hash: bytes
    wrong: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocations:
    """What a decision about an invocation may look at."""

    newest: Attempt | None
    by_attempt: dict[int, Attempt]
    run_calls: int
    """Attempts of the whole run, by any principal, whose state is in MAY_BE_BILLED."""

    @property
    def spent_retries(self) -> frozenset[str]:
        """Its retry identities that have led to a dispatch."""
        return spent_retries(self.by_attempt.values())


DecideInvocation = Callable[[Invocations], tuple[Attempt, ...]]
"""Pure: what to write, in order; may raise a contract error, and then nothing is written."""

Answer = TypeVar("Answer")
DecideSession = Callable[[str], tuple[str, Answer]]
"""Pure: from a session's state (empty: it is new) to its next one, and what to answer; may raise a contract error, and
then nothing is written."""

OnCommit = Callable[[str, int, RunState], None]
"""Told (run_key, newest revision, state) after a commit, a cancel or a clear is durable. Must not block."""


class Upload(Protocol):
    """An artifact on its way in. Use from one thread; abort or finish exactly once."""

    def write(self, chunk: bytes) -> None:
        """Adds bytes. Raises StorageFull, ContextBudgetExceeded or InvalidInput (over the size limit)."""

    def finish(self, *, media_type: str, owner: str, acl: Acl, expected_sha256: str) -> Artifact:
        """Makes bytes and handle durable. Raises SourceMismatch where they are not the expected ones, then keeps
        nothing."""

    def abort(self) -> None:
        """Forgets the bytes. Idempotent; a no-op after finish."""


class Store(Protocol):
    """A record."""

    # Runs.
    def open_run(self, job_id: str, run_id: str, *, max_stored_bytes: int | None, now: int) -> Run:
        """The run, created where it is new. A given budget replaces the run's. Raises RunClosed where it was
        cleared."""

    def run(self, run_key: str) -> Run:
        """The run's head, from memory. Raises NotFound."""

    def cancel_run(self, run_key: str, *, reason: str) -> Run:
        """Fences writes. Idempotent: the first reason stays."""

    def clear_run(self, run_key: str, *, reason: str, now: int) -> Tombstone:
        """Logical removal: from here on no read finds anything of it. Idempotent. Physical removal is compact's."""

    # Writes.
    def commit(self, batch: Batch, *, expired: Expired = never) -> BatchReceipt:
        """Commits a batch. `expired` is asked before the batch is queued and again before its transaction commits;
        where it says yes, ContextBudgetExceeded (budget "deadline") is raised and nothing is written. Order of
        checks: run, replay or conflict of each event, expected revision (not for a batch of replays only), clash of
        card ids, targets of relations and resolves (NotFound where a run has no such card, InvalidInput where one would
        be superseded or resolved by what does not come after it), storage budget, free space."""

    def commit_table(
        self,
        run_key: str,
        *,
        owner: str,
        key: str,
        fingerprint: str,
        cards: pa.Table,
        artifacts: Sequence[PreparedArtifact] = (),
        recorded_at: int = 0,
        expired: Expired = never,
    ) -> BatchReceipt:
        """Commits one event whose cards come as a BULK_CARDS table, by the Arrow path, with artifacts that they point
        at and that are not there already. Same laws as commit; the receipt names no cards, and of cards their texts
        alone are charged."""

    def event(self, run_key: str, owner: str, key: str) -> EventReceipt | None:
        """The receipt of a committed event, not marked as replayed; None where there is none."""

    # Artifacts.
    def upload(self, run_key: str) -> Upload:
        """Begins an artifact."""

    def artifacts(self, run_key: str, hashes: Collection[str]) -> dict[str, tuple[Artifact, ...]]:
        """sha256 -> all handles of that artifact in the order they were put, in one query; without those that the run
        does not have."""

    def read_ranges(
        self, run_key: str, ranges: Sequence[tuple[str, int, int]], *, permits: Permits = to_all
    ) -> list[bytes]:
        """The bytes of each (sha256, start, end), in order, in one query. Raises NotFound, before anything is read, for
        an unknown artifact and for one whose handles `permits` says no to; SourceMismatch where a known one's bytes are
        gone or are others by now; InvalidInput for a range that is empty or goes past the end."""

    # Reads.
    def index_columns(self, run_key: str, *, after: int, upto: int) -> IndexColumns:
        """What revisions (after, upto] added."""

    def cards(self, run_key: str, ordinals: Sequence[int], *, revision: int) -> list[StoredCard]:
        """Cards by ordinal, in the order given, in one query; what became of them up to `revision`. Raises NotFound."""

    # Invocations.
    def decide_invocation(
        self, run_key: str, principal: str, name: str, decide: DecideInvocation
    ) -> tuple[Attempt, ...]:
        """Calls `decide` and stores what it returns, atomically and durably; answers it. `decide` may be called
        again."""

    def invocations(self, run_key: str, principal: str, name: str) -> Invocations:
        """What is known of an invocation."""

    # Sessions.
    def decide_session(self, run_key: str, principal: str, session_id: str, decide: DecideSession[Answer]) -> Answer:
        """Calls `decide` with the newest state of a principal's session and stores the next one, atomically and
        durably; answers what it answers. `decide` may be called again. Sessions of different principals have nothing to
        do with each other."""

    # Times and integrity.
    def revision_at(self, run_key: str, time: int) -> int:
        """The newest revision that was recorded by a time, as far as it is known; 0 where none was."""

    def roots(self, run_key: str) -> list[RootAt]:
        """The roots that a run has had, oldest first; one may stand there several times."""

    def leaf_hashes(self, run_key: str) -> list[bytes]:
        """The kept hash of every leaf, in their order. Raises SourceMismatch where one is missing."""

    def leaves(self, run_key: str, *, first: int, count: int) -> list[StoredLeaf]:
        """Those of `count` leaves from number `first` on that are there, as they are stored now."""

    def card_leaves(self, run_key: str, ordinals: Sequence[int]) -> dict[int, StoredLeaf]:
        """The leaves of cards, by ordinal. Raises NotFound."""

    def strays(self, run_key: str) -> list[str]:
        """What is stored of a run that no leaf tells of and that is not what was written, in words; empty where all is
        well."""

    # The record itself.
    def listen(self, on_commit: OnCommit) -> None:
        """Has `on_commit` told of every commit from here on."""

    def compact(self) -> int:
        """Physically removes cleared runs (invariant 15) and sweeps blobs that nothing cites; answers bytes given
        back."""

    def close(self) -> None:
        """Waits for commits under way, then lets go of the record. Idempotent."""
