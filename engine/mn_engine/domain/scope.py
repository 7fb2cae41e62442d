"""Who asks, and about which run: the scope that every use case and every store call takes. There is no default."""

from __future__ import annotations

from dataclasses import dataclass

from mn_contract.canonical import digest
from mn_contract.errors import InvalidInput
from mn_contract.limits import ROLES_MAX
from mn_contract.names import check_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """(job, run, principal, roles), bound by the SDK, the channel or the token; never by model-written arguments."""

    job_id: str
    run_id: str
    principal: str
    roles: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        check_id(self.job_id, "job_id")
        check_id(self.run_id, "run_id")
        check_id(self.principal, "principal")
        if len(self.roles) > ROLES_MAX:
            raise InvalidInput(f"roles: at most {ROLES_MAX}", field="roles")
        for role in self.roles:
            check_id(role, "roles")

    @property
    def run_key(self) -> str:
        """The run's key in every store."""
        return run_key(self.job_id, self.run_id)


def run_key(job_id: str, run_id: str) -> str:
    """The key of a run: 32 hex digits derived from job and run together, so that ("a/b", "c") is not ("a", "b/c")."""
    return digest([job_id, run_id])[:32]
