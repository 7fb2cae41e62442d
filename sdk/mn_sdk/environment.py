"""The only place where the SDK reads its configuration from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

COUNTER_FACTORY: Final = "MN_CONTEXT_TOKEN_COUNTER_FACTORY"


def engine_address(environment: Mapping[str, str] | None = None) -> str | None:
    """MN_CONTEXT_ADDR: where the engine is dialled; None where sessions are embedded."""
    env = os.environ if environment is None else environment
    return env.get("MN_CONTEXT_ADDR") or None


def auth_token(environment: Mapping[str, str] | None = None) -> str | None:
    """MN_CONTEXT_AUTH_TOKEN: the bearer that is sent to the engine; None where none is."""
    env = os.environ if environment is None else environment
    return env.get("MN_CONTEXT_AUTH_TOKEN", "").strip() or None


def token_counter_factory(environment: Mapping[str, str] | None = None) -> str | None:
    """MN_CONTEXT_TOKEN_COUNTER_FACTORY, `module:function`: makes what counts requests; None where we count."""
    env = os.environ if environment is None else environment
    return env.get(COUNTER_FACTORY, "").strip() or None


def model_settings(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The model that is called where a program names none, as arguments of litellm: MN_LLM_MODEL, MN_LLM_API_BASE and
    MN_LLM_API_KEY, or the same with LITELLM in the place of MN_LLM. Only what is set."""
    env = os.environ if environment is None else environment
    found = {
        name.lower(): env.get(f"MN_LLM_{name}") or env.get(f"LITELLM_{name}")
        for name in ("MODEL", "API_BASE", "API_KEY")
    }
    return {name: value for name, value in found.items() if value}
