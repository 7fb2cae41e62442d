"""The engine's journal: the same contract over its invocation RPCs, for sessions whose record is behind a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mn.context.working.v1 import invocation_pb2
from mn_contract.errors import InvalidInput, InvocationInFlight, NotFound
from mn_contract.invocations import REPLAYABLE, Attempt, State
from mn_contract.names import check_id
from mn_sdk.context_session.journal.holder import is_gone, own_holder


class Caller(Protocol):
    """Calls an operation by its RPC's name."""

    def call(self, method: str, request: Any) -> Any: ...


class RemoteInvocations:
    """See Invocations."""

    def __init__(
        self, client: Caller, *, holder: Callable[[], str] = own_holder, gone: Callable[[str], bool] = is_gone
    ) -> None:
        self._client = client
        self._holder = holder
        self._gone = gone

    def begin(self, name: str, *, fingerprint: str, lease_ms: int, retry: str = "") -> Attempt:
        """See Invocations. A holder that the engine names, and that is gone from this machine, is passed over."""
        request = invocation_pb2.BeginInvocationRequest(
            name=name, holder=self._holder(), lease_ms=lease_ms, retry=retry, fingerprint=fingerprint
        )
        return self._past_the_dead("BeginInvocation", request)

    def dispatch(self, attempt: Attempt, *, request_sha256: str, calls_max: int | None) -> Attempt:
        """See Invocations."""
        request = invocation_pb2.DispatchInvocationRequest(
            name=attempt.name,
            attempt=attempt.attempt,
            epoch=attempt.epoch,
            request_sha256=request_sha256,
            max_calls=calls_max,
        )
        return self._ask("DispatchInvocation", request)

    def respond(self, attempt: Attempt, response: bytes, *, usable: bool, evidence: str = "") -> Attempt:
        """See Invocations."""
        request = invocation_pb2.RespondInvocationRequest(
            name=attempt.name,
            attempt=attempt.attempt,
            outcome="INVOCATION_STATE_RESPONDED",
            response=response,
            response_usable=usable,
            evidence=evidence,
        )
        return self._ask("RespondInvocation", request)

    def fail(self, attempt: Attempt, *, evidence: str) -> Attempt:
        """See Invocations."""
        return self._settle(attempt, "INVOCATION_STATE_FAILED_DEFINITE", evidence)

    def lose(self, attempt: Attempt, *, evidence: str) -> Attempt:
        """See Invocations."""
        return self._settle(attempt, "INVOCATION_STATE_AMBIGUOUS", evidence)

    def complete(self, attempt: Attempt) -> Attempt:
        """See Invocations."""
        request = invocation_pb2.CompleteInvocationRequest(name=attempt.name, attempt=attempt.attempt)
        return self._ask("CompleteInvocation", request)

    def reconcile(self, name: str, *, response: bytes | None, evidence: str) -> Attempt:
        """See Invocations."""
        request = invocation_pb2.ReconcileInvocationRequest(name=name, evidence=evidence)
        if response is None:
            request.not_executed = True
        else:
            request.response = response
        return self._past_the_dead("ReconcileInvocation", request)

    def newest(self, name: str) -> Attempt | None:
        """See Invocations."""
        return self.find(name)

    def find(self, name: str, number: int | None = None) -> Attempt | None:
        """See Invocations."""
        request = invocation_pb2.GetInvocationRequest(name=check_id(name, "name"), attempt=number)
        try:
            return self._ask("GetInvocation", request)
        except NotFound:
            return None

    def _settle(self, attempt: Attempt, outcome: Any, evidence: str) -> Attempt:
        request = invocation_pb2.RespondInvocationRequest(
            name=attempt.name, attempt=attempt.attempt, epoch=attempt.epoch, outcome=outcome, evidence=evidence
        )
        return self._ask("RespondInvocation", request)

    def _past_the_dead(self, method: str, request: Any) -> Attempt:
        try:
            return self._ask(method, request)
        except InvocationInFlight as error:
            holder = str(error.detail.get("holder", ""))
            if not self._gone(holder):
                raise
            request.abandoned_holder = holder
        return self._ask(method, request)

    def _ask(self, method: str, request: Any) -> Attempt:
        return _attempt(self._client.call(method, request).invocation, self._holder())


def _attempt(message: invocation_pb2.Invocation, holder: str) -> Attempt:
    named = invocation_pb2.InvocationState.Name(message.state).removeprefix("INVOCATION_STATE_")
    if named not in State.__members__:
        raise InvalidInput(f"the engine named an unknown invocation state: {named}", field="state")
    state = State[named]
    answered = bool(message.response) or state in REPLAYABLE
    return Attempt(
        name=message.name,
        attempt=message.attempt,
        state=state,
        epoch=message.epoch,
        holder=holder,
        lease_until_ms=0,
        fingerprint=message.fingerprint,
        roles=frozenset(message.roles),
        request_sha256=message.request_sha256,
        retry=message.retry,
        response=message.response if answered else None,
        usable=message.response_usable,
        evidence=message.evidence,
    )
