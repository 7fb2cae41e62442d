"""Faces: what HTTP adds to a pack, and many clients at once.

- `context_p95_ratio`: p95 of `/v1/context` over a run of `cards` cards, by the sum of the p95s of an empty uvicorn
  response and of the same pack made in process, by turns; a value for each of `rounds`.
- `p95_ms`: these three p95s.
- `errors`: of the requests that `clients` clients make for `seconds`, half of them over HTTP, half over MCP, each a
  principal of its own, the share that ended in an error; `foreign_bytes`: the share whose answer had anything of
  another principal's; `requests_per_second`.

Settings: `cards`, `requests` of a round, `rounds`, `clients`, `seconds`.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np

from mn.context.working.v1 import artifact_pb2, card_pb2
from mn_benchmark.grown import questions, sentences, texts_of
from mn_benchmark.membrane import JOB, PRINCIPAL, Membrane
from mn_benchmark.report import ALL, OURS, Sample
from mn_benchmark.served import empty, served
from mn_benchmark.suites.asked import Asked, whole_settings
from mn_benchmark.systems import Document
from mn_contract.errors import NotFound
from mn_engine.bootstrap import RECORD_NAME, engine_over
from mn_engine.domain.packets import Decision
from mn_engine.domain.packs import PackRequest
from mn_engine.domain.scope import Scope
from mn_engine.service.engine import Call
from mn_engine.service.packs import get_context
from mn_engine.store.duckdb import DuckDBStore
from mn_engine.wire.smp import envelope
from mn_engine.wire.tools import written
from mn_sdk.client import WorkingMemoryClient
from mn_sdk.scope import SessionScope
from mn_sdk.transport.embedded import EmbeddedTransport

_SETTINGS: Final = {"cards": 10_000, "requests": 60, "rounds": 5, "clients": 200, "seconds": 60}
_RUN: Final = "faces"
_MODEL: Final = "claude"
_PATIENCE_SECONDS: Final = 120.0
"""How long a client waits for an answer: two cores serve two hundred of them."""
_MARK: Final = re.compile(r"mark-(\d+)-")


def run(asked: Asked) -> Iterator[Sample]:
    """The suite."""
    settings = read_settings(asked.settings)
    some, tasks = sentences(asked.data), questions(asked.data)
    if not some or not tasks:
        raise NotFound("the texts of hotpotqa, climate-fever and locomo hold no sentence, or nothing asks of them")
    random.Random(asked.seed).shuffle(tasks)
    with tempfile.TemporaryDirectory(prefix="membrane-benchmark-") as folder:
        root, copied = Path(folder) / "served", Path(folder) / "copied"
        root.mkdir()
        asked.progress(f"faces: recording {settings['cards']:,} cards")
        texts = texts_of(some, settings["cards"], asked.seed)
        documents = [Document(text=text, charged=text) for text in itertools.islice(texts, settings["cards"])]
        with Membrane(documents, root=root, run_id=_RUN):
            pass
        for number in range(settings["clients"]):
            _mark(root, number)
        shutil.copytree(root, copied)
        with served(root / RECORD_NAME) as address:
            yield from _latencies(address, copied, tasks, settings, asked.progress)
            asked.progress(f"faces: {settings['clients']} clients for {settings['seconds']} s")
            told = asyncio.run(_crowd(address, tasks, settings["clients"], settings["seconds"]))
    yield Sample(case=ALL, system=OURS, metric="errors", values=told.errors)
    yield Sample(case=ALL, system=OURS, metric="foreign_bytes", values=told.foreign)
    rate = len(told.errors) / settings["seconds"]
    yield Sample(case=ALL, system=OURS, metric="requests_per_second", values=[rate], unit="1/s")
    for said, count in sorted(told.said.items()):
        asked.progress(f"faces: {count} times {said}")


def read_settings(given: Mapping[str, Any]) -> dict[str, int]:
    """The suite's settings. Raises InvalidInput."""
    return whole_settings("faces", given, _SETTINGS)


def _scope(principal: str) -> SessionScope:
    return SessionScope(job_id=JOB, run_id=_RUN, principal=principal)


def _mark(root: Path, number: int) -> None:
    """Records what one client alone may read."""
    principal = f"client-{number}"
    client = WorkingMemoryClient(EmbeddedTransport(root, _scope(principal)))
    try:
        acl = artifact_pb2.Acl(allow_principals=[principal])
        text = f"The secret of this client is mark-{number}- and nobody else's."
        card = card_pb2.Card(kind=card_pb2.CARD_KIND_FACT, text=text, acl=acl, entities=[f"mark-{number}-"])
        client.record([card_pb2.Event(key="secret", cards=[card])])
    finally:
        client.close()


