"""The contract that every part of Membrane shares: canonical JSON, errors, limits, names, documents, invocation
states."""

from mn_contract.canonical import digest, encoded
from mn_contract.errors import ContextError

__all__ = ["ContextError", "digest", "encoded"]
