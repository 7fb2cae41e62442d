"""A model call as it was asked for: what is sent and billed, what only steers the sending, and what is refused.

One dispatch is one send: retries are forced to none, and whatever would send again, elsewhere or not at all (fallbacks,
caches, streams for now) is refused with InvalidInput (invariant 10).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mn_contract.canonical import digest
from mn_contract.errors import InvalidInput
from mn_sdk.context_session.histories import check_history

_STEERING: Final = frozenset({
    "api_key", "api_base", "base_url", "api_version", "organization", "timeout", "request_timeout", "client", "headers",
    "extra_headers", "default_headers", "ssl_verify", "num_retries", "max_retries", "metadata", "logger_fn",
    "litellm_call_id", "litellm_logging_obj", "user_continue_message", "verbose", "model_info", "proxy_server_request",
    "litellm_metadata", "litellm_trace_id", "preset_cache_key", "no-log", "caching", "cache", "retry_policy",
    "retry_strategy", "model_list", "stream_options", "shared_session", "litellm_params", "specific_deployment",
    "azure_ad_token", "azure_ad_token_provider", "vertex_credentials", "aws_access_key_id", "aws_secret_access_key",
    "aws_session_token",
})  # fmt: skip
"""Arguments that steer the sending and are no part of what is asked; credentials are among them."""

_REFUSED: Final = {
    "stream": "streaming is not managed; leave `stream` out",
    "fallbacks": "a fallback would be a second, uncounted send; call again yourself, under another name",
    "context_window_fallback_dict": "a fallback would be a second, uncounted send",
    "content_policy_fallbacks": "a fallback would be a second, uncounted send",
    "context_window_fallbacks": "a fallback would be a second, uncounted send",
    "caching": "the journal replays responses; a cache beside it would hide calls",
    "cache": "the journal replays responses; a cache beside it would hide calls",
}
_TIMEOUT_SECONDS: Final = 600.0


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
    def timeout_seconds(self) -> float:
        """How long the caller would wait."""
        given = self.steering.get("timeout", self.steering.get("request_timeout"))
        return float(given) if isinstance(given, int | float) else _TIMEOUT_SECONDS

    @property
    def output_tokens(self) -> int:
        """The output that the caller allows; 0 where the call does not say."""
        given = [self.asked.get(name) for name in ("max_tokens", "max_completion_tokens")]
        return max((value for value in given if isinstance(value, int)), default=0)

    def with_messages(self, messages: list[dict[str, Any]]) -> ModelCall:
        """The same call with other messages."""
        return ModelCall(asked={**self.asked, "messages": messages}, steering=self.steering)

    def arguments(self, *, timeout: float) -> dict[str, Any]:
        """What litellm is given."""
        kept = {name: value for name, value in self.steering.items() if name not in ("request_timeout", "logger_fn")}
        return {**kept, **self.asked, "num_retries": 0, "max_retries": 0, "timeout": timeout}

    def digest(self) -> str:
        """SHA-256 of the complete request, steering aside."""
        return digest(self.asked)


def read_call(arguments: Mapping[str, Any], *, response_format: Any) -> ModelCall:
    """A call from litellm's arguments. `response_format` is what is sent for it. Raises InvalidInput."""
    given = {name: value for name, value in arguments.items() if value is not None}
    given["messages"] = check_history(given.get("messages"))
    if response_format is not None:
        given["response_format"] = response_format
    for name, why in _REFUSED.items():
        if given.get(name):
            raise InvalidInput(f"{name} cannot be used in a managed call: {why}", field=name)
    if not isinstance(given.get("model"), str) or not given["model"]:
        raise InvalidInput("a call names its model", field="model")
    asked = {name: value for name, value in given.items() if name not in _STEERING and name != "stream"}
    steering = {name: value for name, value in given.items() if name in _STEERING}
    call = ModelCall(asked=asked, steering=steering)
    call.digest()  # what cannot be written down cannot be fingerprinted: refused before anything happens
    return call
