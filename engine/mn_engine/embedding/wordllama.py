"""The lexicon of wordllama's packaged vectors: its tokenizer's whole words, each as analysis sees it.

wordllama itself is not imported: its weights and its tokenizer's vocabulary are two files in its wheel.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import struct
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mn_contract.errors import DependencyUnavailable
from mn_engine.recall.analysis import term_hash, terms
from mn_engine.recall.lexicon import Lexicon, quantized

_WEIGHTS: Final = "weights/l2_supercat_256.safetensors"
_TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"
_WORD_START: Final = "▁"
_WORD_MIN: Final = 3
_SCALE: Final = 4096
"""Half-precision weights times this are integers within 32 bits; what is smaller is rounded."""


@lru_cache(maxsize=1)
def load_lexicon() -> Lexicon:
    """The lexicon, read once a process. Raises DependencyUnavailable where wordllama is not installed whole."""
    spec = importlib.util.find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise DependencyUnavailable("wordllama is not installed; install mn-context again", dependency="wordllama")
    folder = Path(next(iter(spec.submodule_search_locations)))
    try:
        weights = _weights((folder / _WEIGHTS).read_bytes())
        vocabulary = json.loads((folder / _TOKENIZER).read_text(encoding="utf-8"))["model"]["vocab"]
    except (OSError, ValueError, KeyError, struct.error) as error:
        raise DependencyUnavailable(
            "wordllama's vectors cannot be read; install mn-context again", dependency="wordllama"
        ) from error
    words = _words(vocabulary)
    sums = np.zeros((len(words), weights.shape[1]), np.int64)
    for row, tokens in enumerate(words.values()):
        sums[row] = weights[tokens].sum(axis=0)
    version = f"wordllama {importlib.metadata.version('wordllama')}"
    return Lexicon(version, [term_hash(word) for word in words], quantized(sums))


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


def _weights(file: bytes) -> NDArray[np.int64]:
    """The one matrix of a safetensors file: a header's length, the header as JSON, then half-precision numbers."""
    (length,) = struct.unpack_from("<Q", file)
    header: dict[str, Any] = json.loads(file[8 : 8 + length])
    ((_, told),) = [(name, tensor) for name, tensor in header.items() if name != "__metadata__"]
    if told["dtype"] != "F16":
        raise ValueError(f"weights are {told['dtype']}")
    start, end = told["data_offsets"]
    matrix = np.frombuffer(file[8 + length + start : 8 + length + end], "<f2").reshape(told["shape"])
    scaled: NDArray[np.int64] = np.rint(matrix.astype(np.float64) * _SCALE).astype(np.int64)
    return scaled
