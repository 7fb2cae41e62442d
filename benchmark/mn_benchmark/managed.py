"""Managed calls beside bare ones, over a record that is there: what `make bench` measures of a session."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final

from mn.context.working.v1 import packet_pb2
from mn_engine.domain.scope import Scope
from mn_sdk.client import WorkingMemoryClient
from mn_sdk.context_session import ContextSession, provider
from mn_sdk.context_session.admit import BYTES_PER_TOKEN, Admission
from mn_sdk.context_session.journal.keeping import KeepingInvocations
from mn_sdk.context_session.journal.notes import Notes
from mn_sdk.context_session.recording import Recorder
from mn_sdk.demo.stand_in import StandIn
from mn_tokens import encodings

_APPENDS: Final = 8
_APPEND_BYTES: Final = 4096
_STAGES: Final = (
    (WorkingMemoryClient, "compile"),
    (WorkingMemoryClient, "read_ranges"),
    (Admission, "count"),
    (KeepingInvocations, "begin"),
    (KeepingInvocations, "dispatch"),
    (KeepingInvocations, "respond"),
    (KeepingInvocations, "complete"),
    (Notes, "put_all"),
    (Recorder, "record"),
    (provider, "send"),
)
"""What a managed call consists of, and who does it."""


class ManagedCalls:
    """A session over the record in `root`, and a stand-in for a model on loopback."""

    def __init__(self, root: Path, scope: Scope, focus: str) -> None:
        self._focus = focus
        self._model = StandIn(root / "ledger.jsonl", lambda decision: None)
        self._session = ContextSession(root, job_id=scope.job_id, run_id=scope.run_id, principal=scope.principal)
        self._reached: dict[str, Any] = {
            "model": "openai/gpt-4o",
            "api_base": self._model.url,
            "api_key": "none",
            "timeout": 30,
        }
        self._appended = (root / "appended").open("ab", buffering=0)
        self._number = 0
        self._sent: list[dict[str, Any]] = []

    def turns(self) -> dict[str, Callable[[], object]]:
        """What is measured, by name; a managed call comes first, because the others repeat what it sent."""
        policy = self._session.policy
        size = int(policy.packet_target * policy.input_budget) * BYTES_PER_TOKEN
        request = packet_pb2.CompileRequest(decision=packet_pb2.Decision(focus=self._focus), budget_bytes=size)
        return {
            "managed": self._managed,
            "bare": lambda: provider.load().completion(messages=self._sent, **self._reached),
            "compile": lambda: self._session._client.compile(request),
            "appends": self._append,
            "tokenizer": lambda: [encodings.tokens(encodings.O200K, message["content"]) for message in self._sent],
        }

    def breakdown(self, *, rounds: int) -> str:
        """Where the time of a managed call goes, in the p50 milliseconds of its parts."""
        spent: dict[str, list[float]] = defaultdict(list)
        for _ in range(rounds):
            with _watched(spent):
                started = time.perf_counter()
                self._managed()
                spent["all"].append(time.perf_counter() - started)
        return ", ".join(f"{name} {statistics.median(some) * 1e3:.1f}" for name, some in spent.items())

    def close(self) -> None:
        """Lets go of everything."""
        self._appended.close()
        self._session.close()
        self._model.close()

    def _managed(self) -> None:
        self._number += 1
        user = {"goal": f"weigh word {self._number}", "control": "one sentence"}
        messages = [{"role": "system", "content": "Decide."}, {"role": "user", "content": json.dumps(user)}]
        self._session.complete(f"d{self._number}", messages=messages, focus=self._focus, **self._reached)
        self._sent = self._model.requests[-1]["messages"]

    def _append(self) -> None:
        for _ in range(_APPENDS):
            self._appended.write(bytes(_APPEND_BYTES))
            os.fsync(self._appended.fileno())


@contextmanager
def _watched(spent: dict[str, list[float]]) -> Iterator[None]:
    """Adds to `spent` the seconds that each stage takes inside, all its turns together."""
    taken = dict.fromkeys((f"{owner.__name__.rpartition('.')[2]}.{name}" for owner, name in _STAGES), 0.0)
    originals = [(owner, name, getattr(owner, name)) for owner, name in _STAGES]
    for (owner, name, original), stage in zip(originals, taken, strict=True):
        setattr(owner, name, _timing(original, stage, taken))
    try:
        yield
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)
        for stage, seconds in taken.items():
            spent[stage].append(seconds)


def _timing(original: Callable[..., Any], stage: str, taken: dict[str, float]) -> Callable[..., Any]:
    @wraps(original)
    def timed(*args: Any, **arguments: Any) -> Any:
        started = time.perf_counter()
        try:
            return original(*args, **arguments)
        finally:
            taken[stage] += time.perf_counter() - started

    return timed
