"""Tokenizers, found on this machine: in the user's tiktoken cache, or among the files that the litellm wheel carries.

Nothing is downloaded and litellm is not imported. Without a file there is no tokenizer, and `tokens` answers the only
bound that then holds: byte-level tokenizers never make more tokens than there are bytes.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import tiktoken

O200K: Final = "o200k_base"
CL100K: Final = "cl100k_base"

_FILES: Final = {
    name: hashlib.sha1(
        f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken".encode(), usedforsecurity=False
    ).hexdigest()
    for name in (O200K, CL100K)
}
"""File names in a tiktoken cache: the SHA-1 of the address that tiktoken would load an encoding from."""

_MEMO_ENTRIES: Final = 16_384
_SHORT_BYTES: Final = 64
"""Up to here a text is its own memo key; a longer one is kept by its digest."""

_SLICE_CHARACTERS: Final = 65_536
"""The tokenizer is given no more at once: on white space that runs on for some 300,000 characters it panics."""
_CUT_CHARACTERS: Final = 4096
"""How far before a slice's end a place to cut is looked for."""
_WORD_START: Final = re.compile(r"(?<=[^\W\d_]) (?=[^\W\d_])")
"""A space between two letters, where every encoding begins a piece: a cut there changes no count."""

_lock: Final = threading.Lock()
_loaded: Final[dict[str, tiktoken.Encoding | None]] = {}
_memo: Final[OrderedDict[tuple[str, str | bytes], int]] = OrderedDict()


def tokens(name: str, text: str) -> int:
    """How many tokens `text` is in encoding `name`, special tokens read as plain text. Memoized by content.

    Where the encoding is not on this machine: the number of UTF-8 bytes (see `available`).
    """
    data = text.encode("utf-8", "replace")
    key = (name, text if len(data) <= _SHORT_BYTES else hashlib.blake2b(data, digest_size=16).digest())
    with _lock:
        known = _memo.get(key)
        if known is not None:
            _memo.move_to_end(key)
            return known
    tokenizer = _load(name)
    size = len(data) if tokenizer is None else sum(len(tokenizer.encode_ordinary(piece)) for piece in _slices(text))
    with _lock:
        _memo[key] = size
        while len(_memo) > _MEMO_ENTRIES:
            _memo.popitem(last=False)
    return size


def _slices(text: str) -> Iterator[str]:
    """The text in slices that the tokenizer can take. Only where no word begins is one cut elsewhere: that may cost a
    token more."""
    start = 0
    while len(text) - start > _SLICE_CHARACTERS:
        end = start + _SLICE_CHARACTERS
        words = [found.start() for found in _WORD_START.finditer(text, end - _CUT_CHARACTERS, end)]
        end = words[-1] if words else end
        yield text[start:end]
        start = end
    yield text[start:]


def available(name: str) -> bool:
    """Whether the encoding is on this machine."""
    return _load(name) is not None


def _load(name: str) -> tiktoken.Encoding | None:
    if name in _loaded:
        return _loaded[name]
    with _lock:
        if name not in _loaded:
            directory = next((place for place in _directories() if (place / _FILES[name]).is_file()), None)
            _loaded[name] = None if directory is None else _read(name, directory)
        return _loaded[name]


def _directories() -> list[Path]:
    """Where encodings may lie, first choice first."""
    given = [os.environ.get(variable) for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")]
    places = [Path(value) for value in given if value]
    spec = importlib.util.find_spec("litellm")
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        places.append(Path(root) / "litellm_core_utils" / "tokenizers")
    return [*places, Path(tempfile.gettempdir()) / "data-gym-cache"]


def _read(name: str, directory: Path) -> tiktoken.Encoding:
    # tiktoken takes its cache's place from the environment alone; the variable is put back at once. It checks the
    # file's hash itself.
    import tiktoken

    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(directory)
    try:
        return tiktoken.get_encoding(name)
    finally:
        if before is None:
            del os.environ["TIKTOKEN_CACHE_DIR"]
        else:
            os.environ["TIKTOKEN_CACHE_DIR"] = before
