"""How the tokens of a pack are counted: by the model's own tokenizer where it is known, else as its profile reckons."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import mn_tokens
from mn_engine.select.cmp.profiles import ModelProfile


def counter_of(model: str, profile: ModelProfile) -> tuple[str, Callable[[str], int]]:
    """(what counts, the tokens of a text)."""
    encoding = mn_tokens.tokenizer_of(model) if model else None
    if encoding is None:
        return f"{profile.name}: {profile.chars_per_token:g} characters a token (estimate)", profile.estimate
    return encoding, lambda text: _tokens(encoding, text)


@lru_cache(maxsize=1 << 12)
def _tokens(encoding: str, text: str) -> int:
    return mn_tokens.text_tokens(encoding, text)
