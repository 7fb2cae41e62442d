"""LiteLLM, and nothing else: imported here only, and only when a model is about to be called (it takes seconds).

Everything that depends on litellm's shapes stands here and in `interception`: sending one request once, telling what
became of it, and making a stored response an object again.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import threading
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, Final

from mn_contract.canonical import encoded
from mn_contract.errors import InvalidInput
from mn_sdk.context_session.outcome import Answered, Outcome, Unknown, Unusable, judge
from mn_sdk.context_session.steering import SETTINGS
from mn_sdk.context_session.wiretap import Check, Exchange, recording

_REMARKS: Final = (
    ("message", r"Items? .* `ReadOnly` qualifier"),
    ("message", r"Pydantic serializer warnings"),
    ("module", r"litellm\b"),
)
"""Warnings about litellm's own code, which its users can do nothing about."""

_lock: Final = threading.Lock()
_loaded: ModuleType | None = None
_hushing = 0
_filters: Final[list[Any]] = []
"""The entries of `warnings.filters` that are ours."""


def load() -> ModuleType:
    """litellm, with our interception in place. Raises DependencyUnavailable on a litellm that it does not know."""
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _imported()
        return _loaded


def _imported() -> ModuleType:
    # Without these litellm fetches tables of its own over the network: prices when it is imported, headers when Claude
    # is called.
    for name in ("LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS"):
        os.environ.setdefault(name, "True")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import litellm

    from mn_sdk.context_session import interception

    interception.install(litellm)
    return litellm


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    """Without litellm's remarks on itself, for as long as anybody is in here; the program's own filters stay."""
    global _hushing
    with _lock:
        _hushing += 1
        for kind, pattern in _REMARKS:  # each time, for test runners and others put the filters back in between
            warnings.filterwarnings("ignore", **{kind: pattern})  # type: ignore[arg-type]
            entry = warnings.filters[0]
            if entry not in _filters:
                _filters.append(entry)
    try:
        yield
    finally:
        with _lock:
            _hushing -= 1
            if not _hushing:
                while _filters:
                    with contextlib.suppress(ValueError):  # somebody has put them back meanwhile
                        warnings.filters.remove(_filters.pop())  # type: ignore[attr-defined]


def check_settings() -> None:
    """Raises InvalidInput where litellm itself is set to send something else than what was counted, or again."""
    litellm = load()
    for name, why in SETTINGS.items():
        if getattr(litellm, name, None):
            raise InvalidInput(
                f"litellm.{name} is set and a managed call cannot be made with it: {why}. Unset it",
                field=f"litellm.{name}",
            )


@_hushed()
def check_taken(model: str, names: Iterable[str]) -> None:
    """Raises InvalidInput where the model's provider takes no argument of one of these names, as far as litellm knows:
    it would refuse the call, or write functions into the prompt after that was counted."""
    litellm = load()
    try:
        name, provider, *_ = litellm.get_llm_provider(model)
    except litellm.exceptions.BadRequestError:  # litellm says so itself when it is asked to send
        return
    taken = litellm.get_supported_openai_params(name, provider)
    writes_on = provider.startswith("text-completion-")  # its API has a prompt alone, whatever litellm lists
    for wanted in names:
        if writes_on or (taken is not None and wanted not in taken):
            raise InvalidInput(
                f"{provider} takes no {wanted} for {name}, as litellm knows it; leave it out, or name another model "
                "(for functions with Ollama: ollama_chat/...)",
                field=wanted,
            )


@_hushed()
def check_model(model: str, field: str) -> None:
    """Raises InvalidInput where litellm knows no provider of this model, or the provider's key is not set. Sends
    nothing."""
    litellm = load()
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # litellm prints its list of providers
            litellm.get_llm_provider(model)
    except litellm.exceptions.BadRequestError as error:
        raise InvalidInput(
            f"{field}: litellm knows no provider of {model!r}; write it as provider/name, such as openai/gpt-4o-mini",
            field=field,
        ) from error
    missing = [name for name in litellm.validate_environment(model=model)["missing_keys"] if name.endswith("_API_KEY")]
    if missing:
        raise InvalidInput(f"{field} {model} needs {' and '.join(missing)} in the environment", field=field)


def send(arguments: Mapping[str, Any], check: Check | None = None) -> Outcome | Flowing:
    """Sends a request once, if `check` lets it leave, and says what became of it within `arguments["timeout"]` seconds;
    of a stream, once it has been read. Never raises for what happened after it was sent."""
    from mn_sdk.context_session import interception

    load()
    exchange = Exchange(arguments["timeout"], check)
    try:
        with _hushed(), recording(exchange):
            response = interception.original_completion(**asking_usage(arguments), logger_fn=exchange.on_log)
        received = _received(response, exchange, arguments)
        return received.begun() if isinstance(received, Flowing) and not exchange.sent else received
    except BaseException as error:  # noqa: BLE001 - an interrupt, too, leaves a call whose outcome must be journaled
        return _judged(error, exchange)


