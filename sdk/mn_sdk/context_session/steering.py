"""What steers a send by litellm and is no part of what is asked: what a managed call takes, and why not the rest.

One dispatch is one send of the request that was counted (invariants 10 and 11). So whatever sends again, elsewhere, or
something else, is refused before anything is claimed. What only repeats a failed send is dropped instead: a Router
hands it on unasked, and its wish is served by a retry of the caller's. A mock (`mock_response` and its like) stays, for
it sends nothing; it is fingerprinted with the rest, so what it made up is never replayed to a call without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

STEERING: Final = frozenset({
    "api_key", "api_base", "base_url", "api_version", "organization", "timeout", "request_timeout", "client", "headers",
    "extra_headers", "default_headers", "ssl_verify", "num_retries", "max_retries", "metadata", "logger_fn",
    "litellm_call_id", "litellm_logging_obj", "verbose", "model_info", "proxy_server_request",
    "litellm_metadata", "litellm_trace_id", "preset_cache_key", "no-log", "caching", "cache", "retry_policy",
    "retry_strategy", "stream", "stream_options", "shared_session",
    "azure_ad_token", "azure_ad_token_provider", "vertex_credentials", "aws_access_key_id", "aws_secret_access_key",
    "aws_session_token",
})  # fmt: skip
"""Arguments that steer the sending and are no part of what is asked; credentials are among them."""

PRIVATE: Final = "_"
"""How names begin of what litellm's layers, such as a Router, tell each other. It never goes to a provider, and is
of no use to our own send, so it is dropped."""

DROPPED: Final = frozenset({"request_timeout", "logger_fn", "retry_policy", "retry_strategy"})
"""Of these, the ones that litellm is not given: our own stand in their place, or nothing does."""

_FALLBACK: Final = "a fallback would be a second, uncounted send; call again yourself, under another name"
_CACHE: Final = "the journal replays responses; a cache beside it would hide calls"
_MODEL: Final = "the request was counted for one model; name another as `model`, in a call of its own"
_LATER: Final = "it would be added after the request was counted; put its text into the messages"
_HOSTED: Final = (
    "what a provider adds of its own (what it searched, kept or was set up with) cannot be counted here; put its text "
    "into the messages"
)
_CUT: Final = "the provider would cut the request without a word; what does not fit is refused here instead"
_FORM: Final = "a managed call is one chat completion; call litellm.completion or litellm.acompletion as they are"

ADDING: Final[Mapping[str, str]] = dict.fromkeys(
    ("prompt_id", "vector_store_ids", "knowledge_bases", "litellm_system_prompt", "roles", "custom_prompt_dict",
     "initial_prompt_value", "final_prompt_value", "bos_token", "eos_token", "ensure_alternating_roles",
     "user_continue_message", "assistant_continue_message"), _LATER)  # fmt: skip
"""Arguments by which litellm adds text to a request, and why that is refused."""

UNCOUNTED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("web_search_options", "search_parameters", "plugins", "enable_search", "search_options", "mcp_servers",
         "container", "connectors", "data_sources", "previous_response_id", "conversation", "cached_content",
         "cachedContent", "preset"), _HOSTED),
    **dict.fromkeys(("truncation", "transforms", "context_management"), _CUT),
}  # fmt: skip
"""Arguments by which a provider itself adds to a request that was counted, or takes from it, and why they are refused.
They are its own: OpenAI's, Anthropic's, Azure's, Cohere's, Gemini's, OpenRouter's, Qwen's."""

OFF: Final[Mapping[str, object]] = {"truncation": "disabled", "transforms": []}
"""How a provider is told that it may not cut, which is sent: left out, it might."""

REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("fallbacks", "default_fallbacks", "context_window_fallbacks", "context_window_fallback_dict",
         "content_policy_fallbacks"), _FALLBACK),
    **dict.fromkeys(("caching", "cache"), _CACHE),
    **dict.fromkeys(
        ("models", "route", "model_list", "deployments", "deployment_id", "model_alias_map", "litellm_params",
         "fastest_response"), _MODEL),
    **ADDING,
    **UNCOUNTED,
    **dict.fromkeys(("acompletion", "async_call", "text_completion", "atext_completion"), _FORM),
}  # fmt: skip
"""Arguments that a managed call cannot have (unless they are off or empty), and why."""

SETTINGS: Final[Mapping[str, str]] = {
    "num_retries": "one dispatch is one send; call again yourself, with `retry`",
    **dict.fromkeys(
        ("fallbacks", "default_fallbacks", "model_fallbacks", "context_window_fallbacks", "content_policy_fallbacks"),
        _FALLBACK),
    "cache": _CACHE,
    "model_alias_map": _MODEL,
    **dict.fromkeys(("custom_prompt_dict", "modify_params"), _LATER),
}  # fmt: skip
"""What must not be set on litellm itself while a managed call is made, and why."""
