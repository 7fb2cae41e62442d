"""Who a session speaks for: job, run, principal and roles, bound once and sent with every call.

Nothing that a model writes can name another scope: the scope travels beside requests, never in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mn_contract.errors import InvalidInput
from mn_contract.limits import ROLES_MAX
from mn_contract.names import check_id


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionScope:
    """(job, run, principal, roles)."""

    job_id: str
    run_id: str
    principal: str
    roles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("job_id", "run_id", "principal"):
            check_id(getattr(self, name), name)
        if len(self.roles) > ROLES_MAX:
            raise InvalidInput(f"roles: at most {ROLES_MAX}", field="roles")
        for role in self.roles:
            check_id(role, "roles")

    def headers(self) -> Mapping[str, str]:
        """The scope as it travels: metadata of gRPC, headers of HTTP."""
        named = {"mn-job-id": self.job_id, "mn-run-id": self.run_id, "mn-principal": self.principal}
        return {**named, "mn-roles": ",".join(self.roles)} if self.roles else named
