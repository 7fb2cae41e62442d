"""The engine's invocations over every face (invariant 10)."""

from __future__ import annotations

import pytest

from mn.context.working.v1 import invocation_pb2 as pb
from mn.context.working.v1 import run_pb2
from mn_contract.errors import (
    AmbiguousInvocation,
    ContextBudgetExceeded,
    IdempotencyConflict,
    InvalidInput,
    InvocationInFlight,
    NotFound,
    RunClosed,
    StaleRevision,
)
from mn_sdk.transport import Transport
from tests.contract.faces.conftest import Faces
from tests.contract.faces.messages import opened

F, G = "f" * 64, "a" * 64


def begin(transport: Transport, name: str = "call", holder: str = "w1", **fields: str) -> pb.Invocation:
    request = pb.BeginInvocationRequest(name=name, holder=holder, lease_ms=60_000, fingerprint=F)
    for field, value in fields.items():
        setattr(request, field, value)
    begun: pb.Invocation = transport.call("BeginInvocation", request).invocation
    return begun


def dispatch(transport: Transport, begun: pb.Invocation, **fields: int) -> pb.Invocation:
    request = pb.DispatchInvocationRequest(
        name=begun.name, attempt=begun.attempt, epoch=begun.epoch, request_sha256=G, **fields
    )
    sent: pb.Invocation = transport.call("DispatchInvocation", request).invocation
    return sent


def respond(transport: Transport, begun: pb.Invocation, response: bytes = b"{}", outcome: str = "RESPONDED") -> None:
    transport.call(
        "RespondInvocation",
        pb.RespondInvocationRequest(
            name=begun.name,
            attempt=begun.attempt,
            epoch=begun.epoch,
            outcome=f"INVOCATION_STATE_{outcome}",
            response=response,
            response_usable=True,
        ),
    )


def test_a_call_is_dispatched_once_and_replayed_from_then_on(faces: Faces) -> None:
    alice, bob = faces.of(), faces.of("bob")
    opened(alice)
    begun = begin(alice)
    assert begun.state == pb.INVOCATION_STATE_PREPARED
    with pytest.raises(InvocationInFlight):
        begin(alice, holder="w2")
    assert dispatch(alice, begun).state == pb.INVOCATION_STATE_DISPATCHED
    with pytest.raises(IdempotencyConflict):
        dispatch(alice, begun)
    respond(alice, begun, b'{"paid":1}')
    alice.call("CompleteInvocation", pb.CompleteInvocationRequest(name="call", attempt=1))
    replayed = begin(alice, holder="w3")
    assert (replayed.state, replayed.response) == (pb.INVOCATION_STATE_COMPLETED, b'{"paid":1}')
    assert begin(bob).attempt == 1, "names are each principal's own"


def test_an_unproved_dispatch_is_ambiguous_until_it_is_settled(faces: Faces) -> None:
    alice = faces.of()
    opened(alice)
    dispatch(alice, begin(alice))
    for _ in range(2):
        with pytest.raises(AmbiguousInvocation):
            begin(alice, holder="w2", abandoned_holder="w1")
    again = begin(alice, holder="w2", retry="once-more")
    assert again.attempt == 2
    dispatch(alice, again)
    respond(alice, again)
    found = alice.call("GetInvocation", pb.GetInvocationRequest(name="call"))
    assert (found.invocation.attempt, found.run_calls) == (2, 2)


@pytest.mark.parametrize("executed", [True, False])
def test_reconciling_ends_the_doubt(faces: Faces, executed: bool) -> None:
    alice = faces.of()
    opened(alice)
    dispatch(alice, begin(alice))
    request = pb.ReconcileInvocationRequest(name="call", evidence="provider's log", abandoned_holder="w1")
    if executed:
        request.response = b"found"
    else:
        request.not_executed = True
    settled = alice.call("ReconcileInvocation", request).invocation
    assert settled.response == (b"found" if executed else b"")
    after = begin(alice, holder="w2")
    assert after.attempt == (1 if executed else 2)
    with pytest.raises((InvalidInput, IdempotencyConflict)):
        alice.call("ReconcileInvocation", pb.ReconcileInvocationRequest(name="call", evidence="none given"))