def _latencies(
    address: str, root: Path, tasks: Sequence[str], settings: Mapping[str, int], progress: Callable[[str], None]
) -> Iterator[Sample]:
    engine = engine_over(DuckDBStore(root / RECORD_NAME))
    reader = Scope(job_id=JOB, run_id=_RUN, principal=PRINCIPAL)

    def in_process(task: str) -> None:
        request = PackRequest(decision=Decision(focus=task), model=_MODEL)
        written(envelope(get_context(engine, reader, Call(), request=request)))

    with empty() as nothing, httpx.Client(timeout=_PATIENCE_SECONDS) as client:
        headers = _scope(PRINCIPAL).headers()

        def over_http(task: str) -> None:
            arguments = {"task": task, "model": _MODEL}
            client.get(f"{address}/v1/context", params=arguments, headers=headers).raise_for_status()

        ways: dict[str, Callable[[str], object]] = {
            "http": over_http,
            "empty": lambda _: client.get(nothing),
            "in process": in_process,
        }
        tails: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(settings["rounds"] + 1):
            progress(f"faces: round {number} of {settings['rounds']}")
            spent: dict[str, list[float]] = {name: [] for name in ways}
            for task in itertools.islice(itertools.cycle(tasks), settings["requests"]):
                for name, ask in ways.items():
                    started = time.perf_counter()
                    ask(task)
                    spent[name].append(time.perf_counter() - started)
            if number:  # the first round warms caches
                for name, seconds in spent.items():
                    tails[name].append(float(np.percentile(seconds, 95)))
    engine.close()
    ratios = [http / (floor + pack) for http, floor, pack in zip(*(tails[name] for name in ways), strict=True)]
    yield Sample(case=ALL, system=OURS, metric="context_p95_ratio", values=ratios, unit="ratio")
    for name, seconds in tails.items():
        yield Sample(case=name, system=OURS, metric="p95_ms", values=[1000 * one for one in seconds], unit="ms")


@dataclass(slots=True)
class _Told:
    """What the crowd met: for each request 1 where it failed, and 1 where its answer had anything of others."""

    errors: list[float] = field(default_factory=list)
    foreign: list[float] = field(default_factory=list)
    said: dict[str, int] = field(default_factory=dict)

    def answered(self, number: int, text: str) -> None:
        """Takes in an answer to a client."""
        self.errors.append(0.0)
        self.foreign.append(float(any(int(mark) != number for mark in _MARK.findall(text))))

    def failed(self, error: BaseException) -> None:
        """Takes in a request that ended in an error."""
        self.errors.append(1.0)
        self.foreign.append(0.0)
        said = f"{type(error).__name__}: {error}"[:200]
        self.said[said] = self.said.get(said, 0) + 1


async def _crowd(address: str, tasks: Sequence[str], clients: int, seconds: int) -> _Told:
    told = _Told()
    until = time.monotonic() + seconds
    work = [(_over_mcp if number % 2 else _over_http)(address, number, tasks, until, told) for number in range(clients)]
    await asyncio.gather(*work)
    return told


async def _over_http(address: str, number: int, tasks: Sequence[str], until: float, told: _Told) -> None:
    headers = _scope(f"client-{number}").headers()
    async with httpx.AsyncClient(timeout=_PATIENCE_SECONDS, headers=headers) as client:

        async def ask(turn: int) -> str:
            task = f"{tasks[(number * 7 + turn) % len(tasks)]} And what is the secret of this client?"
            if turn % 3 == 0:
                body: dict[str, Any] = {"name": "query_memory", "arguments": {"find": task, "k": 20}}
                answer = await client.post(f"{address}/v1/tools/call", json=body)
            else:
                params = {"task": task, "model": ("claude", "cursor")[turn % 2], "session_id": f"chat-{turn // 10}"}
                answer = await client.get(f"{address}/v1/context", params=params)
            answer.raise_for_status()
            return answer.text

        await _turns(number, ask, until, told)


async def _over_mcp(address: str, number: int, tasks: Sequence[str], until: float, told: _Told) -> None:
    import httpx2
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    headers = _scope(f"client-{number}").headers()
    async with AsyncExitStack() as opened:
        http = await opened.enter_async_context(httpx2.AsyncClient(timeout=_PATIENCE_SECONDS, headers=headers))
        streams = await opened.enter_async_context(streamable_http_client(f"{address}/mcp", http_client=http))
        session = await opened.enter_async_context(ClientSession(streams[0], streams[1]))
        await session.initialize()

        async def ask(turn: int) -> str:
            task = f"{tasks[(number * 11 + turn) % len(tasks)]} And what is the secret of this client?"
            name, arguments = (
                ("search", {"query": task}) if turn % 2 else ("get_context", {"task": task, "model": "cursor"})
            )
            answer = await session.call_tool(name, arguments)
            return str(answer)

        await _turns(number, ask, until, told)


async def _turns(number: int, ask: Callable[[int], Awaitable[str]], until: float, told: _Told) -> None:
    for turn in itertools.count(1):
        if time.monotonic() >= until:
            return
        try:
            told.answered(number, await ask(turn))
        except Exception as error:  # noqa: BLE001  (whatever a client raises is the error that is counted)
            told.failed(error)
