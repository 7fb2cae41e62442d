"""What workers need: a nursery, a provider, and an engine that outlives them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mn_engine.bootstrap import engine_over
from mn_engine.faces.gate import Gate
from mn_engine.faces.grpc import GrpcServer
from mn_engine.store.duckdb import DuckDBStore
from tests.crash.session.provider import Provider
from tests.crash.session.worker import Nursery


@pytest.fixture(scope="package")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture(scope="package")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    provider = Provider(tmp_path_factory.mktemp("provider"))
    yield provider
    provider.close()


@pytest.fixture(scope="package")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An engine's, behind gRPC."""
    server = GrpcServer("127.0.0.1:0", Gate())
    server.start()
    engine = engine_over(DuckDBStore(tmp_path_factory.mktemp("engine") / "record.duckdb"))
    server.serve(engine)
    yield f"127.0.0.1:{server.port}"
    server.stop(5)
    engine.close()
