"""Canonical JSON bytes and their SHA-256, under the names that existing programs import."""

from mn_contract.canonical import digest, encoded

__all__ = ["digest", "encoded"]
