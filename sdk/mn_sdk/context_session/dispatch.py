"""One logical call, dispatched at most once: claimed, admitted, DISPATCHED, sent, answered, written back.

`prepare` does everything up to the moment before the request leaves, `settle` everything after the answer; what stands
between them is the caller's: one send, synchronous or not. What may happen is decided by `mn_contract.invocations`,
what became of the send by `outcome`; each state is durable before the next step (invariant 10).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

from mn.context.working.v1 import packet_pb2
from mn_contract.canonical import digest
from mn_contract.errors import ContextError, NeedsPartition, UnusableResponse
from mn_contract.invocations import REPLAYABLE, Attempt, ambiguous
from mn_contract.limits import LEASE_MS_MAX, RESPONSE_BYTES_MAX
from mn_sdk.client import WorkingMemoryClient
from mn_sdk.context_session import explaining, provider, seen
from mn_sdk.context_session.admit import Admission, Admitted, no_packet
from mn_sdk.context_session.assemble import Form, read_form
from mn_sdk.context_session.call import ModelCall
from mn_sdk.context_session.capacity import Capacity, capacity_of
from mn_sdk.context_session.closing import Closing
from mn_sdk.context_session.counting import Counting
from mn_sdk.context_session.decision import Turning
from mn_sdk.context_session.documents import coverage_document
from mn_sdk.context_session.histories import check_for
from mn_sdk.context_session.journal import Journal
from mn_sdk.context_session.journal.notes import Note
from mn_sdk.context_session.leaving import Leaving
from mn_sdk.context_session.lifetime import Lifetime
from mn_sdk.context_session.outcome import Answered, NotExecuted, Outcome, Unusable, size_of
from mn_sdk.context_session.policy import ContextPolicy
from mn_sdk.context_session.recording import Recorder
from mn_sdk.context_session.report import TurnReport
from mn_sdk.context_session.verify import verify
from mn_sdk.context_session.writeback import write_back
from mn_sdk.scope import SessionScope
from mn_tokens import fills_output

_LEASE_SLACK_SECONDS: Final = 60.0
"""Beside the send itself: admission before it, the journal after it."""
_TRIES_MAX: Final = 3
"""How often a request is made smaller until what litellm adds fits beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A request that is admitted and durably DISPATCHED: now it may leave, once."""

    attempt: Attempt
    arguments: Mapping[str, Any]
    turning: Turning
    leaving: Leaving
    report: TurnReport
    call: ModelCall
    """As it was asked for."""
    rotation: int | None
    """Where the turn's rotation stood."""
    tries: int
    """How often it was made smaller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A response, and what the turn did."""

    response: Any
    report: TurnReport
    replayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatcher:
    """Dispatches the calls of one session."""

    client: WorkingMemoryClient
    journal: Journal
    recorder: Recorder
    policy: ContextPolicy
    lifetime: Lifetime
    counting: Counting
    scope: SessionScope
    closing: Closing
    fills: Callable[[str], bool] = fills_output
    """See Admission."""

    def prepare(self, turning: Turning, call: ModelCall) -> Ready | Settled:
        """A request that may leave now, or the stored response of an earlier one. Nothing has left when this raises."""
        self.lifetime.check()
        form = _form(turning, call)
        attempt = self._begin(turning, call)
        if attempt.state in REPLAYABLE:
            return self._replayed(attempt, turning)
        try:
            rotation = self.journal.cursor(turning.rotation) if turning.rotation else None
            return self._dispatched(attempt, turning, call, self._fitted(turning, call, form, rotation), rotation)
        except BaseException as error:
            self._release(attempt, error)
            raise

    def smaller(self, ready: Ready, outcome: Outcome) -> Ready | Settled | None:
        """The call with fewer records in it, ready to leave in the place of one that did not leave because what
        litellm adds to it did not fit; None where `outcome` is to be settled as it is. What is added is known only
        then: by the provider's own request (see `leaving`)."""
        if not (isinstance(outcome, NotExecuted) and ready.leaving.outgrown and ready.tries < _TRIES_MAX):
            return None
        turning, call, rotation = ready.turning, ready.call, ready.rotation
        reserved = self.counting.added(call.asked)
        try:
            fitted = self._admit(turning, call, _form(turning, call), rotation, reserved=reserved)
        except NeedsPartition:
            return None
        except BaseException as error:
            self._release(ready.attempt, error)
            raise
        self.journal.invocations.fail(ready.attempt, evidence=outcome.evidence)
        attempt = self._begin(turning, call)
        if attempt.state in REPLAYABLE:
            return self._replayed(attempt, turning)
        try:
            return self._dispatched(attempt, turning, call, fitted, rotation, tries=ready.tries + 1)
        except BaseException as error:
            self._release(attempt, error)
            raise

    def _begin(self, turning: Turning, call: ModelCall) -> Attempt:
        return self.journal.invocations.begin(
            turning.name,
            fingerprint=self._fingerprint(turning, call),
            lease_ms=min(int((call.timeout_seconds + _LEASE_SLACK_SECONDS) * 1000), LEASE_MS_MAX),
            retry=turning.retry,
        )

    def _dispatched(
        self,
        attempt: Attempt,
        turning: Turning,
        call: ModelCall,
        fitted: tuple[Admitted, list[Note], int],
        rotation: int | None,
        *,
        tries: int = 0,
    ) -> Ready:
        """Makes it durable that the call leaves, with all that is to be known of it."""
        admitted, packet_notes, verified = fitted
        sha256 = digest(admitted.call.encoded())
        report = _report(turning, attempt, admitted, verified, self.policy, request_sha256=sha256)
        kept = [seen.request_note(admitted.call.asked, sha256), seen.report_note(attempt, report)]
        self.journal.notes.put_all([*packet_notes, *kept])
        self.lifetime.check()
        self.closing.check()
        attempt = self.journal.invocations.dispatch(
            attempt, request_sha256=report.request_sha256, calls_max=self._calls_max(turning)
        )
        if turning.rotation:
            self.journal.cursor(turning.rotation, report.next_rotation)
        timeout = self.lifetime.remaining(call.timeout_seconds)
        return Ready(
            attempt=attempt,
            arguments=admitted.call.arguments(timeout=timeout),
            turning=turning,
            leaving=Leaving(
                asked=admitted.call.asked,
                model=admitted.call.model,
                count=admitted.count,
                input_budget=admitted.input_budget,
                counting=self.counting,
            ),
            report=report,
            call=call,
            rotation=rotation,
            tries=tries,
        )

    def settle(self, ready: Ready, outcome: Outcome) -> Settled:
        """Makes the outcome durable, then answers or raises it."""
        if not isinstance(outcome, Answered) or len(outcome.stored) > RESPONSE_BYTES_MAX:
            self._failed(ready.attempt, outcome)
        attempt = self.journal.invocations.respond(ready.attempt, outcome.stored, usable=True)
        count = ready.leaving.count
        report = self._answered(ready.report.counted(count), attempt, ready.turning)
        report = replace(report, drift=self.counting.observed(count, report.model, report.usage))
        if report.drift or report.tokens != ready.report.tokens:
            self.journal.notes.put_all([seen.report_note(attempt, report)])
        self.lifetime.check()
        return Settled(response=outcome.response, report=report, replayed=False)

    def withdraw(self, step: Ready | Settled) -> None:
        """Gives up a request that was prepared and never sent."""
        if isinstance(step, Ready):
            self.journal.invocations.fail(step.attempt, evidence="withdrawn before it was sent")

    def _failed(self, attempt: Attempt, outcome: Outcome) -> NoReturn:
        invocations = self.journal.invocations
        if isinstance(outcome, NotExecuted):
            invocations.fail(attempt, evidence=outcome.evidence)
            raise outcome.error
        if isinstance(outcome, Answered):
            stored = invocations.respond(attempt, size_of(outcome.stored), usable=False)
            raise _unusable(stored, response=json.loads(outcome.stored))
        if isinstance(outcome, Unusable):
            body = outcome.body if len(outcome.body) <= RESPONSE_BYTES_MAX else size_of(outcome.body)
            raise _unusable(invocations.respond(attempt, body, usable=False)) from outcome.error
        lost = invocations.lose(attempt, evidence=outcome.evidence)
        if not isinstance(outcome.error, Exception):
            raise outcome.error from ambiguous(lost)  # an interrupt goes on its way, and says what it leaves behind
        raise ambiguous(lost) from outcome.error

    def _replayed(self, attempt: Attempt, turning: Turning) -> Settled:
        if not attempt.usable or attempt.response is None:
            raise _unusable(attempt)
        response = provider.restore(attempt.response)
        report = seen.report_of(self.journal.notes, attempt)
        return Settled(response=response, report=self._answered(report, attempt, turning), replayed=True)

    def _answered(self, report: TurnReport, attempt: Attempt, turning: Turning) -> TurnReport:
        """The report of an attempt whose response is durable, written back here where the turn wants it."""
        outstanding = ""
        if turning.write_back:
            outstanding = write_back(
                attempt,
                turning.topics,
                invocations=self.journal.invocations,
                recorder=self.recorder,
                scope=self.scope,
            )
        return report.answered(usage=provider.usage_of(attempt.response or b"{}"), written_back=outstanding)

    def _fingerprint(self, turning: Turning, call: ModelCall) -> str:
        """What a replay must be the same in. Roles are not in it: the journal finds a call for whoever bears those that
        it was made with."""
        return digest({"request": digest(call.encoded()), "decision": turning.identity()})

    def capacity(self, turning: Turning, call: ModelCall) -> Capacity:
        """What fits of a call, as it would be admitted now; nothing is claimed or sent."""
        rotation = self.journal.cursor(turning.rotation) if turning.rotation else None
        return capacity_of(self._admission(turning, call, _form(turning, call), rotation, {}))

    def _fitted(
        self, turning: Turning, call: ModelCall, form: Form, rotation: int | None
    ) -> tuple[Admitted, list[Note], int]:
        """As `_admit`, with room for what litellm is known to add, which is taken from records alone: what does not fit
        beside that is tried without, for of another request it may be less."""
        reserved = self.counting.added(call.asked)
        try:
            return self._admit(turning, call, form, rotation, reserved=reserved)
        except NeedsPartition:
            if not reserved:
                raise
            return self._admit(turning, call, form, rotation, reserved=0)

    def _admit(
        self, turning: Turning, call: ModelCall, form: Form, rotation: int | None, *, reserved: int
    ) -> tuple[Admitted, list[Note], int]:
        """The call that fits, notes of what its packet was built from, and how many source ranges of it were checked:
        all of them, once it is known."""
        asked: dict[str, packet_pb2.CompileRequest] = {}
        admitted = self._admission(turning, call, form, rotation, asked, reserved=reserved).admit()
        packet = admitted.packet
        notes = [explaining.note(packet, asked[packet.digest], self.scope.roles)] if turning.recall else []
        return admitted, notes, verify(self.client, [item.card for item in packet.items])

    def _admission(
        self,
        turning: Turning,
        call: ModelCall,
        form: Form,
        rotation: int | None,
        asked: dict[str, packet_pb2.CompileRequest],
        *,
        reserved: int = 0,
    ) -> Admission:
        """The admission of a call; `asked` gets the request of each packet, by its digest."""
        self.counting.refresh()
        required = tuple(card for ref in turning.required_refs for card in self.recorder.cards_of(ref))

        def compile_packet(budget_bytes: int, *, named: bool = True) -> packet_pb2.Packet:
            self.lifetime.check()
            request = packet_pb2.CompileRequest(
                decision=turning.message(required if named else ()),
                budget_bytes=budget_bytes,
                counter_evidence_share=self.policy.counter_evidence_share,
                supporting_evidence_share=self.policy.supporting_evidence_share,
                rotation=rotation,
            )
            packet = self.client.compile(request)
            asked[packet.digest] = request
            return packet

        return Admission(
            policy=self.policy,
            call=call,
            form=form,
            compile=compile_packet if turning.recall else no_packet,
            counter=self.counting.count,
            reserved=reserved,
            fills=self.fills,
        )

    def _calls_max(self, turning: Turning) -> int | None:
        if self.policy.max_calls is None:
            return None
        return max(self.policy.max_calls - (0 if turning.final else self.policy.final_call_reserve), 0)

    def _release(self, attempt: Attempt, error: BaseException) -> None:
        """Gives up a claim before anything was sent. Where even that fails, the claim runs out by itself."""
        reason = error.reason if isinstance(error, ContextError) else type(error).__name__
        try:
            self.journal.invocations.fail(attempt, evidence=f"not sent: {reason}")
        except ContextError as failed:
            error.add_note(f"the claim on {attempt.name!r} could not be given up: {failed.reason}")


