"""Who a session speaks for: job, run, principal and roles, bound once and sent with every call.

Nothing that a model writes can name another scope: the scope travels beside requests, never in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mn_contract.limits import ROLES_MAX
from mn_contract.names import check_id, read_names


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionScope:
    """(job, run, principal, roles). Raises InvalidInput. One role may stand without a list; kept is a tuple."""

    job_id: str
    run_id: str
    principal: str
    roles: Iterable[str] = ()

    def __post_init__(self) -> None:
        for name in ("job_id", "run_id", "principal"):
            check_id(getattr(self, name), name)
        object.__setattr__(self, "roles", read_names(self.roles, "roles", check_id, ROLES_MAX))

    def headers(self) -> Mapping[str, str]:
        """The scope as it travels: metadata of gRPC, headers of HTTP."""
        named = {"mn-job-id": self.job_id, "mn-run-id": self.run_id, "mn-principal": self.principal}
        roles = ",".join(self.roles)
        return {**named, "mn-roles": roles} if roles else named
