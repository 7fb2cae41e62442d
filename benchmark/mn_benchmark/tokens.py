"""What a ranking costs in tokens: o200k, as most of the evaluated models count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from mn_benchmark.systems import Document
from mn_contract.errors import DependencyUnavailable
from mn_tokens import encodings

_ENCODING: Final = "o200k_base"


@lru_cache(maxsize=1 << 18)
def tokens(text: str) -> int:
    """Tokens of a text. Raises DependencyUnavailable where this machine has no o200k."""
    if not encodings.available(_ENCODING):
        raise DependencyUnavailable(
            "the o200k tokenizer is not on this machine: install litellm, or fill TIKTOKEN_CACHE_DIR",
            dependency="tokenizer",
        )
    return encodings.tokens(_ENCODING, text)


def within(budget: int, ranked: Iterable[int], documents: Sequence[Document]) -> list[int]:
    """The best-ranked documents that fit the budget together; one that does not fit is passed over."""
    found = []
    for place in ranked:
        cost = tokens(documents[place].charged)
        if cost <= budget:
            found.append(place)
            budget -= cost
    return found