def _report(
    turning: Turning,
    attempt: Attempt,
    admitted: Admitted,
    verified: int,
    policy: ContextPolicy,
    *,
    request_sha256: str,
) -> TurnReport:
    packet = admitted.packet
    return TurnReport(
        name=turning.name,
        attempt=attempt.attempt,
        model=admitted.call.model,
        request_sha256=request_sha256,
        window=policy.window_of(admitted.call.model),
        input_budget=admitted.input_budget,
        left_out_of_current=admitted.left_out,
        revision=packet.revision,
        packet_digest=packet.digest,
        packet_bytes=packet.size_bytes,
        items=tuple(
            {
                "id": item.card.ref,
                "role": packet_pb2.ItemRole.Name(item.role).removeprefix("ITEM_ROLE_").lower(),
                "bytes": item.size_bytes,
                "rank": item.why.rank,
                "retrievers": list(item.why.retrievers),
            }
            for item in packet.items
        ),
        coverage=coverage_document(packet.coverage),
        more=bool(packet.cursor),
        next_rotation=packet.next_rotation,
        selector=packet.selector,
        ranges_verified=verified,
        rounds=admitted.rounds,
    ).counted(admitted.count)


def _form(turning: Turning, call: ModelCall) -> Form:
    """Raises InvalidInput where the model's provider would not take the history."""
    check_for(call.model, call.asked)
    messages = call.asked["messages"]
    return read_form(messages, turning.required_fields) if turning.recall else Form(history=messages)


def _unusable(attempt: Attempt, **detail: Any) -> UnusableResponse:
    return UnusableResponse(
        f"call {attempt.name!r} (attempt {attempt.attempt}) was answered and perhaps billed, and its response cannot "
        f"be used; it is stored as it came, or its size and hash where it is larger than {RESPONSE_BYTES_MAX} bytes. "
        "Call again under another name",
        name=attempt.name,
        attempt=attempt.attempt,
        bytes=len(attempt.response or b""),
        sha256=digest(attempt.response or b""),
        **detail,
    )
