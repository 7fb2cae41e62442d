"""A model call as it was asked for: what is sent and billed, what only steers the sending, and what is refused.

Whatever is refused is refused before anything is claimed or sent; `steering` lists it, and why. Retries are forced to
none (invariant 10).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mn_contract.canonical import encoded
from mn_contract.errors import InvalidInput
from mn_sdk.arguments import read_flag
from mn_sdk.context_session.histories import check_history
from mn_sdk.context_session.steering import DROPPED, OFF, PRIVATE, REFUSED, STEERING
from mn_tokens import check_request
from mn_tokens.reading.chat import is_function
from mn_tokens.reading.json_values import plain_json

_OUTPUT: Final = frozenset({
    "max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "maxTokens", "max_new_tokens",
    "max_tokens_to_sample", "max_gen_len", "num_predict",
})  # fmt: skip
"""How the providers that litellm passes arguments on to spell the most that a model may write."""
_OVERRIDING: Final = frozenset({
    "messages", "model", "tools", "functions", "tool_choice", "function_call", "response_format", "input", "prompt",
    "extra_body", "stream", "n", *_OUTPUT, *REFUSED,
})  # fmt: skip
"""What `extra_body` cannot hold: it is laid over the request that was counted."""
_TIMEOUT_SECONDS: Final = 600.0
_TIMEOUT_SECONDS_MAX: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """`asked` is what is billed and fingerprinted (messages and model among it), `steering` the rest."""

    asked: Mapping[str, Any]
    steering: Mapping[str, Any]

    @property
    def model(self) -> str:
        """The model's name, as litellm takes it."""
        return str(self.asked["model"])

    @property
    def streamed(self) -> bool:
        """Whether the caller reads the answer as it comes."""
        return bool(self.steering.get("stream"))

    @property
    def timeout_seconds(self) -> float:
        """How long the caller would wait."""
        return float(_timeout(self.steering) or _TIMEOUT_SECONDS)

    @property
    def output_tokens(self) -> int:
        """The output that the caller allows, thoughts among it; 0 where the call does not say."""
        budgets = [value for value in map(_thoughts, self.asked.values()) if value]
        return max([*budgets, *(value for _, value in _outputs(self.asked))], default=0)

    @property
    def limits_output(self) -> bool:
        """Whether the call says how much may be written in all."""
        return any(True for _ in _outputs(self.asked))

    def with_messages(self, messages: list[dict[str, Any]]) -> ModelCall:
        """The same call with other messages."""
        return ModelCall(asked={**self.asked, "messages": messages}, steering=self.steering)

    def with_output(self, tokens: int) -> ModelCall:
        """The same call, its output limited."""
        return ModelCall(asked={**self.asked, "max_tokens": tokens}, steering=self.steering)

    def arguments(self, *, timeout: float) -> dict[str, Any]:
        """What litellm is given, for itself: it writes into what it gets."""
        kept = {name: value for name, value in self.steering.items() if name not in DROPPED}
        return {**kept, **plain_json(self.asked, "request"), "num_retries": 0, "max_retries": 0, "timeout": timeout}

    def encoded(self) -> bytes:
        """The canonical JSON of the complete request, steering aside."""
        return encoded(dict(self.asked))


def read_call(arguments: Mapping[str, Any], *, response_format: Any) -> ModelCall:
    """A call from litellm's arguments, with a copy of all that is asked: nobody changes it between count and send.
    `response_format` is what is sent for it. Raises InvalidInput."""
    given = {
        name: value if name in STEERING or name == "messages" else plain_json(value, name)
        for name, value in arguments.items()
        if value is not None and not name.startswith(PRIVATE)
    }
    given["messages"] = check_history(given.get("messages"))
    if response_format is not None:
        if not isinstance(response_format, Mapping):
            raise InvalidInput(
                "response_format must be an object, or a class that has a schema", field="response_format"
            )
        given["response_format"] = plain_json(response_format, "response_format")
    for name, why in REFUSED.items():
        # what is off is not sent either: litellm may take even that for a wish
        if not is_off(name, given.get(name)) and given.pop(name, None):
            raise InvalidInput(f"{name} cannot be used in a managed call: {why}", field=name)
    _check_model(given.get("model"))
    check_sizes(given)
    _check_stream(given)
    _check_body(given.get("extra_body", {}))
    asked = {name: value for name, value in given.items() if name not in STEERING}
    steering = {name: value for name, value in given.items() if name in STEERING}
    check_request(asked)
    _check_tools(given.get("tools", ()))
    call = ModelCall(asked=asked, steering=steering)
    try:
        call.encoded()
    except InvalidInput as error:  # the rest of it is JSON, or `check_request` had refused it
        raise InvalidInput(f"messages cannot be fingerprinted: {error.message}", field="messages") from error
    return call


def is_off(name: str, value: Any) -> bool:
    """Whether an argument says that a provider may not cut."""
    return name in OFF and value == OFF[name]


def _check_model(model: Any) -> None:
    if not isinstance(model, str) or not model:
        raise InvalidInput("a call names its model", field="model")


def check_sizes(given: Mapping[str, Any]) -> None:
    """Raises InvalidInput where the output or the time that a call allows is no size."""
    for name, value in _outputs(given):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidInput(f"{name} must be a whole number, 1 or more", field=name)
    seconds = _timeout(given)
    if seconds is None:
        return
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not (math.isfinite(seconds) and 0 < seconds <= _TIMEOUT_SECONDS_MAX):
        raise InvalidInput(f"timeout must be seconds, more than 0 and at most {_TIMEOUT_SECONDS_MAX}", field="timeout")


def _check_stream(given: Mapping[str, Any]) -> None:
    if read_flag(given.get("stream", False), "stream") and given.get("n", 1) != 1:
        raise InvalidInput("a stream has one answer: leave n out, or make calls of their own", field="n")
    if not isinstance(given.get("stream_options", {}), Mapping):
        raise InvalidInput("stream_options must be an object, such as {'include_usage': true}", field="stream_options")


def _check_tools(tools: Sequence[Mapping[str, Any]]) -> None:
    for index, tool in enumerate(tools):
        if not is_function(tool) and tool.get("type") != "custom":
            raise InvalidInput(
                f"tools[{index}] is no function but a tool that the provider has (a search, a shell, an MCP server): "
                "what it adds to the request cannot be counted here. Describe functions instead, and call them "
                "yourself",
                field=f"tools[{index}]",
            )


def _check_body(body: Any) -> None:
    if not isinstance(body, Mapping):
        raise InvalidInput("extra_body must be an object", field="extra_body")
    for name, value in body.items():
        if name in _OVERRIDING and not is_off(name, value):
            raise InvalidInput(
                f"extra_body cannot hold {name}: it would replace what was counted; give it as an argument of its own",
                field=f"extra_body.{name}",
            )


def _outputs(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(path, tokens) of each limit of the output: an argument, or a member of one, such as of a generation config."""
    for name, value in given.items():
        if name in _OUTPUT:
            yield name, value
        elif isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", limit) for inner, limit in value.items() if inner in _OUTPUT)


def _thoughts(value: Any) -> int:
    """The budget for thoughts that an argument holds; 0 for none, which some models write as 0 or -1."""
    budget = value.get("budget_tokens") if isinstance(value, Mapping) else None
    return max(budget, 0) if isinstance(budget, int) else 0


def _timeout(arguments: Mapping[str, Any]) -> Any:
    return arguments.get("timeout", arguments.get("request_timeout"))
