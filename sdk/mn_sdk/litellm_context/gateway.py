"""The proxy's hooks. Each fails closed: what cannot be decided is refused, with a typed error, and nothing is sent.

Before routing a request is counted against what its model name may stand for, and one that names a run is prepared.
Before each send it is counted again, for the deployment that was picked, with what the proxy has made of it since. When
an answer, or the end of a stream, is there, it is durable before the client has the last of it.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

from fastapi import HTTPException
from litellm.integrations.custom_logger import CustomLogger
from litellm.litellm_core_utils.request_timeout_resolver import get_configured_request_timeout
from litellm.router import Router
from litellm.types.utils import all_litellm_params

from mn_contract.errors import ContextError, DependencyUnavailable, InvalidInput
from mn_sdk.arguments import read_number
from mn_sdk.context_session.admit import Admission, no_packet
from mn_sdk.context_session.assemble import Form
from mn_sdk.context_session.call import ModelCall, check_sizes, is_off, read_call
from mn_sdk.context_session.steering import ADDING, PRIVATE, REFUSED, STEERING, UNCOUNTED
from mn_sdk.context_session.wiretap import watched
from mn_sdk.litellm_context.calls import LEFT, SILENT, TOLD, UNEXECUTED, Call, Calls, begin, told_of
from mn_sdk.litellm_context.models import Target, most, narrowest, target_of, targets_of
from mn_sdk.litellm_context.refusals import refusal, refusing, refusing_a_route
from mn_sdk.litellm_context.routes import ADMITTED, is_admitted
from mn_sdk.litellm_context.scopes import read_scope, read_wish
from mn_sdk.litellm_context.sessions import Sessions
from mn_sdk.litellm_context.settings import Settings
from mn_sdk.litellm_context.workers import Workers
from mn_tokens import check_request

_PROXYS: Final = frozenset({
    *all_litellm_params, "call_type", "deployment", "disable_fallbacks", "drop_params", "additional_drop_params",
    "model_group", "policies", "router_settings_override", "standard_logging_object", "start_time", "user_config",
})  # fmt: skip
"""What litellm and its proxy keep to themselves, beside what steers a send; no provider gets it."""


_LIMITS: Final = ("timeout", "request_timeout", "stream_timeout")
"""How a request limits its time, `stream_timeout` also by a header."""

_READ: Final = STEERING.union(REFUSED, {"mock_response"}).difference(_LIMITS)
"""What is read, beside, of a call for a run: a mock's answer must not be replayed to a call without it."""

_ONE_SEND: Final[Mapping[str, Any]] = {
    "num_retries": 0,
    "max_retries": 0,
    "disable_fallbacks": True,
    "cache": {"no-cache": True, "no-store": True},
}
"""What the proxy is told of a call for a run. The journal replays; a cache beside it would hide calls."""

THREADS: Final = 32
"""Of each kind of work. Counting needs no engine; and what was paid for does not stand in line behind what begins."""
WAITING_MAX: Final = 96
"""Requests for runs that may wait for a thread. One lasts at most as long as a call to an engine that hangs."""


