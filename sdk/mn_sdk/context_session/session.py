"""ContextSession: a run's record, and model calls built from it, for one principal.

The session binds the scope; everything else is done by the parts that it puts together here, once. With MN_CONTEXT_ADDR
set the record and the journal are the engine's; else both lie under `root`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mn.context.working.v1 import card_pb2, run_pb2
from mn_contract.errors import IdempotencyConflict, InvalidInput, NotFound
from mn_contract.invocations import REPLAYABLE, Attempt, State, check_evidence
from mn_contract.limits import (
    ATTEMPT_MAX,
    CARD_LIST_MAX,
    CARD_SUMMARY_BYTES_MAX,
    REASON_BYTES_MAX,
    SOURCE_URL_BYTES_MAX,
)
from mn_contract.names import SUMMARY_MEDIA_TYPE, check_id, check_label, check_text, parse_ref, read_names
from mn_sdk.arguments import read_flag, read_folder, read_number, read_text, read_time, read_whole
from mn_sdk.client import ArtifactRef, WorkingMemoryClient, runtime_client
from mn_sdk.context_session.closing import Closing
from mn_sdk.context_session.journal import Journal, open_journal
from mn_sdk.context_session.journal.rows import Clearing
from mn_sdk.context_session.lifetime import Lifetime
from mn_sdk.context_session.observation import (
    Observation,
    read_acl,
    read_claims,
    read_event_id,
    read_kind,
    read_record,
    read_refs,
    read_relations,
    read_sources,
    read_stance,
)
from mn_sdk.context_session.policy import ContextPolicy
from mn_sdk.context_session.recording import Recorder
from mn_sdk.environment import engine_address
from mn_sdk.scope import SessionScope

if TYPE_CHECKING:
    # What a model call takes is loaded by the first turn: importing the session stays cheap.
    from mn_sdk.context_session.capacity import Capacity
    from mn_sdk.context_session.dispatch import Dispatcher
    from mn_sdk.context_session.receipt import Receipt
    from mn_sdk.context_session.seen import Seen
    from mn_sdk.context_session.turn import Turn
    from mn_sdk.facts import Facts
    from mn_sdk.memories import Memories
    from mn_sdk.working_set import WorkingSet


def _never() -> bool:
    return False


class ContextSession:
    """A run's record and its model calls, for one principal. Thread-safe; a turn belongs to one thread.

    `root` is the run's own folder. `cancelled` is asked around every step; `deadline` is in epoch seconds, and nothing
    is waited for beyond it, but two seconds for the journal to take what became of a call. Raises InvalidInput,
    DependencyUnavailable (an engine that is named and cannot be reached), RecordInUse (another process has the record
    under `root`), RunClosed (the run was cleared; what `root` held of its calls is erased then), ContextBudgetExceeded
    (the deadline has passed).
    """

    def __init__(
        self,
        root: str | Path,
        *,
        job_id: str,
        run_id: str,
        principal: str,
        roles: Iterable[str] = (),
        policy: ContextPolicy | None = None,
        cancelled: Callable[[], bool] = _never,
        deadline: float | None = None,
    ) -> None:
        folder = read_folder(root, "root")
        scope = SessionScope(job_id=job_id, run_id=run_id, principal=principal, roles=roles)
        self.policy = _policy(policy)
        self._lifetime = _lifetime(cancelled, deadline, self.policy.deadline_seconds)
        self._lifetime.check()
        self._clearing = Clearing(folder, scope)
        self._client: WorkingMemoryClient = runtime_client(
            job_id,
            run_id,
            principal,
            roles=tuple(scope.roles),
            root=folder,
            deadline=self._lifetime.deadline,
            on_closed=self._clearing.learn,
        )
        try:
            self._client.open_run(max_stored_bytes=self.policy.max_storage_bytes)
            self._recorder = Recorder(self._client)
            embedded = engine_address() is None
            self.journal: Journal = open_journal(
                folder,
                scope,
                None if embedded else self._client,
                state=(lambda: self._client.run().state) if embedded else None,
                clearing=self._clearing,
                patience=self._lifetime.remaining,
                check_new=self._recorder.check_unanswered,
            )
        except BaseException:
            self._client.close()
            raise
        self._scope = scope
        self._closing = Closing(self._let_go)

    def put_artifact(
        self, data_or_path: bytes | bytearray | str | Path, media_type: str = "text/plain", *, acl: Any = None
    ) -> ArtifactRef:
        """Stores bytes, a text (as UTF-8) or the bytes of a file (a Path); answers what `observe` takes as a source."""
        self._lifetime.check()
        with self._closing.under_way():
            return self._client.put_artifact(data_or_path, media_type=media_type, acl=read_acl(acl))

    def observe(
        self,
        record: Any,
        *,
        event_id: str,
        topics: Iterable[str] = (),
        obligation: bool = False,
        kind: str = "observation",
        sources: Iterable[Any] = (),
        claims: Mapping[str, str] | None = None,
        claim: str | None = None,
        stance: str | None = None,
        supersedes: Iterable[str] = (),
        contradicts: Iterable[str] = (),
        resolves: Iterable[str] = (),
        relations: Iterable[tuple[str, str]] = (),
        entities: Iterable[str] = (),
        acl: Any = None,
        valid_from: Any = None,
        valid_until: Any = None,
        occurred_at: Any = None,
        confidence: float | None = None,
        summary: str | None = None,
        source_url: str | None = None,
    ) -> tuple[str, ...]:
        """Records a text, UTF-8 bytes or a JSON value durably, under the caller's name; answers its cards' references.

        The same again changes nothing; something else under the same `event_id` is IdempotencyConflict. A record larger
        than a card becomes several, and its name stands for all of them. `sources` are (artifact, start, end): what the
        record cites; none means itself. `claim` and `stance` are short for `claims={claim: stance}`.
        """
        self._lifetime.check()
        data, media_type = read_record(record)
        readers = read_acl(acl)
        card = card_pb2.Card(
            kind=read_kind(kind, obligation=obligation),
            topics=read_names(topics, "topics", check_label, CARD_LIST_MAX),
            entities=read_names(entities, "entities", check_label, CARD_LIST_MAX),
            stance=read_stance(None if claim is not None else stance, "stance"),
            claims=read_claims(claims, claim, stance),
            sources=read_sources(sources),
            confidence=None if confidence is None else read_number(confidence, "confidence", 0, 1),
            source_url=read_text(source_url, "source_url", SOURCE_URL_BYTES_MAX),
            acl=readers,
            valid_from=read_time(valid_from, "valid_from"),
            valid_until=read_time(valid_until, "valid_until"),
            occurred_at=read_time(occurred_at, "occurred_at"),
        )
        observation = Observation(
            data=data,
            media_type=SUMMARY_MEDIA_TYPE if card.kind == card_pb2.CARD_KIND_SUMMARY else media_type,
            card=card,
            summary=read_text(summary, "summary", CARD_SUMMARY_BYTES_MAX),
            ending=(
                *(("supersedes", ref) for ref in read_refs(supersedes, "supersedes")),
                *(("resolves", ref) for ref in read_refs(resolves, "resolves")),
            ),
            linking=(
                *(("contradicts", ref) for ref in read_refs(contradicts, "contradicts")),
                *read_relations(relations),
            ),
            acl=readers,
        )
        with self._closing.under_way():
            return self._recorder.record(read_event_id(event_id), observation)

    def turn(
        self,
        name: str,
        *,
        focus: str = "",
        required_fields: Iterable[str] | None = None,
        final: bool = False,
        required_refs: Iterable[str] = (),
        topics: Iterable[str] = (),
        claims: Iterable[str] = (),
        retry: str | None = None,
        rotation: str | None = None,
        as_of: Any = None,
    ) -> Turn:
        """The span in which one model call, made through litellm, is managed: `with session.turn(...) as turn`.

        `required_fields` are the keys of the user message's object that stay exact; None protects all of them. `retry`
        names the explicit retry of a call whose outcome is unknown. `rotation` names a durable cursor: a tenth of the
        optional room then goes to relevant records that would not be shown, and turns that share the cursor go on from
        each other. `as_of`, a time with its zone, recalls what held then; without it records say themselves from when
        and until when they hold.
        """
        from mn_sdk.context_session.decision import read_turning
        from mn_sdk.context_session.turn import Turn

        turning = read_turning(
            name,
            focus=focus,
            required_fields=required_fields,
            final=final,
            required_refs=required_refs,
            topics=topics,
            claims=claims,
            retry=retry,
            rotation=rotation,
            as_of=as_of,
        )
        return Turn(self.dispatcher, turning)

    def complete(self, name: str, *, model: str, messages: Sequence[Any], **arguments: Any) -> Any:
        """One managed call without an ambient turn; arguments of `turn` and of litellm.completion side by side."""
        turn, sent = self._completing(name, arguments)
        return turn.call({"model": model, "messages": messages, **sent})

    async def acomplete(self, name: str, *, model: str, messages: Sequence[Any], **arguments: Any) -> Any:
        """As `complete`, without blocking the loop."""
        turn, sent = self._completing(name, arguments)
        return await turn.acall({"model": model, "messages": messages, **sent})

    def capacity(
        self,
        request: Mapping[str, Any],
        *,
        focus: str = "",
        required_fields: Iterable[str] | None = None,
        required_refs: Iterable[str] = (),
        topics: Iterable[str] = (),
        claims: Iterable[str] = (),
        as_of: Any = None,
    ) -> Capacity:
        """Whether a call would fit, and what room it leaves, before anything is submitted. `request` has the arguments
        of litellm.completion, the rest is a turn's. Raises InvalidInput."""
        from mn_sdk.context_session.decision import read_turning
        from mn_sdk.context_session.turn import read_arguments

        self._lifetime.check()
        turning = read_turning(
            "capacity",
            focus=focus,
            required_fields=required_fields,
            final=False,
            required_refs=required_refs,
            topics=topics,
            claims=claims,
            retry=None,
            rotation=None,
            as_of=as_of,
        )
        with self._closing.under_way():
            return self.dispatcher.capacity(turning, read_arguments(request))

    def forget_drift(self, model: str) -> None:
        """Forgets what was learned of a model from what it billed: its margin is again as wide as it was at first.
        Raises InvalidInput."""
        with self._closing.under_way():
            self.dispatcher.counting.forget(model)

    def reconcile(
        self,
        name: str,
        *,
        response: Any = None,
        not_executed: bool = False,
        evidence: str = "",
        attempt: int | None = None,
    ) -> Attempt:
        """Settles a call whose outcome was unknown: with the response that was found, or as not executed.

        A response is litellm's object, the JSON of a chat completion, or the answer's text. `evidence` says what the
        settlement rests on. `attempt` is the number of one that a retry has replaced: what comes late for it stays with
        it, and is replayed to nobody. Raises InvalidInput, NotFound, InvocationInFlight, IdempotencyConflict.
        """
        check_id(name, "name")
        number = None if attempt is None else read_whole(attempt, "attempt", 1, ATTEMPT_MAX)
        if read_flag(not_executed, "not_executed") == (response is not None):
            raise InvalidInput("give a response, or say not_executed=True", field="response")
        check_evidence(evidence)
        from mn_sdk.context_session.provider import stored_form

        stored = None if not_executed else stored_form(response)
        with self._closing.under_way():
            found = None if number is None else self.journal.invocations.find(name, number)
            if found is not None and found.state is State.SUPERSEDED:
                if stored is not None:
                    return self.journal.invocations.respond(found, stored, usable=True, evidence=evidence)
                raise IdempotencyConflict(
                    f"a retry has replaced attempt {number} of call {name!r}: it stays one that may have been billed, "
                    "and only a response can still be given to it",
                    key=name,
                )
            newest = self.journal.invocations.newest(name)
            if number is not None and (newest is None or newest.attempt != number):
                raise NotFound("there is no attempt of this number that a response can still be given to")
            return self.journal.invocations.reconcile(name, response=stored, evidence=evidence)

    def attempts(self, name: str) -> tuple[Attempt, ...]:
        """Every attempt of a call, the first one first. Those may have been billed whose state is in
        `mn_contract.invocations.MAY_BE_BILLED`."""
        check_id(name, "name")
        with self._closing.under_way():
            newest = self.journal.invocations.newest(name)
            numbers = range(1, 1 if newest is None else newest.attempt + 1)
            found = (self.journal.invocations.find(name, number) for number in numbers)
            return tuple(attempt for attempt in found if attempt is not None)

    def has_durable_response(self, name: str) -> bool:
        """Whether a turn of this name would be answered from the journal."""
        check_id(name, "name")
        with self._closing.under_way():
            newest = self.journal.invocations.newest(name)
        return newest is not None and newest.state in REPLAYABLE

    def seen(self, name: str, attempt: int | None = None) -> Seen:
        """What the model saw in a turn, exactly: the complete request, the report and the response of its newest
        attempt, or of the one of this number. Raises NotFound, SourceMismatch."""
        check_id(name, "name")
        number = None if attempt is None else read_whole(attempt, "attempt", 1, ATTEMPT_MAX)
        from mn_sdk.context_session.seen import seen

        with self._closing.under_way():
            found = self.journal.invocations.find(name, number)
            if found is None:
                raise NotFound("there is no such call, or no such attempt of it")
            return seen(self.journal.notes, found)

    def receipt(self, name: str) -> Receipt:
        """What became of the newest call of this name: its state, its usage (reported or estimated), its report.

        Raises NotFound.
        """
        check_id(name, "name")
        from mn_sdk.context_session.receipt import receipt_of

        with self._closing.under_way():
            return receipt_of(self.journal, name)

    def memory_action(self, action: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """`recall_memory` or `read_memory`, as a model asks for it: read-only and bounded. Raises InvalidInput."""
        self._lifetime.check()
        from mn_sdk.context_session.memory import Memory

        with self._closing.under_way():
            answer = Memory(self._client, self._recorder, self.journal.notes).act(action, arguments)
        self._lifetime.check()
        return answer

    def envelope(self, task: str = "", **arguments: Any) -> Any:
        """A pack for `task` as an SMP envelope. Arguments are those of the tool get_context: `model`, `token_budget`,
        `session_id`, `items` ("new": content only of what the session does not have), `pin`, `pinned`, `topics`,
        `claims`, `entities`, `required`, `as_of`, `counter_share`, `cursor`, and `format` ("json", "markdown").

        Raises InvalidInput, NeedsPartition, NotFound for a required memory that is not there.
        """
        return self._asked(lambda memories: memories.context(task=task or None, **arguments))

    def query_memory(self, **arguments: Any) -> dict[str, Any]:
        """A page of what a query finds; arguments are those of the tool query_memory: `ask` or `find`, `layers`,
        `entities`, `as_of`, `valid_only`, `min_relevance`, `min_trust`, `budget_tokens`, `model`, `expand`, `k`,
        `cursor`. Raises InvalidInput."""
        answer: dict[str, Any] = self._asked(lambda memories: memories.query(**arguments))
        return answer

    def expand(self, ref: str, direction: str = "document", *, cursor: str | None = None) -> dict[str, Any]:
        """One step on from a reference: `document`, `neighbors`, or `more` of a query; empty where there is nothing.
        Raises InvalidInput."""
        answer: dict[str, Any] = self._asked(lambda memories: memories.expand(ref, direction, cursor=cursor))
        return answer

    @property
    def facts(self) -> Facts:
        """The run's fact graph: episodes, facts and the times at which they hold, and proof of what was recorded."""
        from mn_sdk.facts import Facts

        return Facts(self._called)

    def working_set(self, session_id: str, **arguments: Any) -> WorkingSet:
        """The working set of a conversation, from its beginning; `arguments` go with each of its calls."""
        from mn_sdk.working_set import WorkingSet

        return WorkingSet(self.envelope, session_id, **arguments)

    def _asked(self, ask: Callable[[Memories], Any]) -> Any:
        from mn_sdk.memories import Memories

        return ask(Memories(self._called))

    def _called(self, operation: str, request: Any) -> Any:
        """An operation of the engine's, within the session's lifetime."""
        self._lifetime.check()
        with self._closing.under_way():
            answer = self._client.call(operation, request)
        self._lifetime.check()
        return answer

    def explain(self, packet_digest: str, card_id: str) -> dict[str, Any]:
        """Why a card is in a turn's packet (`report.packet_digest`), or why it is not: `selected`, its `role` or the
        `reason`, how it was found and ranked, what its score is made of, what it takes, and the `quotas`.

        The packet is built again at its revision. Raises NotFound for an unknown packet and for a card that is absent
        or hidden, InvalidInput, also for a record of several cards, NeedsPartition where the asker's roles now require
        more than the packet holds.
        """
        self._lifetime.check()
        parse_ref(card_id, "card_id")
        from mn_sdk.context_session.explaining import explain

        with self._closing.under_way():
            return explain(
                self._client, self.journal.notes, packet_digest, self._recorder.cards_of(card_id), self._scope.roles
            )

    def clear(self, reason: str) -> run_pb2.Tombstone:
        """Clears the run, for all its principals: nothing of it is answered from then on, and what `root` holds of its
        calls is erased. Answers what stays, which says whether the record still has to be compacted. Idempotent.

        `reason` is for people, and is kept. Raises InvalidInput, DependencyUnavailable, StorageFull.
        """
        check_text(reason, "reason", REASON_BYTES_MAX)
        with self._closing.under_way():
            tombstone = self._client.clear_run(reason)
            self._clearing.erase()
        return tombstone

    def close(self) -> None:
        """Lets go of the record and the journal, at once or when what is under way has ended; nothing new begins. A
        call that is out is journaled and written back first, one that is not sent yet is given up. Idempotent."""
        self._closing.close()

    def __enter__(self) -> ContextSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _let_go(self) -> None:
        self.journal.close()
        self._client.close()

    @functools.cached_property
    def dispatcher(self) -> Dispatcher:
        """What dispatches the session's calls; for what sends them by other means than a turn."""
        from mn_sdk.context_session.counting import counting
        from mn_sdk.context_session.dispatch import Dispatcher

        return Dispatcher(
            client=self._client,
            journal=self.journal,
            recorder=self._recorder,
            policy=self.policy,
            lifetime=self._lifetime,
            counting=counting(self.journal.notes, self._scope, self._lifetime),
            scope=self._scope,
            closing=self._closing,
        )

    def _completing(self, name: str, arguments: Mapping[str, Any]) -> tuple[Turn, dict[str, Any]]:
        turning = {key: value for key, value in arguments.items() if key in _TURN_ARGUMENTS}
        return self.turn(name, **turning), {k: v for k, v in arguments.items() if k not in _TURN_ARGUMENTS}


_TURN_ARGUMENTS = frozenset(
    {"focus", "required_fields", "final", "required_refs", "topics", "claims", "retry", "rotation", "as_of"}
)


def _policy(policy: ContextPolicy | None) -> ContextPolicy:
    if policy is not None and not isinstance(policy, ContextPolicy):
        raise InvalidInput("policy must be a ContextPolicy: write ContextPolicy(**policy)", field="policy")
    return ContextPolicy() if policy is None else policy


def _lifetime(cancelled: Callable[[], bool], deadline: float | None, seconds: float | None) -> Lifetime:
    """Ends at the caller's deadline, or `seconds` from now, whichever comes first."""
    if not callable(cancelled):
        raise InvalidInput("cancelled must be a function that says whether to stop", field="cancelled")
    given = [] if deadline is None else [read_number(deadline, "deadline")]
    if seconds is not None:
        given.append(time.time() + seconds)
    return Lifetime(cancelled=cancelled, deadline=min(given, default=None), clock=time.time)
