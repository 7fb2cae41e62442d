"""Whatever a message says, the answer is an answer or one of the contract's errors; nothing of it reaches a column that
cannot hold it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings

from mn.context.working.v1 import run_pb2, working_memory_pb2
from mn_contract.errors import ContextError, InvalidInput
from mn_contract.limits import RUN_STORED_BYTES_MAX
from mn_engine.domain.deadlines import endless
from mn_engine.faces.embedded import EmbeddedFace
from mn_engine.service.engine import Engine
from mn_engine.wire.codecs import CODECS
from mn_sdk.scope import SessionScope
from tests.contract.faces.conftest import Faces
from tests.contract.faces.messages import observe, opened

METHODS = working_memory_pb2.DESCRIPTOR.services_by_name["WorkingMemory"].methods_by_name
HEADERS: Final = SessionScope(job_id="job", run_id="run", principal="alice", roles=()).headers()
INTEGERS: Final = (0, 1, 2, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
DOUBLES: Final = (0.0, 0.5, 1.5, -1.0, float("nan"), float("inf"))
TEXTS: Final = ("", "a", "b", "supersedes", "resolves", "text/plain", "0" * 64, "two words", "\0")
_BITS: Final = {
    FieldDescriptor.TYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.TYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.TYPE_UINT64: (0, (1 << 64) - 1),
}


def values(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    """Values of a field that is not a message: ordinary ones and the extremes of its type."""
    if field.type in _BITS:
        low, high = _BITS[field.type]
        return st.sampled_from([low, *(number for number in INTEGERS if number <= high)])
    if field.type == FieldDescriptor.TYPE_ENUM:
        return st.sampled_from([0, 1, 2, 3, 5, 99, -1])
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return st.sampled_from(DOUBLES)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return st.booleans()
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.sampled_from([b"", b"bytes", b"\xff"])
    assert field.type == FieldDescriptor.TYPE_STRING
    return st.sampled_from(TEXTS)


@st.composite
def filled(draw: st.DrawFn, message: Message) -> Message:
    """`message` with some of its fields set."""
    descriptor: Descriptor = message.DESCRIPTOR
    for field in descriptor.fields:
        count = draw(st.integers(0, 2)) if field.is_repeated else draw(st.integers(0, 1))
        for _ in range(count):
            place = getattr(message, field.name)
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                inner = place.add() if field.is_repeated else place
                draw(filled(inner))
                if not field.is_repeated:
                    inner.SetInParent()
            elif field.is_repeated:
                place.append(draw(values(field)))
            else:
                setattr(message, field.name, draw(values(field)))
    return message


def ask(engine: Engine, method: str, request: Any) -> Any:
    """The whole answer, or the contract's error; anything else is a fault of ours."""
    remaining = (lambda: 0.0) if method == "WatchRevisions" else endless
    try:
        answer = EmbeddedFace(engine).call(method, HEADERS, request, remaining=remaining)
        return list(answer) if isinstance(answer, Iterator) else answer
    except ContextError as error:
        return error


@pytest.mark.parametrize("method", [name for name in METHODS if name != "ClearRun"])
@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_message_gets_an_answer_or_an_error_of_the_contract(
    engine: Engine, method: str, data: st.DataObject
) -> None:
    ask(engine, "OpenRun", run_pb2.OpenRunRequest())
    kind = CODECS[method].request
    if METHODS[method].client_streaming:
        count = data.draw(st.integers(0, 3))
        ask(engine, method, iter([data.draw(filled(kind())) for _ in range(count)]))
    else:
        ask(engine, method, data.draw(filled(kind())))


@pytest.mark.parametrize("budget", [0, RUN_STORED_BYTES_MAX + 1, (1 << 64) - 1])
def test_a_budget_that_no_run_can_have_is_refused(faces: Faces, budget: int) -> None:
    with pytest.raises(InvalidInput) as caught:
        opened(faces.of(), max_stored_bytes=budget)
    assert caught.value.field == "max_stored_bytes"


def test_no_budget_reads_as_0_and_the_largest_lifts_one(faces: Faces) -> None:
    alice = faces.of()
    assert opened(alice).max_stored_bytes == 0
    assert opened(alice, max_stored_bytes=1).max_stored_bytes == 1
    with pytest.raises(ContextError):
        observe(alice, "a", "more than a byte")
    assert opened(alice, max_stored_bytes=RUN_STORED_BYTES_MAX).max_stored_bytes == RUN_STORED_BYTES_MAX
    observe(alice, "a", "more than a byte")
