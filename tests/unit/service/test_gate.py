"""From headers to a scope (invariant 7: there is no default principal)."""

from __future__ import annotations

import hashlib

import pytest

from mn_contract.errors import InvalidInput, PermissionDenied, Unauthenticated
from mn_engine.faces.gate import BoundToken, Gate, headers_of

SCOPE = {"mn-job-id": "job", "mn-run-id": "run", "mn-principal": "alice"}


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


BOUND = BoundToken(
    sha256=_hash("bound"), principal="alice", roles=frozenset({"reader", "writer"}), jobs=frozenset({"job"})
)
GATE = Gate(trusted_sha256=_hash("trusted"), bound=(BOUND,))


@pytest.mark.parametrize("missing", SCOPE)
def test_a_missing_scope_is_an_error_that_names_the_header(missing: str) -> None:
    headers = {name: value for name, value in SCOPE.items() if name != missing}
    with pytest.raises(InvalidInput) as caught:
        Gate().admit(headers)
    assert caught.value.field == missing


@pytest.mark.parametrize("bad", ["", "Bearer", "Bearer  ", "Basic trusted", "Bearer wrong", "trusted"])
def test_without_a_known_token_nothing_is_told(bad: str) -> None:
    with pytest.raises(Unauthenticated):
        GATE.admit({**SCOPE, "authorization": bad})


def test_the_trusted_token_names_any_scope() -> None:
    scope = GATE.admit({**SCOPE, "mn-principal": "anyone", "mn-roles": "a, b", "authorization": "bearer trusted"})
    assert (scope.principal, scope.roles) == ("anyone", frozenset({"a", "b"}))


def test_a_bound_token_stands_for_its_principal() -> None:
    headers = {"mn-job-id": "job", "mn-run-id": "run", "authorization": "Bearer bound"}
    scope = GATE.admit(headers)
    assert (scope.principal, scope.roles) == ("alice", BOUND.roles)
    assert GATE.admit({**headers, "mn-roles": "reader"}).roles == frozenset({"reader"})


@pytest.mark.parametrize(
    "change", [{"mn-principal": "bob"}, {"mn-job-id": "other"}, {"mn-roles": "reader,admin"}, {"mn-principal": ""}]
)
def test_a_header_that_disagrees_with_a_bound_token_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(PermissionDenied):
        GATE.admit({**SCOPE, **change, "authorization": "Bearer bound"})


@pytest.mark.parametrize("name", [*SCOPE, "mn-roles", "authorization", "mn-detail-bytes-max"])
def test_a_name_of_the_contract_that_is_given_twice_is_refused(name: str) -> None:
    """Which of two principals was meant is not for us to guess."""
    with pytest.raises(InvalidInput) as caught:
        headers_of([*SCOPE.items(), (name, "one"), (name, "one")])
    assert caught.value.field == name


def test_other_names_may_repeat_and_binary_values_are_nobodys_scope() -> None:
    pairs = [*SCOPE.items(), ("traceparent", "a"), ("traceparent", "b"), ("x-bin", b"1")]
    assert headers_of(pairs) == {**SCOPE, "traceparent": "b"}
