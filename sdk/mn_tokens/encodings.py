"""Tokenizers, found on this machine: in the user's tiktoken cache, or among the files that installed wheels carry.

Nothing is downloaded, and no package is imported for its files. Without a file there is no tokenizer, and `tokens`
answers the only bound that then holds: byte-level tokenizers never make more tokens than there are bytes.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

O200K: Final = "o200k_base"
CL100K: Final = "cl100k_base"
CLAUDE: Final = "claude-2"
"""Anthropic's last public tokenizer; models since Claude 3 have others."""
DEEPSEEK: Final = "deepseek-v3"

_TIKTOKEN: Final = {
    name: hashlib.sha1(
        f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken".encode(), usedforsecurity=False
    ).hexdigest()
    for name in (O200K, CL100K)
}
"""File names in a tiktoken cache: the SHA-1 of the address that tiktoken would load an encoding from."""
_JSON: Final = {CLAUDE: "anthropic_tokenizer.json", DEEPSEEK: "deepseek_tokenizer.json"}
"""Files in the format of Hugging Face's tokenizers."""

_SLICE_CHARACTERS: Final = 65_536
"""A tokenizer is given no more at once: on white space that runs on for some 300,000 characters tiktoken panics."""
_CUT_CHARACTERS: Final = 4096
"""How far before a slice's end a place to cut is looked for."""
_WORD_START: Final = re.compile(r"(?<=[^\W\d_]) (?=[^\W\d_])")
"""A space between two letters, where every encoding begins a piece: a cut there changes no count."""

Size = Callable[[str], int]
"""The tokens of a text, special tokens read as plain text."""

_lock: Final = threading.Lock()
_loaded: Final[dict[str, Size | None]] = {}


def tokens(name: str, text: str) -> int:
    """How many tokens `text` is in encoding `name`, special tokens read as plain text.

    Where the encoding is not on this machine: the number of UTF-8 bytes (see `available`).
    """
    size = _load(name)
    clean = text.encode("utf-8", "replace").decode("utf-8")
    if size is None:
        return len(clean.encode("utf-8"))
    return sum(size(piece) + cut for piece, cut in _slices(clean))


def available(name: str) -> bool:
    """Whether the encoding is on this machine."""
    return _load(name) is not None


def _slices(text: str) -> Iterator[tuple[str, int]]:
    """The text in slices that the tokenizer can take, and how many tokens fewer each may be than in the whole: one
    where no word begins at its end, so that it is cut anywhere."""
    start = 0
    while len(text) - start > _SLICE_CHARACTERS:
        end = start + _SLICE_CHARACTERS
        words = [found.start() for found in _WORD_START.finditer(text, end - _CUT_CHARACTERS, end)]
        end = words[-1] if words else end
        yield text[start:end], 0 if words else 1
        start = end
    yield text[start:], 0


def _load(name: str) -> Size | None:
    if name in _loaded:
        return _loaded[name]
    with _lock:
        if name not in _loaded:
            file = _TIKTOKEN.get(name) or _JSON[name]
            directory = next((place for place in _directories() if (place / file).is_file()), None)
            read = _read_tiktoken if name in _TIKTOKEN else _read_json
            _loaded[name] = None if directory is None else read(name, directory)
        return _loaded[name]


def _directories() -> list[Path]:
    """Where encodings may lie, first choice first."""
    given = [os.environ.get(variable) for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")]
    places = [Path(value) for value in given if value]
    spec = importlib.util.find_spec("litellm")
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        places.append(Path(root) / "litellm_core_utils" / "tokenizers")
    return [*places, Path(tempfile.gettempdir()) / "data-gym-cache"]


def _read_tiktoken(name: str, directory: Path) -> Size:
    # tiktoken takes its cache's place from the environment alone; the variable is put back at once. It checks the
    # file's hash itself.
    import tiktoken

    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(directory)
    try:
        encoding = tiktoken.get_encoding(name)
    finally:
        if before is None:
            del os.environ["TIKTOKEN_CACHE_DIR"]
        else:
            os.environ["TIKTOKEN_CACHE_DIR"] = before
    return lambda text: len(encoding.encode_ordinary(text))


def _read_json(name: str, directory: Path) -> Size:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(directory / _JSON[name]))
    tokenizer.encode_special_tokens = True
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False))
