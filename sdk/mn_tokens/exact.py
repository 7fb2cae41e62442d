"""A counter that knows better than ours: the provider's own count, or the user's, behind the same port.

A factory (`package.module:function`, without arguments) makes it once; it is called with keywords `request`, `scope`
and `principal` and answers the request's tokens. What it answers has no margin. Where it fails, or takes longer than
anybody waits, our own count holds, with its margin, and says so: a counter that is down must not stop the work, nor
pass for exact.
"""

from __future__ import annotations

import copy
import importlib
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from mn_contract.errors import InvalidInput
from mn_tokens.count import Counter
from mn_tokens.memo import Memo
from mn_tokens.reading.json_values import frozen
from mn_tokens.values import Count, Part

_REQUESTS_MAX: Final = 256
_TOKENS_MAX: Final = 1 << 40
_PATIENCE_SECONDS: Final = 60.0


class RequestCounter(Protocol):
    """Counts complete requests."""

    def __call__(self, *, request: Mapping[str, Any], scope: Mapping[str, str], principal: str) -> int:
        """The tokens of a request, in OpenAI's chat format with `model` in it, as its provider bills them. `scope` has
        `job_id` and `run_id`. May raise anything where it cannot tell."""


def loaded(spec: str, field: str) -> RequestCounter:
    """What the factory `package.module:function` makes. Raises InvalidInput, naming `field`, where there is none."""
    module, colon, function = spec.partition(":")
    if not (module and colon and function):
        raise InvalidInput(f"{field} is module:function, not {spec!r:.80}", field=field)
    try:
        made = getattr(importlib.import_module(module), function)()
    except Exception as error:  # the user's code may raise anything
        raise InvalidInput(
            f"{field} {spec!r:.80} makes no counter: {type(error).__name__}: {error}", field=field
        ) from error
    if not callable(made):
        raise InvalidInput(
            f"{field} {spec!r:.80} makes no counter: {type(made).__name__} cannot be called", field=field
        )
    counter: RequestCounter = made
    return counter


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactCounter:
    """Counts by `counter` for one scope and principal, and by `own` where that fails. Requests are asked for once, and
    an answer is waited for `patience()` seconds at most."""

    counter: RequestCounter
    scope: Mapping[str, str]
    principal: str
    name: str
    own: Counter = field(default_factory=Counter)
    patience: Callable[[], float] = lambda: _PATIENCE_SECONDS
    _known: Memo[int] = field(default_factory=lambda: Memo(entries_max=_REQUESTS_MAX))

    def count(self, request: Mapping[str, Any], *, model: str) -> Count:
        """The tokens of a request. Raises InvalidInput as `Counter.count` does."""
        ours = self.own.count(request, model=model)
        key = (model, frozen(dict(request), "request"))
        tokens = self._known.find(key)
        if tokens is None:
            try:
                asked = copy.deepcopy({**request, "model": model})  # it is the user's code, and may change it
                answered = self._asked(asked)
            except TimeoutError:
                return _failed(ours, f"{self.name} did not answer in time")
            except Exception as error:  # noqa: BLE001  # the user's code may raise anything
                return _failed(ours, f"{self.name} failed: {type(error).__name__}")
            if isinstance(answered, bool) or not isinstance(answered, int) or not 0 < answered <= _TOKENS_MAX:
                return _failed(ours, f"{self.name} answered no number of tokens")
            tokens = self._known.keep(key, answered)
        beside = Part(f"{self.name}, beside what is counted here", tokens - ours.tokens)
        ledger = ours.ledger if tokens == ours.tokens else (*ours.ledger, beside)
        return Count(tokens=tokens, margin=0, exact=True, tokenizer=self.name, ledger=ledger)

    def _asked(self, request: Mapping[str, Any]) -> object:
        """What the counter answers. It is waited for, not run, here: code that blocks cannot be ended from outside."""
        answered: Future[object] = Future()

        def ask() -> None:
            try:
                answered.set_result(self.counter(request=request, scope=dict(self.scope), principal=self.principal))
            except BaseException as error:  # noqa: BLE001 - it is the caller's, whatever it is
                answered.set_exception(error)

        threading.Thread(target=copy_context().run, args=(ask,), name="mn-count", daemon=True).start()
        return answered.result(timeout=self.patience())


def _failed(ours: Count, reason: str) -> Count:
    return replace(ours, exact=False, reasons=(*ours.reasons, reason))
