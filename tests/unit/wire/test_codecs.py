"""No operation is forgotten by any table, and codecs agree with the wire contract."""

from __future__ import annotations

import pytest

from mn.context.memory.v1 import memory_pb2
from mn.context.working.v1 import invocation_pb2, working_memory_pb2
from mn_contract.canonical import encoded
from mn_contract.errors import InvalidInput, NeedsPartition
from mn_contract.invocations import State
from mn_engine.service.operations import OPERATIONS, Shape
from mn_engine.wire.codecs import CODECS
from mn_engine.wire.errors import detail_json, status_of
from mn_engine.wire.runs import decode_state

METHODS = {
    **working_memory_pb2.DESCRIPTOR.services_by_name["WorkingMemory"].methods_by_name,
    **memory_pb2.DESCRIPTOR.services_by_name["Memory"].methods_by_name,
}


def test_every_method_has_an_operation_and_a_codec() -> None:
    assert set(METHODS) == set(OPERATIONS) == set(CODECS)


@pytest.mark.parametrize("name", METHODS)
def test_a_codec_has_the_methods_messages_and_the_operation_its_shape(name: str) -> None:
    method, codec = METHODS[name], CODECS[name]
    assert codec.request.DESCRIPTOR is method.input_type
    assert codec.answer.DESCRIPTOR is method.output_type
    shapes = {(False, False): Shape.UNARY, (True, False): Shape.UPLOAD, (False, True): Shape.STREAM}
    assert OPERATIONS[name].shape is shapes[method.client_streaming, method.server_streaming]


def test_invocation_states_have_the_same_names_on_the_wire() -> None:
    names = [name.removeprefix("INVOCATION_STATE_") for name in invocation_pb2.InvocationState.keys()[1:]]
    assert names == [state.name for state in State]
    assert decode_state(invocation_pb2.INVOCATION_STATE_AMBIGUOUS, "f") is State.AMBIGUOUS
    for number in (0, 99):
        with pytest.raises(InvalidInput):
            decode_state(number, "f")


def test_a_detail_too_large_for_small_trailers_says_that_it_was_cut() -> None:
    """The status of an error always fits the room that its client has."""
    items = [{"id": f"card-{n}", "bytes": n} for n in range(5000)]
    error = NeedsPartition(
        "too much", detail={"reason": "r", "budget": 5, "items": items, "plan": {"packets": [items]}}
    )
    small = status_of(error, detail_bytes_max=6000)
    assert len(small.SerializeToString()) < 8000
    cut = detail_json(error.detail, 6000)
    assert b'"cut":{"items":5000' in cut
    room = len(encoded(error.detail)) * 9 // 10
    assert len(detail_json(error.detail, room)) > room // 3, "what has room stays"
    whole = detail_json(error.detail, 1 << 20)
    assert b'"cut"' not in whole
