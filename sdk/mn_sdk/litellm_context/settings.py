"""The gateway's settings, as they stand in the proxy's YAML. What is not known is refused: a misspelt limit is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from mn_contract.errors import InvalidInput
from mn_sdk.arguments import read_folder
from mn_sdk.context_session.policy import ContextPolicy

_RUNS: Final = "max_storage_bytes"
"""The one field of a policy that is the run's, whoever writes to it, and no call's."""
POLICY_FIELDS: Final = frozenset(field.name for field in fields(ContextPolicy)) - {_RUNS}
PASSABLE_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`root` is where calls are journaled, and, where no engine is named, where the record lies; None refuses requests
    that name a run. `policy` are fields of ContextPolicy for every model. `passed` are call types of the proxy's that
    would be refused and go through uncounted."""

    root: Path | None = None
    policy: Mapping[str, Any] = field(default_factory=dict)
    passed: frozenset[str] = frozenset()


def read_settings(given: Any) -> Settings:
    """Settings from `callback_settings.membrane`. Raises InvalidInput."""
    known = read_object(given, "callback_settings.membrane", frozenset({"root", "policy", "pass"}))
    root = known.get("root")
    passed = known.get("pass", [])
    named = isinstance(passed, list) and all(isinstance(name, str) for name in passed)
    if not named or len(passed) > PASSABLE_MAX:
        raise InvalidInput("pass must be a list of the proxy's call types, such as [aresponses]", field="pass")
    policy = read_object(known.get("policy", {}), "callback_settings.membrane.policy", POLICY_FIELDS)
    ContextPolicy(**policy)
    return Settings(root=None if root is None else read_folder(root, "root"), policy=policy, passed=frozenset(passed))


def read_object(value: Any, name: str, keys: frozenset[str]) -> dict[str, Any]:
    """An object that has no other keys than these. Raises InvalidInput naming `name`."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{name} must be an object", field=name)
    unknown = sorted(str(key) for key in value if key not in keys)
    if unknown:
        raise InvalidInput(
            f"{name} has no {', '.join(unknown)[:200]}; it may have {', '.join(sorted(keys))}", field=name
        )
    return dict(value)
