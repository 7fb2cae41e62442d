"""One request for a run while the proxy has it: prepared as in a session, sent by the proxy, settled as in a session.

The proxy's hooks are told of one request in several places, and of some only by its data; `Calls` finds the request
again by a token that is put there. What became of it is judged by what was seen at the HTTP client (see `wiretap`).
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from time import monotonic, time
from typing import Any, Final

from mn_contract.errors import ContextError, UnmanagedCall
from mn_sdk.context_session import ContextSession, provider
from mn_sdk.context_session.call import ModelCall
from mn_sdk.context_session.dispatch import Dispatcher, Ready, Settled
from mn_sdk.context_session.journal.holder import going_on, work
from mn_sdk.context_session.lifetime import Lifetime
from mn_sdk.context_session.outcome import Outcome, Unknown, judge
from mn_sdk.context_session.wiretap import Exchange, watch
from mn_sdk.litellm_context.models import Target, most, narrowest
from mn_sdk.litellm_context.scopes import Wish
from mn_tokens import fills_output
from mn_tokens.reading.json_values import plain_json

_SLACK_SECONDS: Final = 60.0
"""Beside the call's own time limit: what the proxy does before and after it."""
LEFT: Final = "the reader left before the end"
SILENT: Final = "the proxy did not say what became of it"
"""Why nobody knows."""
TOLD: Final = ("invocation", "attempt", "tokens", "packet", "replayed")
"""What clients are told of a call, by headers."""
UNEXECUTED: Final = "unexecuted"
"""Set beside it where a call has failed and nothing was executed: it may be sent again."""


@dataclass(slots=True, kw_only=True)
class Call:
    """A request that may leave now (`step` is Ready), or is answered already. `held` is held until it is settled.

    `stream` is litellm's stream, which keeps what the provider has really sent: its end and its usage are made up in
    what a client gets.
    """

    dispatcher: Dispatcher
    step: Ready | Settled
    exchange: Exchange
    held: ExitStack
    until: float
    """When the proxy should have said what became of it, by the monotonic clock."""
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    sent: bool = False
    asked_usage: bool = False
    stream: Any = None

    @property
    def replayed(self) -> Settled | None:
        """The stored answer, where there is one."""
        return self.step if isinstance(self.step, Settled) else None

    def arguments(self) -> Mapping[str, Any]:
        """What the proxy is to send. A replay is a mock, which litellm does not send."""
        if isinstance(self.step, Settled):
            return {"mock_response": provider.unbilled(self.step.response)}
        asked = {name: value for name, value in self._asked.items() if name != "model"}
        return dict(plain_json(asked, "request"))

    def told(self) -> dict[str, Any]:
        """What the proxy's logs and the response's headers say of it."""
        report = self.step.report
        return {
            "call": self.token,
            "invocation": report.name,
            "attempt": report.attempt,
            "tokens": report.tokens + report.margin,
            "packet": report.packet_digest,
            "replayed": self.replayed is not None,
        }

    def sending(self, request: dict[str, Any], asked: Mapping[str, Any], set_: Mapping[str, Any]) -> dict[str, Any]:
        """The proxy has picked a deployment and is about to send; answers the request as it is sent: a stream asks for
        its usage, and the proxy's own time limits stand where the call's does not end sooner. `asked` is what of it a
        provider gets, `set_` what the operator has set, which may stand where the call does not say. Raises
        UnmanagedCall where this is not the one send of what was admitted."""
        if isinstance(self.step, Settled):
            if not request.get("mock_response"):
                raise UnmanagedCall("a stored answer would be paid for again; it was not sent", name=self._name)
            return request
        if self.sent:
            raise UnmanagedCall("a second send of one call was stopped; retries belong to the client", name=self._name)
        changed = _changed(self._asked, asked, set_)
        if changed:
            raise UnmanagedCall(
                f"{', '.join(changed)[:200]} was changed after the request was admitted, so it was not sent; list "
                "mn_sdk.litellm_context.admission after what changes it",
                name=self._name,
            )
        self.sent = True
        own = self.step.arguments["timeout"]
        limits = _limits(request, own)
        leaving = self.step.leaving
        leaving.model = str(request["model"])
        # a stream's limits in the proxy are for each chunk of it, and the call's own is for all of it
        self.exchange = Exchange(self.exchange.left if request.get("stream") else limits["timeout"], leaving.check)
        watch(self.exchange)
        self.asked_usage = bool((request.get("stream_options") or {}).get("include_usage"))
        return {**provider.asking_usage(request), **limits}

    def shows(self, chunk: Any) -> bool:
        """Whether the client gets a chunk. One of usage alone is for those who asked; the proxy sees to its own."""
        return bool(chunk.choices) or self.asked_usage

    def answered(self, response: Any) -> Any:
        """Makes a whole answer durable; answers what the client gets. Blocks. Raises ContextError."""
        if isinstance(self.step, Settled):
            return self._replay(self.step).response
        return self._settle(provider.answered(response, self.exchange)).response

    def chunks(self) -> list[Any]:
        """A replay as a stream. Blocks."""
        return provider.chunks_of(self._replay(self.step).response) if isinstance(self.step, Settled) else []

    def streamed(self) -> None:
        """Makes what a stream added up to durable, at its end. Blocks. Raises ContextError."""
        chunks: Sequence[Any] = getattr(self.stream, "chunks", ())
        if any(choice.finish_reason for chunk in chunks for choice in chunk.choices):
            self._settle(provider.built(list(chunks), self._messages, self.exchange))
            return
        cut = EOFError("the stream ended without a finish_reason")
        self._settle(Unknown(cut, f"{cut} ({self.exchange.describe()})"))

    def failed(self, error: Exception) -> None:
        """Makes durable what became of a call that `error` has ended, and raises what its client is to get: the error
        itself where nothing was executed. Blocks."""
        self._settle(judge(error, self.exchange))
        raise error

    def abandoned(self, why: str) -> None:
        """Makes durable that nobody knows what became of the call. Blocks."""
        with suppress(ContextError):  # that is what it says
            self._settle(Unknown(EOFError(why), f"{why} ({self.exchange.describe()})"))

    def withdraw(self) -> None:
        """Gives up a call that was not sent. Blocks."""
        with self.held:
            self.dispatcher.withdraw(self.step)

    def _settle(self, outcome: Outcome) -> Settled:
        if isinstance(self.step, Settled):
            return self._replay(self.step)
        self.exchange.end()
        with self.held:
            return self.dispatcher.settle(self.step, outcome)

    def _replay(self, settled: Settled) -> Settled:
        self.held.close()
        return settled

    @property
    def _asked(self) -> Mapping[str, Any]:
        """What was admitted."""
        return self.step.leaving.asked if isinstance(self.step, Ready) else {}

    @property
    def _messages(self) -> Any:
        return self._asked.get("messages", ())

    @property
    def _name(self) -> str:
        return self.step.report.name


