"""How one API writes requests: the port between a request's own form and `mn_tokens.request`.

Reading is by item, so that what was read of a history is kept: an item is read from itself and from the calls of its
group alone. Readers are pure, and raise InvalidInput with a `field` that is relative to what they were given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mn_tokens.reading.json_values import as_text
from mn_tokens.request import Envelope, Message, Strange

Item = Mapping[str, Any]

UNREAD = frozenset({
    "model", "temperature", "top_p", "top_k", "min_p", "n", "seed", "random_seed", "stop", "user", "max_tokens",
    "max_completion_tokens", "max_output_tokens", "max_new_tokens", "max_tokens_to_sample", "num_predict", "stream",
    "stream_options", "logprobs", "top_logprobs", "logit_bias",
    "presence_penalty", "frequency_penalty", "repetition_penalty", "parallel_tool_calls", "max_tool_calls",
    "reasoning_effort", "reasoning", "thinking", "verbosity", "modalities", "service_tier", "store", "metadata",
    "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "usage", "provider",
    "custom_llm_provider", "drop_params", "additional_drop_params", "allowed_openai_params", "mock_response",
    "mock_tool_calls", "mock_timeout", "mock_delay", "input_cost_per_token", "output_cost_per_token", "cache_control",
    "cache_control_injection_points", "moderation", "clear_thinking", "enable_thinking", "reasoning_format",
    "safe_prompt", "transforms", "options", "keep_alive", "truncation", "background", "include", "context_management",
    "stop_sequences", "anthropic_version", "anthropic_beta",
})  # fmt: skip
"""Keys of a request that steer how it is answered, or how litellm sends it, and are read by no model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One API. `items` is the key of the messages; `opens` says whether an item opens a group, given the one before it,
    or else belongs to the group of that one; `names` are the functions that a group's calls name, by the calls' ids.
    `envelope` reads everything else. `said` makes an item of bare text, where the API takes that instead of a list."""

    items: str
    opens: Callable[[Item, Item], bool]
    names: Callable[[Sequence[Item]], Mapping[str, str]]
    read: Callable[[Item, Mapping[str, str]], Message]
    envelope: Callable[[Mapping[str, Any]], Envelope]
    said: Callable[[str], Item] | None = None


def beside(holder: Mapping[str, Any], known: frozenset[str] | set[str], path: str = "") -> Iterator[Strange]:
    """What a holder has beside its known keys; what is empty or off says nothing to a model."""
    for key, value in holder.items():
        if key not in known and value is not None and value not in ("", [], {}, False):
            yield Strange(f"{path}.{key}" if path else key, as_text({key: value}))


def thinks(thinking: Any) -> bool:
    """Whether a `thinking` object, in Anthropic's form, asks the model to think."""
    return isinstance(thinking, Mapping) and thinking.get("type") in ("enabled", "adaptive")
