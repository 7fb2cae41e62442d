"""64-bit hashes that stand for names in columns and indexes."""

from __future__ import annotations

from hashlib import blake2b


def hash64(text: str) -> int:
    """64 bits that stand for a text, the same on every machine."""
    return int.from_bytes(blake2b(text.encode("utf-8"), digest_size=8).digest(), "little")
