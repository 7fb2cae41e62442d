"""A session waits for its engine no longer than its deadline allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn.context.working.v1 import working_memory_pb2
from mn_contract.errors import ContextBudgetExceeded, DependencyUnavailable, NotFound
from mn_sdk.transport.bounded import SETTLING_SECONDS, BoundedTransport

METHODS = sorted(working_memory_pb2.DESCRIPTOR.services_by_name["WorkingMemory"].methods_by_name)
SETTLING = ["CompleteInvocation", "GetInvocation", "GetRun", "ReconcileInvocation", "RespondInvocation"]
STALLED = DependencyUnavailable("no answer in time", dependency="engine", code="DEADLINE_EXCEEDED")


class Inner:
    """A transport that takes some seconds for each call and then fails or answers."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.takes = 0.0
        self.error: Exception | None = None
        self.timeouts: list[float | None] = []

    def call(self, method: str, request: Any, *, timeout: float | None = None) -> Any:
        self.timeouts.append(timeout)
        if method == "ReadArtifact":
            return self._stream()
        return next(self._stream())

    def _stream(self) -> Iterator[str]:
        self.now += self.takes
        if self.error is not None:
            raise self.error
        yield "answer"

    def close(self) -> None:
        pass


def bounded(inner: Inner, seconds: float) -> BoundedTransport:
    return BoundedTransport(inner, 1000.0 + seconds, clock=lambda: inner.now)


def asked(transport: BoundedTransport, method: str, **options: Any) -> Any:
    answer = transport.call(method, None, **options)
    return next(answer) if method == "ReadArtifact" else answer


@given(st.sampled_from(METHODS), st.integers(-1000, 1000), st.none() | st.integers(1, 1000))
def test_every_call_gets_what_is_left_at_most(method: str, left: int, own: int | None) -> None:
    inner = Inner()
    transport = bounded(inner, left)
    granted = max(left, SETTLING_SECONDS) if method in SETTLING else left
    if granted <= 0:
        with pytest.raises(ContextBudgetExceeded) as passed:
            asked(transport, method, timeout=own)
        assert passed.value.detail["budget"] == "deadline"
        assert not inner.timeouts
    else:
        assert asked(transport, method, timeout=own) == "answer"
        assert inner.timeouts == [pytest.approx(granted if own is None else min(granted, own), abs=1e-6)]


@pytest.mark.parametrize("method", METHODS)
def test_a_call_that_the_deadline_ended_says_so(method: str) -> None:
    inner = Inner()
    inner.takes, inner.error = 5.0, STALLED
    with pytest.raises(ContextBudgetExceeded, match=f"deadline has passed; {method}") as passed:
        asked(bounded(inner, 5), method)
    assert passed.value.detail["budget"] == "deadline"


@pytest.mark.parametrize("method", ["Compile", "ReadArtifact"])
def test_other_errors_stay_what_they_are(method: str) -> None:
    inner = Inner()
    inner.takes = 1.0
    for error in (STALLED, NotFound("absent")):
        inner.error = error
        with pytest.raises(type(error)) as told:
            asked(bounded(inner, 60), method)
        assert told.value is error
