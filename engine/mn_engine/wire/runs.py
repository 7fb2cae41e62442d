"""Runs and invocations between protobuf and the domain."""

from __future__ import annotations

from mn.context.working.v1 import invocation_pb2, run_pb2
from mn_contract.errors import InvalidInput
from mn_contract.invocations import Attempt, State
from mn_engine.domain.runs import Run, RunState, Tombstone
from mn_engine.wire.scalars import encode_time


def encode_run(run: Run) -> run_pb2.Run:
    """A run's head; of a cleared one ids and state only."""
    message = run_pb2.Run(job_id=run.job_id, run_id=run.run_id, state=f"RUN_STATE_{run.state.name}")
    if run.state is not RunState.CLEARED:
        message.revision = run.revision
        message.stored_bytes = run.stored_bytes
        message.max_stored_bytes = run.max_stored_bytes or 0
        message.reason = run.reason
        message.opened_at.CopyFrom(encode_time(run.opened_at))
    return message


def encode_tombstone(tombstone: Tombstone) -> run_pb2.Tombstone:
    """What stays of a cleared run."""
    return run_pb2.Tombstone(
        revision=tombstone.revision,
        root_sha256=tombstone.root,
        cleared_at=encode_time(tombstone.cleared_at),
        removal=f"REMOVAL_{tombstone.removal.name}",
    )


def decode_state(number: int, field: str) -> State:
    """The state with this number: the enums have the same names. Raises InvalidInput."""
    try:
        return State[invocation_pb2.InvocationState.Name(number).removeprefix("INVOCATION_STATE_")]
    except (ValueError, KeyError) as error:
        raise InvalidInput(f"{field} is no invocation state: {number}", field=field) from error


def encode_attempt(attempt: Attempt) -> invocation_pb2.Invocation:
    """An attempt as its principal sees it."""
    return invocation_pb2.Invocation(
        name=attempt.name,
        attempt=attempt.attempt,
        state=f"INVOCATION_STATE_{attempt.state.name}",
        fingerprint=attempt.fingerprint,
        epoch=attempt.epoch,
        response=attempt.response or b"",
        response_usable=attempt.usable and attempt.response is not None,
        retry=attempt.retry,
        evidence=attempt.evidence,
        request_sha256=attempt.request_sha256,
        roles=sorted(attempt.roles),
    )
