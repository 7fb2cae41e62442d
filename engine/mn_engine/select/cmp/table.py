"""The numbers that a pack is chosen by, in one place. Integers: the same pack on every machine (invariant 5)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mn_contract.smp import LAYERS

ONE: Final = 1024
"""Relevance, recency, trust and priors are in 1024ths."""

PRIORS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "constraints": 1024,
        "decisions": 922,
        "facts": 870,
        "open_loops": 870,
        "procedures": 768,
        "identity": 717,
        "entity": 717,
        "recency": 614,
    }
)
"""What a layer is worth before anything is known of an item."""

SHARES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "constraints": 15,
        "decisions": 15,
        "facts": 25,
        "entity": 10,
        "procedures": 10,
        "identity": 5,
        "open_loops": 10,
        "recency": 10,
    }
)
"""The part of a generic pack that each layer is offered first, in hundredths."""

HALF_LIFE_MICROS: Final = 30 * 24 * 60 * 60 * 1_000_000
REDUNDANCY_PENALTY: Final = 358
"""What an item loses of its utility that says the same as one above it: .35, in 1024ths."""
ITEM_OVERHEAD_TOKENS: Final = 1
"""Beside an item's own text: tokenizers may join what stands alone here with what comes before it."""
TRUST_UNKNOWN: Final = 512
TRUST_VALIDATED: Final = 922
TRUST_REJECTED: Final = 102

assert set(PRIORS) == set(SHARES) == set(LAYERS)
assert sum(SHARES.values()) == 100
