"""Writing a response back into the record: once an invocation and attempt, whoever does it and however often.

The card is readable by its own principal only, and only with the roles that the call was made with: the response may
repeat what nobody else could read (invariant 7). Whoever wants others to read it observes it.
"""

from __future__ import annotations

from collections.abc import Iterable

from mn.context.working.v1 import artifact_pb2, card_pb2
from mn_contract.errors import ContextError
from mn_contract.invocations import Attempt, State
from mn_sdk.context_session.journal import Invocations
from mn_sdk.context_session.observation import TEXT, Observation
from mn_sdk.context_session.provider import text_of
from mn_sdk.context_session.recording import Recorder, response_id
from mn_sdk.scope import SessionScope


def write_back(
    attempt: Attempt, topics: tuple[str, ...], *, invocations: Invocations, recorder: Recorder, scope: SessionScope
) -> str:
    """Records what the model said, then completes the attempt; idempotent.

    Answers the reason of the error that kept it out of the record, empty where it is in. The response is in the journal
    either way: the caller gets it, and the next turn of this name tries again.
    """
    if attempt.state is State.COMPLETED or attempt.response is None:
        return ""
    try:
        text = text_of(attempt.response)
        if text:
            recorder.record(
                response_id(attempt.name, attempt.attempt), _observation(text, topics, scope.principal, attempt.roles)
            )
        invocations.complete(attempt)
    except ContextError as error:
        import logging

        logging.getLogger("mn_sdk.context_session").warning(
            "write-back of %s/%d is outstanding: %s", attempt.name, attempt.attempt, error.reason
        )
        return error.reason
    return ""


def _observation(text: str, topics: tuple[str, ...], principal: str, roles: Iterable[str]) -> Observation:
    acl = artifact_pb2.Acl(allow_principals=[principal], require_roles=sorted(roles))
    card = card_pb2.Card(kind=card_pb2.CARD_KIND_DECISION, topics=topics, acl=acl)
    return Observation(data=text.encode("utf-8"), media_type=TEXT, card=card, acl=acl)
