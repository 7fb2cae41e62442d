"""One engine behind every face: the same tests run over each face and each store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mn_contract.addresses import read_replicas
from mn_engine.bootstrap import engine_over
from mn_engine.domain.signed_notes import SigningKey
from mn_engine.faces.embedded import EmbeddedFace
from mn_engine.faces.gate import Gate
from mn_engine.faces.grpc import GrpcServer
from mn_engine.service.engine import Engine
from mn_engine.store.duckdb import DuckDBStore
from mn_engine.store.memory import MemoryStore
from mn_engine.store.port import Store
from mn_sdk.scope import SessionScope
from mn_sdk.transport import Transport
from mn_sdk.transport.grpc import GrpcTransport

STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore(),
    "duckdb": lambda folder: DuckDBStore(folder / "record.duckdb"),
}


SIGNING_KEY = SigningKey("example.com/membrane", bytes(range(32)))


class Embedded:
    """The embedded face as a transport."""

    def __init__(self, engine: Engine, scope: SessionScope) -> None:
        self._face, self._headers = EmbeddedFace(engine), scope.headers()

    def call(self, method: str, request: Any, *, timeout: float | None = None) -> Any:
        return self._face.call(method, self._headers, request)

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass
class Faces:
    """Transports of any principal to the engine under test."""

    connect: Callable[[SessionScope], Transport]
    opened: list[Transport] = field(default_factory=list)

    def of(
        self, principal: str = "alice", *, roles: tuple[str, ...] = (), run: str = "run", job: str = "job"
    ) -> Transport:
        transport = self.connect(SessionScope(job_id=job, run_id=run, principal=principal, roles=roles))
        self.opened.append(transport)
        return transport


@pytest.fixture(params=["embedded", "grpc"])
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=STORES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    engine = engine_over(STORES[request.param](tmp_path), signing_key=SIGNING_KEY)
    yield engine
    engine.close()


@pytest.fixture
def faces(face: str, engine: Engine) -> Iterator[Faces]:
    server = None
    if face == "grpc":
        server = GrpcServer("127.0.0.1:0", Gate())
        server.start()
        server.serve(engine)
        replicas = read_replicas(f"127.0.0.1:{server.port}", "address")
        faces = Faces(lambda scope: GrpcTransport(replicas, scope))
    else:
        faces = Faces(lambda scope: Embedded(engine, scope))
    yield faces
    for transport in faces.opened:
        transport.close()
    if server is not None:
        server.stop(5)
