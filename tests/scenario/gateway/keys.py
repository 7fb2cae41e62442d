"""A custom_auth of the proxy's, which stands in for its database of keys: the metadata of each, and of its team."""

from __future__ import annotations

from typing import Any

KEYS: dict[str, dict[str, Any]] = {
    "sk-nothing": {},
    "sk-alice": {"metadata": {"membrane_principal": "alice", "membrane_jobs": ["pricing"]}},
    "sk-bob": {"metadata": {"membrane_principal": "bob", "membrane_jobs": ["*"]}},
    "sk-boss": {
        "metadata": {"membrane_principal": "alice", "membrane_jobs": ["pricing"], "membrane_roles": ["boss"]},
    },
    "sk-garbage": {"metadata": {"membrane_principal": "not an id!", "membrane_jobs": ["pricing"]}},
    "sk-team": {
        "metadata": {"membrane_principal": "alice", "membrane_jobs": ["*"]},
        "team_metadata": {"membrane_principal": "carol", "membrane_jobs": ["research"]},
    },
}


async def authenticate(request: Any, api_key: str) -> Any:
    """The proxy's own record of a key."""
    from litellm.proxy._types import UserAPIKeyAuth

    return UserAPIKeyAuth(api_key=api_key, **KEYS[api_key])
