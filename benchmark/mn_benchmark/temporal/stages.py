"""Where time goes: functions that are timed, wherever they are called, for as long as it takes to measure."""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final

from google.protobuf import json_format

from mn_contract import canonical
from mn_engine.domain.facts import Fact
from mn_engine.domain.requests import NewCard, NewEvent, check_batch
from mn_engine.domain.runs import Run
from mn_engine.recall import analysis
from mn_engine.recall.timelines import Timelines
from mn_engine.service.indexes import Indexes
from mn_engine.store import tree
from mn_engine.store.memory import MemoryStore
from mn_engine.wire import cards, tools

Timed = Callable[..., Any] | tuple[type, str]
"""A function, or a method by its class and name."""
_OURS: Final = ("mn_engine.", "mn_sdk.", "mn_contract.")


class Stages:
    """Processor seconds of each stage's functions while the context lasts (`seconds`), and how often they are called
    (`calls`), by whatever thread.

    A function's time is its own: what other functions of these stages take that it calls is theirs. A function is found
    by itself in the modules of engine, SDK and contract, so that each of its importers' names for it is timed; one that
    a table holds is not. Timing costs some 1 us a call, half of which counts as the caller's.
    """

    def __init__(self, stages: Mapping[str, Sequence[Timed]]) -> None:
        self._stages = stages
        self._put_back: list[tuple[Any, str, Any]] = []
        self._local = threading.local()
        self._lock = threading.Lock()
        self.seconds = dict.fromkeys(stages, 0.0)
        self.calls = dict.fromkeys(stages, 0)

    def __enter__(self) -> Stages:
        modules = [module for name, module in list(sys.modules.items()) if name.startswith(_OURS)]
        for stage, timed in self._stages.items():
            for one in timed:
                if isinstance(one, tuple):
                    owner, name = one
                    self._replace(owner, name, self._wrapped(getattr(owner, name), stage))
                    continue
                wrapped = self._wrapped(one, stage)
                for module in modules:
                    for name in [name for name, value in vars(module).items() if value is one]:
                        self._replace(module, name, wrapped)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._put_back:
            setattr(*self._put_back.pop())

    def _replace(self, owner: Any, name: str, by: Any) -> None:
        self._put_back.append((owner, name, vars(owner)[name]))
        setattr(owner, name, by)

    def _wrapped(self, work: Callable[..., Any], stage: str) -> Callable[..., Any]:
        @functools.wraps(work)
        def timed(*arguments: Any, **named: Any) -> Any:
            try:
                inside: list[float] = self._local.inside
            except AttributeError:
                inside = self._local.inside = []
            inside.append(0.0)
            started = time.thread_time()
            try:
                return work(*arguments, **named)
            finally:
                spent = time.thread_time() - started
                own = spent - inside.pop()
                if inside:
                    inside[-1] += spent
                with self._lock:
                    self.seconds[stage] += own
                    self.calls[stage] += 1

        return timed


def analysing(embedder: object) -> list[Timed]:
    """What analyses cards: every function of the analysis that is not a question's, and the embedder."""
    names = [
        name for name in vars(analysis) if name.startswith("analyse") and name not in ("analyse_query", "analyse_names")
    ]
    return [*(getattr(analysis, name) for name in names), (type(embedder), "embed")]


HASHING: Final[Sequence[Timed]] = (
    tree.leaf_hashes_of_cards,
    tree.leaf_of_card,
    tree.leaf_of_handle,
    tree.leaf_of_event,
    tree.leaf_of_ending,
    (tree.Numbers, "leaf"),
    (Run, "recorded"),
)
"""What makes leaves, hashes them and moves the frontier and the root on."""


def of_an_upsert(embedder: object) -> dict[str, Sequence[Timed]]:
    """The stages of an upsert in memory. `canonical` is JSON, wherever it is written: fingerprints, columns, leaves."""
    return {
        "protobuf": (
            json_format.ParseDict,
            json_format.MessageToDict,
            cards.decode_event,
            cards.encode_receipts,
            (tools.Tool, "read"),
            tools.written,
        ),
        "validation": (check_batch, (NewCard, "__post_init__"), (NewEvent, "__post_init__"), (Fact, "__post_init__")),
        "view": ((Indexes, "view"), (Timelines, "__init__"), (Timelines, "said")),
        "analysis": analysing(embedder),
        "canonical": (canonical.encoded,),
        "leaf": HASHING,
        "commit": ((MemoryStore, "commit"), (MemoryStore, "commit_table")),
    }
