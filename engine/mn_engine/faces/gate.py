"""Who asks: from headers to a scope. One gate for every face; without a scope nothing is served (invariant 7).

Where no token is configured the gate trusts its caller's headers, and the server listens on loopback only. The trusted
runtime's token may name any scope. A bound token has a principal, roles and jobs of its own; a header that disagrees
with it is refused.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mn_contract.errors import InvalidInput, PermissionDenied, Unauthenticated
from mn_engine.domain.scope import Scope

JOB: Final = "mn-job-id"
RUN: Final = "mn-run-id"
PRINCIPAL: Final = "mn-principal"
ROLES: Final = "mn-roles"
AUTHORIZATION: Final = "authorization"
DETAIL_BYTES_MAX: Final = "mn-detail-bytes-max"
TIMEOUT_MS: Final = "mn-timeout-ms"
_ONCE: Final = frozenset({JOB, RUN, PRINCIPAL, ROLES, AUTHORIZATION, DETAIL_BYTES_MAX, TIMEOUT_MS})


def headers_of(pairs: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """The text among a call's (name in lower case, value) pairs.

    Raises InvalidInput where a name of the contract stands there twice: two proxies, or a proxy and a client, may each
    have meant one of the values, and a guess would be somebody else's scope.
    """
    headers: dict[str, str] = {}
    for name, value in pairs:
        if name in headers and name in _ONCE:
            raise InvalidInput(f"{name} is given twice; give it once", field=name)
        if isinstance(value, str):
            headers[name] = value
    return headers


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundToken:
    """A bearer that stands for one principal. `jobs` None means any."""

    sha256: str
    principal: str
    roles: frozenset[str]
    jobs: frozenset[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The tokens that a server knows. `trusted_sha256` is that of the runtime's token, or empty."""

    trusted_sha256: str = ""
    bound: tuple[BoundToken, ...] = ()

    @property
    def open(self) -> bool:
        """Whether no token is configured."""
        return not self.trusted_sha256 and not self.bound

    def admit(self, headers: Mapping[str, str]) -> Scope:
        """The scope that `headers` (names in lower case) ask for. Raises Unauthenticated, PermissionDenied,
        InvalidInput."""
        token = None if self.open else self._token(headers.get(AUTHORIZATION, ""))
        if token is None:
            return _asked(headers, principal=headers.get(PRINCIPAL, ""), roles=_roles(headers))
        if headers.get(PRINCIPAL, token.principal) != token.principal:
            raise PermissionDenied(f"the token is not for the principal that {PRINCIPAL} names")
        if token.jobs is not None and headers.get(JOB, "") not in token.jobs:
            raise PermissionDenied(f"the token is not for the job that {JOB} names")
        roles = _roles(headers) if ROLES in headers else token.roles
        if not roles <= token.roles:
            raise PermissionDenied(f"the token does not have every role that {ROLES} names")
        return _asked(headers, principal=token.principal, roles=roles)

    def _token(self, authorization: str) -> BoundToken | None:
        """The bound token, or None for the trusted one."""
        scheme, _, value = authorization.partition(" ")
        if scheme.lower() != "bearer" or not value.strip():
            raise Unauthenticated("this server wants `authorization: Bearer TOKEN`")
        sha256 = hashlib.sha256(value.strip().encode("utf-8", "surrogateescape")).hexdigest()
        if self.trusted_sha256 and hmac.compare_digest(sha256, self.trusted_sha256):
            return None
        known = [token for token in self.bound if hmac.compare_digest(sha256, token.sha256)]
        if not known:
            raise Unauthenticated("the token is not known to this server")
        return known[0]


def _asked(headers: Mapping[str, str], *, principal: str, roles: frozenset[str]) -> Scope:
    for name, value in ((JOB, headers.get(JOB)), (RUN, headers.get(RUN)), (PRINCIPAL, principal)):
        if not value:
            raise InvalidInput(f"{name} is missing: every call names its job, run and principal", field=name)
    return Scope(job_id=headers[JOB], run_id=headers[RUN], principal=principal, roles=roles)


def _roles(headers: Mapping[str, str]) -> frozenset[str]:
    return frozenset(role.strip() for role in headers.get(ROLES, "").split(",") if role.strip())
