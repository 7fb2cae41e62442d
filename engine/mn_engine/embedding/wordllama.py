"""wordllama's vectors of tokens, summed in integers; its lexicon: its tokenizer's whole words.

wordllama itself is not imported: its weights and its tokenizer are two files in its wheel.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import struct
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from mn_contract.errors import DependencyUnavailable
from mn_engine.recall.analysis import term_hash, terms
from mn_engine.recall.lexicon import Lexicon
from mn_engine.recall.vectors import quantized

_WEIGHTS: Final = "weights/l2_supercat_256.safetensors"
_TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"
_WORD_START: Final = "▁"
_WORD_MIN: Final = 3
_SCALE: Final = 4000
"""Weights, which are at most 8.1, times this are integers of 16 bits; what is smaller is rounded."""


class WordLlama:
    """wordllama's vectors: of a text, the sum of its tokens'. Thread-safe."""

    def __init__(self, weights: NDArray[np.int16], tokenizer: Tokenizer, version: str) -> None:
        self.version = version
        self._weights = weights
        self._tokenizer = tokenizer
        words = _words(tokenizer.get_vocab())
        sums = np.stack([self._sum(tokens) for tokens in words.values()])
        self.lexicon = Lexicon([term_hash(word) for word in words], quantized(sums))

    def embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        """See Embedder."""
        found = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return quantized(np.stack([self._sum(one.ids) for one in found]))

    def _sum(self, tokens: list[int]) -> NDArray[np.int64]:
        total: NDArray[np.int64] = self._weights[tokens].sum(axis=0, dtype=np.int64)
        return total


@lru_cache(maxsize=1)
def load() -> WordLlama:
    """The embedder, read once a process. Raises DependencyUnavailable where wordllama is not installed whole."""
    spec = importlib.util.find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise DependencyUnavailable("wordllama is not installed; install mn-context again", dependency="wordllama")
    folder = Path(next(iter(spec.submodule_search_locations)))
    try:
        weights = _weights((folder / _WEIGHTS).read_bytes())
        tokenizer = Tokenizer.from_str((folder / _TOKENIZER).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, struct.error) as error:
        raise DependencyUnavailable(
            "wordllama's vectors cannot be read; install mn-context again", dependency="wordllama"
        ) from error
    return WordLlama(weights, tokenizer, f"wordllama {importlib.metadata.version('wordllama')}")


def _words(vocabulary: dict[str, int]) -> dict[str, list[int]]:
    """Term -> the tokens that are whole words of it."""
    found: dict[str, list[int]] = {}
    for token, number in sorted(vocabulary.items(), key=lambda item: item[1]):
        word = token[1:]
        if token.startswith(_WORD_START) and len(word) >= _WORD_MIN and word.isalpha():
            analysed = tuple(terms(word))
            if len(analysed) == 1:
                found.setdefault(analysed[0], []).append(number)
    return found


def _weights(file: bytes) -> NDArray[np.int16]:
    """The one matrix of a safetensors file: a header's length, the header as JSON, then half-precision numbers."""
    (length,) = struct.unpack_from("<Q", file)
    header: dict[str, Any] = json.loads(file[8 : 8 + length])
    ((_, told),) = [(name, tensor) for name, tensor in header.items() if name != "__metadata__"]
    if told["dtype"] != "F16":
        raise ValueError(f"weights are {told['dtype']}")
    start, end = told["data_offsets"]
    matrix = np.frombuffer(file[8 + length + start : 8 + length + end], "<f2").reshape(told["shape"])
    scaled = np.rint(matrix.astype(np.float64) * _SCALE)
    if np.abs(scaled).max() > np.iinfo(np.int16).max:
        raise ValueError("weights are larger than expected")
    weights: NDArray[np.int16] = scaled.astype(np.int16)
    return weights