class Gateway(CustomLogger):
    """The callback. One a process."""

    def __init__(self, settings: Settings) -> None:
        """Raises DependencyUnavailable on a litellm whose proxy calls other hooks, or has another router."""
        super().__init__()
        known = all(hasattr(CustomLogger, name) for name in vars(Gateway) if name.startswith(("async_", "log_")))
        if not (known and hasattr(Router, "registry")):
            raise DependencyUnavailable(
                "this version of litellm's proxy is not known; install one that this package was tested with",
                dependency="litellm",
            )
        self._settings = settings
        self._sessions = Sessions(settings.root)
        self._calls = Calls()
        self._counting = Workers("counting", THREADS)
        self._beginning = Workers("the record", THREADS, waiting_max=WAITING_MAX)
        self._settling = Workers("settling", THREADS)

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> Any:
        """Admits a request, or refuses it."""
        metadata = data.get("metadata")
        wished = metadata.pop("membrane", None) if isinstance(metadata, dict) else None
        with refusing_a_route():
            if not is_admitted(call_type, self._settings.passed):
                if wished is not None:
                    raise InvalidInput("only a chat completion can be made for a run", field="metadata.membrane")
                return data
        with refusing():
            targets = await self._counting.run(self._targets, data, user_api_key_dict)
            if wished is None:
                await self._counting.run(_admit, data, targets)
                return data
            call = await self._beginning.run(self._begin, wished, data, targets, user_api_key_dict, undo=Call.withdraw)
            for forgotten in self._calls.add(call):
                await self._settling.run(forgotten.abandoned, SILENT)
        data["metadata"]["membrane"] = call.told()
        for name in _LIMITS:  # the call keeps the client's own; without it the proxy's settings are seen at the send
            data.pop(name, None)
        data.update(call.arguments(), **_ONE_SEND)
        return data

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any] | None:
        """Counts what is about to be sent, and sees to it that a call for a run is sent once, a stream with its
        usage."""
        if getattr(call_type, "value", call_type) not in ADMITTED:
            return None
        with refusing():
            _check_nothing_is_added(kwargs)
            call = self._calls.find(kwargs)
            if call is None or call.replayed is None:
                target = target_of(str(kwargs.get("model")), kwargs.get("model_info") or {}, self._settings.policy)
                await self._counting.run(_admit, kwargs, [target])
            if call is None:
                return None
            sent = {**kwargs, "timeout": kwargs.get("timeout") or get_configured_request_timeout()}
            return call.sending(sent, _asked(kwargs), _set_for(kwargs))

    def log_pre_api_call(self, model: Any, messages: Any, kwargs: Any) -> None:
        """litellm's word that it is about to call a provider, by whatever client."""
        exchange = watched()
        if exchange is not None:
            exchange.about_to_send = True

    async def async_post_call_success_hook(self, data: dict[str, Any], user_api_key_dict: Any, response: Any) -> Any:
        """Makes an answer durable. A stored one takes the place of the mock that the proxy was given."""
        call = self._calls.take(data)
        if call is None:
            return None
        with refusing(sent=True):
            answer = await self._settling.run(call.answered, response)
        return None if call.replayed is None else answer

    async def async_post_call_failure_hook(
        self,
        request_data: dict[str, Any],
        original_exception: Exception,
        user_api_key_dict: Any,
        traceback_str: str | None = None,
    ) -> HTTPException | None:
        """Makes durable what became of a call that failed. The client gets the provider's error where that says that
        nothing was executed, else that nobody can tell. What the end of a stream raised is settled already."""
        call = self._calls.take(request_data)
        if call is None:
            return refusal(original_exception, sent=True) if isinstance(original_exception, ContextError) else None
        try:
            await self._settling.run(call.failed, original_exception)
        except ContextError as error:
            return refusal(error, sent=True)
        except Exception as error:
            if error is not original_exception:
                raise
            request_data["metadata"]["membrane"][UNEXECUTED] = True
        return None

    async def async_post_call_response_headers_hook(
        self,
        data: dict[str, Any],
        user_api_key_dict: Any,
        response: Any,
        request_headers: dict[str, str] | None = None,
        litellm_call_info: dict[str, Any] | None = None,
    ) -> dict[str, str] | None:
        """Names the call, so that its receipt can be asked for; here, too, litellm's own stream is seen.

        Clients are told here not to send again what was sent, whatever answers it: of a stream that breaks, and of what
        other callbacks raise after the answer, this is the only place where headers are still open.
        """
        call = self._calls.find(data)
        if call is not None:
            call.stream = response
        told = told_of(data)
        if not told:
            return None
        once = not (told.get("replayed") or told.get(UNEXECUTED))
        named = {f"x-membrane-{name}": str(told[name]) for name in TOLD if told.get(name, "") != ""}
        return {**named, **({"x-should-retry": "false"} if once else {})}

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        """Passes a stream on, and holds its end back until the whole of it is durable.

        Errors leave as what they are: the failure hook gives them the documented body, which the proxy would not do for
        an HTTPException here.
        """
        call = self._calls.take(request_data)
        if call is None:
            async for chunk in response:
                yield chunk
            return
        if call.stream is None:
            call.stream = response
        ending: list[Any] = []
        try:
            async for chunk in response:
                if call.replayed is not None or not call.shows(chunk):
                    continue
                if ending or any(choice.finish_reason for choice in chunk.choices):
                    ending.append(chunk)
                else:
                    yield chunk
        except Exception as error:
            await self._settling.run(call.failed, error)
            raise
        except BaseException:
            await self._settling.run(call.abandoned, LEFT)
            raise
        if call.replayed is None:
            await self._settling.run(call.streamed)
        else:
            ending = await self._settling.run(call.chunks)
        for chunk in ending:
            yield chunk

    def close(self) -> None:
        """Lets go of the runs that were served. Idempotent."""
        self._sessions.close()
        for workers in (self._counting, self._beginning, self._settling):
            workers.close()

    def _targets(self, data: Mapping[str, Any], key: Any) -> list[Target]:
        return targets_of(data.get("model"), _deployments(data.get("model"), key.team_id), self._settings.policy)

    def _begin(self, wished: Any, data: Mapping[str, Any], targets: Sequence[Target], key: Any) -> Call:
        _check_one_send(data)
        wish = read_wish(wished, f"gateway/{uuid.uuid4().hex}")
        scope = read_scope(wish, key.metadata or {}, key.team_metadata or {})
        asked = {**_asked(data, keep=_READ), **_limited(data)}
        call = read_call(asked, response_format=data.get("response_format"))
        return begin(self._sessions.of(scope), wish, call, targets)