async def asend(arguments: Mapping[str, Any], check: Check | None = None) -> Outcome | Flowing:
    """As `send`, without blocking the loop."""
    import asyncio  # litellm has loaded it

    from mn_sdk.context_session import interception

    load()
    exchange = Exchange(arguments["timeout"], check)
    try:
        with _hushed(), recording(exchange):
            async with asyncio.timeout(exchange.left):
                response = await interception.original_acompletion(**asking_usage(arguments), logger_fn=exchange.on_log)
        received = _received(response, exchange, arguments)
        return await received.abegun() if isinstance(received, Flowing) and not exchange.sent else received
    except BaseException as error:  # noqa: BLE001 - as in `send`; cancellation arrives this way
        return _judged(error, exchange)


def _judged(error: BaseException, exchange: Exchange) -> Outcome:
    exchange.end()
    return judge(error, exchange)


class Flowing:
    """A stream of litellm's, as a Flow: read within the exchange's limit, and judged when it has ended."""

    def __init__(self, stream: Any, exchange: Exchange, arguments: Mapping[str, Any]) -> None:
        self._stream = stream
        self._exchange = exchange
        self._messages = arguments["messages"]
        self._ahead: deque[Any] = deque()
        self._shows_usage = bool((arguments.get("stream_options") or {}).get("include_usage"))

    def begun(self) -> Outcome | Flowing:
        """The stream, once its request has left: of some providers litellm sends it with the first read, and what
        becomes of the send is to be known where it is made. What became of it, where that is the end."""
        try:
            self._ahead.append(self.read())
        except BaseException as error:  # noqa: BLE001 - as in `send`
            return self.outcome(error)
        return self

    async def abegun(self) -> Outcome | Flowing:
        """As `begun`."""
        try:
            self._ahead.append(await self.aread())
        except BaseException as error:  # noqa: BLE001 - as in `send`
            return self.outcome(error)
        return self

    def read(self) -> Any:
        """See Flow."""
        if self._ahead:
            return self._ahead.popleft()
        with _hushed(), recording(self._exchange):
            return next(chunk for chunk in self._stream if self._shown(chunk))

    async def aread(self) -> Any:
        """See Flow."""
        import asyncio  # litellm has loaded it

        if self._ahead:
            return self._ahead.popleft()
        with _hushed(), recording(self._exchange):
            async with asyncio.timeout(self._exchange.left):
                while not self._shown(chunk := await anext(self._stream)):
                    pass
        return chunk

    def outcome(self, error: BaseException) -> Outcome:
        """What became of the call that `error` has ended. StopIteration is the end of the stream; whether the answer is
        complete, only the provider's finish_reason says: litellm makes one up."""
        self._exchange.end()
        if not isinstance(error, StopIteration | StopAsyncIteration):
            return judge(error, self._exchange)
        stream = self._stream
        finished = stream.received_finish_reason or stream.intermittent_finish_reason or stream.is_mock
        if not finished:
            cut = EOFError("the stream ended without a finish_reason")
            return Unknown(cut, f"{cut} ({self._exchange.describe()})")
        return built(stream.chunks, self._messages, self._exchange)

    def close(self) -> None:
        """See Flow."""
        self._stream.close()

    async def aclose(self) -> None:
        """See Flow."""
        await self._stream.aclose()

    def _shown(self, chunk: Any) -> bool:
        return bool(chunk.choices) or self._shows_usage


@_hushed()
def built(chunks: list[Any], messages: Any, exchange: Exchange) -> Outcome:
    """The answer that chunks add up to. Usage that the provider did not report is left out: litellm makes it up."""
    litellm = load()
    try:
        response = litellm.stream_chunk_builder(chunks, messages=messages)
    except litellm.APIError as error:
        parts = [chunk.model_dump(mode="json", warnings=False) for chunk in chunks]
        return Unusable(encoded(parts, "response"), error)
    if response is not None and not any(getattr(chunk, "usage", None) for chunk in chunks):
        del response.usage
    return answered(response, exchange)


