"""Who may read a card or an artifact (invariant 7). One rule, used as a predicate and, in recall, as a mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from mn_contract.errors import InvalidInput
from mn_contract.limits import ROLES_MAX
from mn_contract.names import check_id
from mn_engine.domain.scope import Scope

_LISTS: Final = ("allow_principals", "allow_roles", "deny_principals", "deny_roles", "require_roles")


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """Allow and deny lists, and roles that each reader must hold. Empty: every principal of the run reads."""

    allow_principals: frozenset[str] = frozenset()
    allow_roles: frozenset[str] = frozenset()
    deny_principals: frozenset[str] = frozenset()
    deny_roles: frozenset[str] = frozenset()
    require_roles: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in _LISTS:
            entries: frozenset[str] = getattr(self, name)
            if len(entries) > ROLES_MAX:
                raise InvalidInput(f"acl.{name}: at most {ROLES_MAX}", field=f"acl.{name}")
            for entry in entries:
                check_id(entry, f"acl.{name}")

    def permits(self, reader: Scope, *, owner: str) -> bool:
        """Whether `reader` may read what `owner` wrote. A deny or a role that is missing wins, even over the owner."""
        if reader.principal in self.deny_principals or self.deny_roles & reader.roles:
            return False
        if not self.require_roles <= reader.roles:
            return False
        if not self.allow_principals and not self.allow_roles:
            return True
        return (
            reader.principal == owner
            or reader.principal in self.allow_principals
            or bool(self.allow_roles & reader.roles)
        )

    def within(self, wider: Acl) -> bool:
        """Whether whoever this permits, its owner aside, is permitted by `wider` too (sufficient, not necessary)."""
        barred = (
            wider.deny_principals <= self.deny_principals
            and wider.deny_roles <= self.deny_roles
            and wider.require_roles <= self.require_roles
        )
        if not wider.allow_principals and not wider.allow_roles:
            return barred
        listed = bool(self.allow_principals or self.allow_roles)
        return (
            barred
            and listed
            and self.allow_principals <= wider.allow_principals
            and self.allow_roles <= wider.allow_roles
        )

    def as_json(self) -> dict[str, list[str]]:
        """Its canonical form: sorted lists, empty ones left out."""
        return {name: sorted(entries) for name in _LISTS if (entries := getattr(self, name))}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Acl:
        """The inverse of as_json."""
        return cls(**{name: frozenset(entries) for name, entries in value.items()})


OPEN = Acl()
"""Every principal of the run reads."""
