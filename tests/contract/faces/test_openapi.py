"""The served OpenAPI document is true: whatever is asked by it, or against it, is answered as it says."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from mn.context.working.v1 import run_pb2
from mn_contract.limits import HTTP_HEAD_BYTES_MAX
from mn_engine.bootstrap import engine_over
from mn_engine.faces.embedded import EmbeddedFace
from mn_engine.faces.http.openapi import openapi
from mn_engine.store.memory import MemoryStore
from tests.contract.faces.asking import ServingHttp, scope_of, url_of
from tests.contract.faces.conftest import SIGNING_KEY

HEADERS = scope_of().headers()
OPERATIONS = [
    (path, method, mode)
    for path, methods in openapi()["paths"].items()
    for method, operation in methods.items()
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or "parameters" in operation  # others take nothing that could be wrong
]
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    engine = engine_over(MemoryStore(), signing_key=SIGNING_KEY)
    EmbeddedFace(engine).call("OpenRun", HEADERS, run_pb2.OpenRunRequest())
    with ServingHttp(engine) as server:
        yield url_of(server)
    engine.close()


@pytest.mark.parametrize(("path", "method", "mode"), OPERATIONS)
def test_each_operation_answers_as_the_document_says(url: str, path: str, method: str, mode: GenerationMode) -> None:
    """Also to what the document does not allow. The scope is given, so that calls get past the gate."""
    operation = schemathesis.openapi.from_url(f"{url}/openapi.json")[path][method]
    # What a negative query means is lost in text (a list of one is its item), so only bodies must be refused.
    refusing = [negative_data_rejection] if mode is GenerationMode.NEGATIVE and operation.body else []

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=60, database=None, suppress_health_check=list(HealthCheck))
    def answers(case: schemathesis.Case) -> None:
        # What is longer is no request of HTTP's: the connection ends.
        assume(len(urlencode(case.query or {}, doseq=True, errors="replace")) < HTTP_HEAD_BYTES_MAX * 3 // 4)
        case.headers = None
        case.call_and_validate(headers=HEADERS, checks=[*CHECKS, *refusing])

    answers()


@pytest.mark.parametrize(("path", "method"), [("/v1/context", "get"), ("/v1/tools/call", "post")])
def test_headers_of_any_kind_are_answered_as_the_document_says(url: str, path: str, method: str) -> None:
    operation = schemathesis.openapi.from_url(f"{url}/openapi.json")[path][method]

    @given(case=operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
    @settings(max_examples=30, database=None, suppress_health_check=list(HealthCheck))
    def answers(case: schemathesis.Case) -> None:
        case.call_and_validate(checks=CHECKS)

    answers()