def asking_usage(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments as they are sent. A stream is asked for its usage wherever that is known to be understood."""
    if not arguments.get("stream"):
        return arguments
    litellm = load()
    model, provider, *_ = litellm.get_llm_provider(arguments["model"], api_base=arguments.get("api_base"))
    if "stream_options" not in (litellm.get_supported_openai_params(model, provider) or ()):
        return arguments
    return {**arguments, "stream_options": {"include_usage": True, **(arguments.get("stream_options") or {})}}


def _received(response: Any, exchange: Exchange, arguments: Mapping[str, Any]) -> Outcome | Flowing:
    if isinstance(response, load().CustomStreamWrapper):
        return Flowing(response, exchange, arguments)
    exchange.end()
    return answered(response, exchange)


@_hushed()
def chunks_of(response: Any) -> list[Any]:
    """A whole response as a stream has it: one chunk."""
    from litellm.llms.base_llm.base_model_iterator import convert_model_response_to_streaming

    return [convert_model_response_to_streaming(response)]


@_hushed()
def unbilled(response: Any) -> Any:
    """A copy of a whole response that says nothing was billed for it."""
    copied = response.model_copy()
    copied.usage = load().Usage(prompt_tokens=0, completion_tokens=0, total_tokens=0)
    return copied


@_hushed()
def restore(stored: bytes) -> Any:
    """A stored response as litellm's object. Raises InvalidInput where it is none."""
    litellm = load()
    document = _parsed(stored)
    _message_of(document)
    try:
        return litellm.ModelResponse(**document)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InvalidInput("the response is no chat completion that litellm can read", field="response") from error


def stored_form(response: Any) -> bytes:
    """What is journaled of a response: litellm's object, its JSON, or the answer's text.

    Raises InvalidInput where it is no chat completion, or could not be made an object again.
    """
    if isinstance(response, str):
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": response}}
        document: Any = {"object": "chat.completion", "choices": [choice]}
    else:
        document = _parsed(bytes(response)) if isinstance(response, bytes | bytearray) else _dumped(response)
    stored = encoded(document, "response")
    restore(stored)
    return stored


@_hushed()
def response_schema(wanted: Any) -> Any:
    """`response_format` as it is sent: litellm takes classes too, and sends their JSON schema."""
    if not isinstance(wanted, type):
        return wanted
    return load().utils.type_to_response_format_param(response_format=wanted)


def text_of(stored: bytes) -> str:
    """What the model said in a stored response: its text, or its tool calls as canonical JSON; empty for nothing.

    Raises InvalidInput where it is no chat completion.
    """
    message = _message_of(_parsed(stored))
    content = message.get("content")
    if isinstance(content, str) and content:
        return content
    calls = [call.get("function") for call in message.get("tool_calls") or () if isinstance(call, dict)]
    return encoded({"tool_calls": calls}).decode("utf-8") if calls else ""


def usage_of(stored: bytes) -> dict[str, int]:
    """The tokens that a stored response says were billed; empty where the provider did not say."""
    usage = _parsed(stored).get("usage")
    if not isinstance(usage, dict) or not usage.get("prompt_tokens"):  # litellm writes zeros for what is not there
        return {}
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    return {name: usage[name] for name in names if isinstance(usage.get(name), int)}


def answered(response: Any, exchange: Exchange) -> Outcome:
    """A whole answer: usable where it is a chat completion."""
    try:
        _check_said(exchange.body)
        return Answered(stored_form(response), response)
    except InvalidInput as error:
        seen = exchange.body
        return Unusable(repr(response).encode("utf-8", "backslashreplace") if seen is None else seen, error)


def _check_said(body: bytes | None) -> None:
    """Raises InvalidInput where a body is a chat completion that says nothing: litellm makes a message up."""
    try:
        document = json.loads(body or b"null")
    except (ValueError, RecursionError):
        return
    choices = document.get("choices") if isinstance(document, dict) else None
    if isinstance(choices, list) and choices and isinstance(choices[0], dict) and choices[0].get("message") == {}:
        raise InvalidInput("the answer's message is empty", field="response")


def _dumped(response: Any) -> Any:
    if not hasattr(response, "model_dump"):
        return response
    try:
        return response.model_dump(mode="json", warnings=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput("the response cannot be written down as JSON", field="response") from error


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("a response given as bytes is the JSON of a chat completion", field="response") from error


def _message_of(document: Any) -> dict[str, Any]:
    """The message of a chat completion's first choice. litellm makes one up where there is none."""
    choices = document.get("choices") if isinstance(document, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(message, dict) or not message.keys() & {"content", "tool_calls"}:
        raise InvalidInput(
            "a response is a chat completion whose first choice has a message with content or tool calls, "
            "or the answer's text",
            field="response",
        )
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        raise InvalidInput("tool_calls of a response must be a list", field="response")
    return message