def begin(session: ContextSession, wish: Wish, call: ModelCall, targets: Sequence[Target]) -> Call:
    """Claims, admits and journals a call to one of `targets`. Blocks. Raises ContextError; then nothing has left or
    will."""
    policy = narrowest(targets, call.output_tokens)
    now = time()
    ends = [wish.deadline] if wish.deadline is not None else []
    ends += [now + policy.deadline_seconds] if policy.deadline_seconds is not None else []
    lifetime = Lifetime(cancelled=lambda: False, deadline=min(ends, default=None), clock=time)
    dispatcher = session.dispatcher
    dispatcher = replace(
        dispatcher,
        policy=policy,
        counting=dispatcher.counting.by(lambda request, _: most(targets, request)),
        lifetime=lifetime,
        fills=lambda _: any(fills_output(target.model) for target in targets),
    )
    with work() as name, ExitStack() as held:
        held.enter_context(going_on(name))
        held.enter_context(dispatcher.closing.under_way())
        step = dispatcher.prepare(wish.turning, call)
        exchange = Exchange(lifetime.remaining(call.timeout_seconds))
        until = monotonic() + call.timeout_seconds + _SLACK_SECONDS
        return Call(dispatcher=dispatcher, step=step, exchange=exchange, held=held.pop_all(), until=until)


def _changed(admitted: Mapping[str, Any], asked: Mapping[str, Any], set_: Mapping[str, Any]) -> list[str]:
    """The members of a request that are not as they were admitted, nor as they are set where it does not say. Its model
    is not among them: the proxy has names of its own for that."""
    expected = {**{name: set_[name] for name in asked.keys() & set_.keys()}, **admitted}
    return sorted(
        name
        for name in (expected.keys() | asked.keys()) - {"model"}
        if name not in expected or name not in asked or asked[name] != expected[name]
    )


def _limits(request: Mapping[str, Any], own: float) -> dict[str, float]:
    """The time limits of a request that the proxy is about to send, in seconds: what its settings come to (the
    deployment's, the router's, litellm's), none above `own`."""
    set_ = {name: request[name] for name in ("timeout", "stream_timeout") if request.get(name) is not None}
    return {"timeout": own, **{name: min(float(seconds), own) for name, seconds in set_.items()}}


class Calls:
    """The calls that the proxy has, by token. Thread-safe."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._lock = threading.Lock()

    def add(self, call: Call) -> list[Call]:
        """Takes a call in; answers those that the proxy has forgotten, which are the caller's to settle."""
        now = monotonic()
        with self._lock:
            forgotten = [token for token, one in self._calls.items() if one.until < now]
            self._calls[call.token] = call
            return [self._calls.pop(token) for token in forgotten]

    def find(self, request: Mapping[str, Any]) -> Call | None:
        """The call that a request's data belongs to."""
        return self._calls.get(_token(request))

    def take(self, request: Mapping[str, Any]) -> Call | None:
        """The call, which is then the taker's to settle: nobody else finds it again."""
        with self._lock:
            return self._calls.pop(_token(request), None)


def _token(request: Mapping[str, Any]) -> str:
    told = told_of(request).get("call")
    return told if isinstance(told, str) else ""


def told_of(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """What `metadata.membrane` of a request's data has; empty where it is no object."""
    metadata = request.get("metadata")
    told = metadata.get("membrane") if isinstance(metadata, Mapping) else None
    return told if isinstance(told, Mapping) else {}
