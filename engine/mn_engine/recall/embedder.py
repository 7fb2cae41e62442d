"""The port of embedders: what makes vectors of texts. Adapters live in `mn_engine.embedding`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from mn_engine.recall.lexicon import Lexicon
from mn_engine.recall.vectors import DIMENSIONS


class Embedder(Protocol):
    """Makes vectors of texts."""

    @property
    def version(self) -> str:
        """Names the vectors: those of another version are not comparable."""

    @property
    def lexicon(self) -> Lexicon:
        """Its words, and which are near each other."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        """A row of DIMENSIONS a text; zeros for a text that says nothing."""


class NoEmbedder:
    """Knows no words: questions and cards are what they say."""

    version: Final = "none"
    lexicon: Final = Lexicon.empty()

    def embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        """See Embedder."""
        return np.zeros((len(texts), DIMENSIONS), np.int8)
