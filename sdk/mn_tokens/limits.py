"""What models take and give, by the table that the litellm wheel carries, read as a file: litellm is not imported.

Nothing is guessed: a model that the table does not know has no limits here, and its caller states them.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mn_tokens.families import family_of

_TABLE: Final = "model_prices_and_context_window_backup.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLimits:
    """Tokens that a request may have and that an answer may have; None where the table does not say."""

    input_tokens: int | None
    output_tokens: int | None


def model_limits(model: str) -> ModelLimits | None:
    """The limits of a model, named as litellm takes it (`gpt-4o`, `openai/gpt-4o`); None where it is unknown."""
    entry = _entry(model)
    if entry is None:
        return None
    limits = ModelLimits(
        input_tokens=_whole(entry.get("max_input_tokens")), output_tokens=_whole(entry.get("max_output_tokens"))
    )
    return None if limits.input_tokens is None and limits.output_tokens is None else limits


def fills_output(model: str) -> bool:
    """Whether a request that names no limit of its output is given one by litellm: all that the model can write.
    Anthropic's API has no default, and refuses what the window does not hold together with the input."""
    return family_of(model).name.startswith("anthropic")


@functools.lru_cache(maxsize=1024)
def sent_to_responses(model: str) -> bool:
    """Whether litellm sends a model's chat completions to OpenAI's Responses API: where it serves nothing else, or the
    name says so (`openai/responses/gpt-5`)."""
    entry = _entry(model)
    return "responses" in model.split("/")[:-1] or (entry is not None and entry.get("mode") == "responses")


def _entry(model: str) -> Mapping[str, Any] | None:
    """The table's entry under the whole name, or under what follows the provider that it names."""
    table = _table()
    if model in table:
        return table[model]
    provider, slash, name = model.partition("/")
    entry = table.get(name) if slash else None
    return entry if entry is not None and entry.get("litellm_provider") == provider else None


@functools.cache
def _table() -> dict[str, Mapping[str, Any]]:
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    try:
        table = json.loads((Path(spec.origin).parent / _TABLE).read_bytes())
    except (OSError, ValueError):
        return {}
    return {name: entry for name, entry in table.items() if isinstance(entry, dict)}


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