def _admit(data: Mapping[str, Any], targets: Sequence[Target]) -> None:
    """Raises NeedsPartition where a request does not fit as it is, InvalidInput where it cannot be counted."""
    call = ModelCall(asked=_asked(data), steering={})
    check_request(call.asked)
    check_sizes(call.asked)
    Admission(
        policy=narrowest(targets, call.output_tokens),
        call=call,
        form=Form(history=call.asked["messages"]),
        compile=no_packet,
        counter=lambda request, _: most(targets, request),
    ).admit()


def _asked(data: Mapping[str, Any], keep: frozenset[str] = frozenset()) -> dict[str, Any]:
    """What of a request's data a provider gets, and what of `keep`."""
    left = (_PROXYS | STEERING) - keep
    return {
        name: value
        for name, value in data.items()
        if value is not None and name not in left and not name.startswith(PRIVATE)
    }


def _limited(data: Mapping[str, Any]) -> dict[str, float]:
    """The client's own time limit, in seconds: the smallest that its request names. Raises InvalidInput."""
    given = [read_number(data[name], name) for name in _LIMITS if data.get(name) is not None]
    return {"timeout": min(given)} if given else {}


def _check_one_send(data: Mapping[str, Any]) -> None:
    """Raises InvalidInput for a request that the proxy would send to several models, or by a router of the client's."""
    for name, several in (("model", "," in str(data.get("model"))), ("user_config", data.get("user_config"))):
        if several:
            raise InvalidInput(f"{name} cannot be that for a run: the request was counted for one model", field=name)


def _check_nothing_is_added(request: Mapping[str, Any]) -> None:
    """Raises InvalidInput where litellm would add text to a request that is about to be sent and was counted, or the
    provider would add to it or cut it."""
    body = request.get("extra_body")
    for name, why in {**ADDING, **UNCOUNTED}.items():
        for asked in (request, body if isinstance(body, Mapping) else {}):
            if asked.get(name) and not is_off(name, asked[name]):
                raise InvalidInput(f"{name} cannot be used where requests are admitted: {why}", field=name)


def _set_for(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the operator has set for the deployment that was picked for a request, or for all of them: the proxy adds it
    where the request does not say."""
    info = request.get("model_info") or {}
    deployment = info.get("original_model_id") or info.get("id")
    if deployment is None:  # no router has picked it
        return {}
    from litellm.proxy.proxy_server import llm_router

    if llm_router is None:
        return {}
    picked = llm_router.registry().deployment_dict(deployment) or {}
    return {**(picked.get("litellm_params") or {}), **llm_router.default_litellm_params}


def _deployments(model: Any, team_id: str | None) -> Sequence[Mapping[str, Any]]:
    """The proxy's deployments behind a model name; none without its router, or for a name that it does not list."""
    from litellm.proxy.proxy_server import llm_router

    if llm_router is None or not isinstance(model, str):
        return ()
    found: Sequence[Mapping[str, Any]] = llm_router.registry().deployments(model, team_id=team_id) or ()
    return found
