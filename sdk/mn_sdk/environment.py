"""The only place where the SDK reads its configuration from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping


def engine_address(environment: Mapping[str, str] | None = None) -> str | None:
    """MN_CONTEXT_ADDR: where the engine is dialled; None where sessions are embedded."""
    env = os.environ if environment is None else environment
    return env.get("MN_CONTEXT_ADDR") or None


def auth_token(environment: Mapping[str, str] | None = None) -> str | None:
    """MN_CONTEXT_AUTH_TOKEN: the bearer that is sent to the engine; None where none is."""
    env = os.environ if environment is None else environment
    return env.get("MN_CONTEXT_AUTH_TOKEN", "").strip() or None