def test_a_taken_over_claim_cannot_be_dispatched_by_its_first_holder(faces: Faces) -> None:
    alice = faces.of()
    opened(alice)
    first = begin(alice)
    second = begin(alice, holder="w2", abandoned_holder="w1")
    with pytest.raises(StaleRevision):
        dispatch(alice, first)
    dispatch(alice, second)


def test_a_call_budget_counts_the_whole_run(faces: Faces) -> None:
    alice, bob = faces.of(), faces.of("bob")
    opened(alice)
    dispatch(alice, begin(alice), max_calls=1)
    with pytest.raises(ContextBudgetExceeded) as caught:
        dispatch(bob, begin(bob), max_calls=1)
    assert (caught.value.detail["limit"], caught.value.detail["used"]) == (1, 1)
    respond(alice, begin_again(alice), outcome="FAILED_DEFINITE")
    dispatch(bob, begin(bob), max_calls=1)


def begin_again(transport: Transport) -> pb.Invocation:
    found: pb.Invocation = transport.call("GetInvocation", pb.GetInvocationRequest(name="call")).invocation
    return found


def test_a_cancelled_run_dispatches_nothing_but_keeps_what_was_paid_for(faces: Faces) -> None:
    alice = faces.of()
    opened(alice)
    sent = begin(alice)
    dispatch(alice, sent)
    waiting = begin(alice, "other")
    alice.call("CancelRun", run_pb2.CancelRunRequest(reason="enough"))
    respond(alice, sent, b"paid")
    assert begin(alice, holder="w2").response == b"paid"
    for refused in (lambda: begin(alice, "third"), lambda: dispatch(alice, waiting)):
        with pytest.raises(RunClosed):
            refused()


def test_an_answer_is_read_with_the_roles_of_its_call(faces: Faces) -> None:
    """Invariant 7: by no RPC, not even one that a session never makes."""
    auditor, plain = faces.of(roles=("auditor",)), faces.of()
    opened(auditor)
    sent = begin(auditor)
    dispatch(auditor, sent)
    respond(auditor, sent, b"secret")
    for asked in (
        lambda: begin_again(plain),
        lambda: plain.call("CompleteInvocation", pb.CompleteInvocationRequest(name="call", attempt=1)),
        lambda: dispatch(plain, sent),
        lambda: respond(plain, sent, b"secret"),
        lambda: respond(plain, sent, outcome="AMBIGUOUS"),
        lambda: plain.call(
            "ReconcileInvocation", pb.ReconcileInvocationRequest(name="call", response=b"x", evidence="e")
        ),
    ):
        with pytest.raises(NotFound):
            asked()
    with pytest.raises(IdempotencyConflict):
        begin(plain)
    found = begin_again(auditor)
    assert (found.response, found.roles) == (b"secret", ["auditor"])


def test_malformed_invocations_are_refused(faces: Faces) -> None:
    alice = faces.of()
    opened(alice)
    with pytest.raises(InvalidInput):
        begin(alice, "bad name")
    with pytest.raises(InvalidInput):
        begin(alice, fingerprint="short")
    with pytest.raises(InvalidInput):
        alice.call("BeginInvocation", pb.BeginInvocationRequest(name="n", holder="h", fingerprint=F))
    with pytest.raises(NotFound):
        alice.call("GetInvocation", pb.GetInvocationRequest(name="absent"))
    begun = begin(alice)
    dispatch(alice, begun)
    with pytest.raises(InvalidInput):
        respond(alice, begun, outcome="UNSPECIFIED")
    with pytest.raises(InvalidInput):
        respond(alice, begun, outcome="PREPARED")
