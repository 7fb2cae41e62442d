"""What callers hand to a session: whatever it is, it is taken, or one typed error names the argument."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mn_contract.errors import ContextError, InvalidInput
from mn_sdk.client import runtime_client
from mn_sdk.context_session import ContextPolicy, ContextSession
from mn_sdk.scope import SessionScope


def _deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


KNOWN: list[Any] = [
    None, True, False, 0, -1, 5, 2**31, 2**63, 2**64, 10**400, 0.5, -0.0, math.nan, math.inf, -math.inf, Decimal("0.5"),
    1j, "", "a", "no", "a b", "a\n", "a\0b", "\ud800", "ä", "x" * 200, "x" * 3000, "e1", "p:e1", ":", "a:b:c",
    "2020-01-01", "2020-01-01T00:00:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", b"", b"a", b"\xff",
    bytearray(b"abc"), memoryview(b"abc"), [], (), {}, set(), [None], [1], [["a"]], ["\ud800"], [""], ["a"] * 300,
    ("a", 0, 5), [("a", 0, 5)], [("0" * 64, 0, 2**64)], [("0" * 64, 1.5, 2)], [("0" * 64, 2, 2)], ["x"],
    ["of"], [("a",)], [("is like", "e1")], [("of", 5)], [{"a", "b"}], {"a": None}, {"a": "supports"}, {1: "supports"},
    {"a": ["x"]},
    {"\ud800": "opposes"}, {"allow_principals": "bob"}, {"allow_principals": []}, {"deny_roles": None}, {1: 2},
    {"deny_principals": [5]}, {"choices": [5]}, {"choices": 1}, {"choices": [{"message": {"content": "\ud800"}}]},
    b'{"choices": ' + b"[" * 30_000, object(), object, len, _deep(300), _deep(5000), range(3), timedelta(1),
    date(2020, 1, 1), datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    datetime.max.replace(tzinfo=timezone(-timedelta(hours=14))),
    Path("/"), Path("/nowhere/at/all"), Path("a\0b"), Path("/dev/null"),
]  # fmt: skip
ANY: st.SearchStrategy[Any] = st.one_of(
    st.text(max_size=12),
    st.integers(),
    st.floats(),
    st.binary(max_size=8),
    st.lists(st.text(max_size=8) | st.integers(), max_size=4),
    st.dictionaries(st.text(max_size=8), st.text(max_size=8) | st.integers(), max_size=3),
)
OBSERVE = (
    "record", "event_id", "topics", "obligation", "kind", "sources", "claims", "claim", "stance", "supersedes",
    "contradicts", "resolves", "relations", "entities", "acl", "valid_from", "valid_until", "occurred_at", "confidence",
    "summary", "source_url",
)  # fmt: skip
TURN = ("name", "focus", "required_fields", "final", "required_refs", "topics", "claims", "retry")

Call = Callable[[ContextSession, Any], Any]


def _calls() -> dict[str, Call]:
    """A call for every argument of a session: `method argument` to what hands it a value."""
    calls: dict[str, Call] = {}

    def add(method: str, field: str, **others: Any) -> None:
        calls[f"{method} {field}"] = lambda session, value: getattr(session, method)(**{**others, field: value})

    for field in OBSERVE:
        calls[f"observe {field}"] = lambda session, value, field=field: session.observe(
            **{"record": "text", "event_id": f"e-{uuid4()}", field: value}
        )
    for field in ("data_or_path", "media_type", "acl"):
        add("put_artifact", field, data_or_path=b"bytes")
    for field in TURN:
        add("turn", field, name="t")
    for field in ("name", "response", "not_executed", "evidence"):
        add("reconcile", field, name="n", response="yes", evidence="seen")
    add("has_durable_response", "name")
    add("receipt", "name")
    for field in ("action", "arguments"):
        add("memory_action", field, action="recall_memory", arguments={})
    for action, fields in (
        ("recall_memory", ("query", "topics", "cursor", "limit")),
        ("read_memory", ("item_id", "max_bytes", "offset")),
    ):
        for field in fields:
            calls[f"{action} {field}"] = lambda session, value, action=action, field=field: session.memory_action(
                action, {**({"item_id": "e1"} if action == "read_memory" else {}), field: value}
            )
    calls["cursor cursor"] = lambda session, value: session.journal.cursor(value)
    calls["cursor-value cursor"] = lambda session, value: session.journal.cursor("n", value)
    for field in ("job_id", "run_id", "principal", "roles"):
        calls[f"scope {field}"] = lambda session, value, field=field: SessionScope(
            **{"job_id": "j", "run_id": "r", "principal": "p", field: value}
        ).headers()
    for field in ContextPolicy.__dataclass_fields__:
        calls[f"policy {field}"] = lambda session, value, field=field: ContextPolicy(**{field: value})
    return calls


CALLS = _calls()
ALSO = {
    "claim": {"stance"},
    "stance": {"claims"},
    "not_executed": {"response"},
    "output_tokens": {"window_tokens"},
    "safety_tokens": {"window_tokens"},
    "supporting_evidence_share": {"counter_evidence_share"},
}
"""Arguments that are wrong only beside another one."""


def told(session: ContextSession, name: str, value: Any) -> str:
    """The field that an InvalidInput named, without what it says of the place in it; empty for any other answer of the
    contract. Whatever is no ContextError comes through."""
    try:
        CALLS[name](session, value)
    except InvalidInput as error:
        return re.split(r"[.\[]", error.field)[0]
    except ContextError:
        pass
    return ""


@pytest.mark.parametrize("name", CALLS)
def test_every_argument_is_taken_or_named(session: ContextSession, name: str) -> None:
    session.observe("some text", event_id="e1")
    field = name.split()[1]
    named = {told(session, name, value) for value in KNOWN}
    assert named - {""} <= {field} | ALSO.get(field, set())


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(CALLS)), value=ANY)
def test_any_value_is_taken_or_refused_by_the_contract(session: ContextSession, name: str, value: Any) -> None:
    told(session, name, value)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("root", [None, 5, "", "a\0b", "\ud800", b"x", object()]),
        ("roles", [None, 5, {"admin": 1}, ["a b"], b"ab", [5], ["r"] * 100]),
        ("policy", [{}, 5, "x", ContextPolicy]),
        ("cancelled", [True, None, "no"]),
        ("deadline", [math.nan, math.inf, "x", True, 10**400, [1]]),
    ],
)
def test_a_session_names_what_it_cannot_use(tmp_path: Path, field: str, values: list[Any]) -> None:
    given_ = {"root": tmp_path, "job_id": "j", "run_id": "r", "principal": "p"}
    for value in values:
        with pytest.raises(InvalidInput) as refused:
            ContextSession(**{**given_, field: value})
        assert refused.value.field == field


@pytest.mark.parametrize("bytes_", [2**63, 2**64])
def test_a_budget_larger_than_the_record_can_count_is_refused(bytes_: int) -> None:
    with pytest.raises(InvalidInput, match="max_storage_bytes"):
        ContextPolicy(max_storage_bytes=bytes_)


def test_an_address_that_is_empty_is_not_taken_for_none(tmp_path: Path) -> None:
    with pytest.raises(ContextError):
        runtime_client("j", "r", "p", root=tmp_path, address="")
    assert not list(tmp_path.iterdir())


def test_a_text_where_names_are_due_is_one_name(open_session: Callable[..., ContextSession]) -> None:
    """Never its letters."""
    session = open_session(roles="admin")
    assert session._scope.headers()["mn-roles"] == "admin"
    session.observe("about prices", event_id="old")
    session.observe("about prices", event_id="o", topics="pricing", entities="acme", supersedes="old")
    card = session._client.card("o")
    assert (list(card.topics), list(card.entities)) == (["pricing"], ["acme"])
    found = session.memory_action("recall_memory", {"query": "prices", "topics": "pricing"})
    assert [record["id"] for record in found["records"]] == ["o"]
    turning = session.turn("t", topics="pricing", claims="it holds", required_fields="goal", required_refs="o")._turning
    assert (turning.topics, turning.claims) == (("pricing",), ("it holds",))
    assert (turning.required_fields, turning.required_refs) == (("goal",), ("o",))


def test_an_acl_never_fails_open(open_session: Callable[..., ContextSession]) -> None:
    """Invariant 7: a name without a list is that name, and a list that allows nobody is refused."""
    alice, bob = open_session("alice"), open_session("bob")
    alice.observe("omega one", event_id="denied", acl={"deny_principals": "bob"})
    alice.observe("omega two", event_id="allowed", acl={"allow_principals": "alice"})
    assert bob.memory_action("recall_memory", {"query": "omega"})["records"] == []
    assert len(alice.memory_action("recall_memory", {"query": "omega"})["records"]) == 2
    for nobody in ({"allow_principals": []}, {"allow_roles": ()}, {"allow_principals": [], "allow_roles": []}):
        for put in (
            lambda acl: alice.observe("x", event_id="e", acl=acl),
            lambda acl: alice.put_artifact(b"x", acl=acl),
        ):
            with pytest.raises(InvalidInput, match="name yourself") as refused:
                put(nobody)
            assert refused.value.field.startswith("acl.allow_")
    alice.observe("x", event_id="e", acl={"allow_principals": [], "allow_roles": ["auditor"]})


@pytest.mark.parametrize("data", [b"abc", bytearray(b"abc"), "abc"])
def test_bytes_of_any_form_are_stored(session: ContextSession, data: Any) -> None:
    assert session.put_artifact(data).size == 3


def test_a_name_too_long_to_be_split_is_told_as_such(session: ContextSession) -> None:
    with pytest.raises(InvalidInput, match="at most 155 bytes") as refused:
        session.observe("word " * 5000, event_id="b" * 160)
    assert refused.value.field == "event_id"
    assert session.observe("word " * 5000, event_id="b" * 155)
