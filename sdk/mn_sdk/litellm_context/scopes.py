"""What a request asks of a run, and what its key may: the request names the run, the key alone names the principal.

Nothing that a client, or a model through it, writes can name another principal, other roles or a job that the key was
not given (invariant 7). Absent and forbidden are one answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from mn_contract.errors import InvalidInput, PermissionDenied
from mn_contract.names import check_id
from mn_sdk.arguments import read_flag, read_number
from mn_sdk.context_session.decision import Turning, read_turning
from mn_sdk.litellm_context.settings import read_object
from mn_sdk.scope import SessionScope

ANY_JOB: Final = "*"
_TURN: Final[Mapping[str, Any]] = {
    "focus": "", "required_fields": None, "final": False, "required_refs": (), "topics": (), "claims": (),
    "retry": None, "rotation": None,
}  # fmt: skip
"""Arguments of a session's turn, and what stands for those that a request leaves out."""
_KEYS: Final = frozenset({"job_id", "run_id", "name", "inject", "deadline", *_TURN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What `metadata.membrane` of a request asks. `deadline` is in epoch seconds."""

    job_id: str
    run_id: str
    turning: Turning
    deadline: float | None


def read_wish(given: Any, unnamed: str) -> Wish:
    """A request's wish; `unnamed` is the call's name where it has none of its own. Raises InvalidInput.

    A call without a name cannot be repeated by it: it leaves a receipt, and its answer becomes no record.
    """
    asked = read_object(given, "metadata.membrane", _KEYS)
    named = asked.get("name") is not None
    inject = read_flag(asked.get("inject", True), "inject")
    if asked.get("retry") is not None and not named:
        raise InvalidInput("retry names another attempt of a call that has a name; give both", field="retry")
    turning = read_turning(
        asked["name"] if named else unnamed, **{name: asked.get(name, value) for name, value in _TURN.items()}
    )
    deadline = asked.get("deadline")
    return Wish(
        job_id=check_id(asked.get("job_id", ""), "job_id"),
        run_id=check_id(asked.get("run_id", ""), "run_id"),
        turning=replace(turning, recall=inject, write_back=named and inject),
        deadline=None if deadline is None else read_number(deadline, "deadline"),
    )


def read_scope(wish: Wish, key: Mapping[str, Any], team: Mapping[str, Any]) -> SessionScope:
    """The scope of a wish, by the metadata of the proxy's key and of its team: `membrane_principal`, `membrane_jobs`
    (names, or "*" for any) and `membrane_roles`.

    Where the team has any of it the key's own counts for nothing: proxies may let users make keys for themselves.
    Raises PermissionDenied.
    """
    names = ("membrane_principal", "membrane_jobs", "membrane_roles")
    granted = team if any(name in team for name in names) else key
    principal, jobs, roles = (granted.get(name) for name in names)
    listed = (jobs,) if isinstance(jobs, str) else jobs if isinstance(jobs, list) else ()
    if not principal or (ANY_JOB not in listed and wish.job_id not in listed):
        raise PermissionDenied(
            "this key may not use that job; an administrator gives it membrane_principal and membrane_jobs in the "
            "metadata of the key or its team"
        )
    try:
        return SessionScope(job_id=wish.job_id, run_id=wish.run_id, principal=principal, roles=roles or ())
    except InvalidInput as error:
        raise PermissionDenied(
            f"the metadata of this key or its team grants nothing: membrane_{error.field} is not usable"
        ) from error
