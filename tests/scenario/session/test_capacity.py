"""What fits is told before anything is submitted, and it is what admission then does (invariants 1, 2, 11)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mn_contract.errors import InvalidInput, NeedsPartition
from mn_sdk.context_session import ContextSession
from tests.scenario.session.upstream import Upstream


def asked(upstream: Upstream, **current: Any) -> dict[str, Any]:
    user = {"role": "user", "content": json.dumps(current)}
    return {"messages": [{"role": "system", "content": "s"}, user], **upstream.arguments}


def test_what_is_told_to_fit_fits_and_what_is_told_not_to_does_not(session: ContextSession, upstream: Upstream) -> None:
    session.observe("word " * 3000, event_id="rule", kind="constraint")
    told = session.capacity(asked(upstream, goal="g"))
    assert told.fits
    assert 3000 < told.tokens < told.input_budget
    assert told.partition == {}
    within = "word " * (told.room_tokens // 2)
    assert session.capacity(asked(upstream, goal=within)).fits
    session.complete("within", **asked(upstream, goal=within))
    beyond = "word " * (told.room_tokens + 100)
    refused = session.capacity(asked(upstream, goal=beyond))
    assert not refused.fits
    assert refused.room_tokens == 0
    with pytest.raises(NeedsPartition) as raised:
        session.complete("beyond", **asked(upstream, goal=beyond))
    assert refused.partition["plan"] == raised.value.detail["plan"]
    assert len(upstream.requests) == 1


def test_any_text_of_the_room_in_bytes_fits(session: ContextSession, upstream: Upstream) -> None:
    room = session.capacity(asked(upstream, goal="")).room_bytes
    for text in ("𝕏" * (room // 4), "\u2029" * (room // 3), "z" * room):
        assert session.capacity({**upstream.arguments, "messages": [{"role": "user", "content": text}]}).fits


def test_keys_that_may_be_left_out_take_no_room(session: ContextSession, upstream: Upstream) -> None:
    call = asked(upstream, goal="g", history="word " * 20_000)
    assert not session.capacity(call).fits
    told = session.capacity(call, required_fields=["goal"])
    assert told.fits
    assert told.tokens < 1000


def test_asking_claims_and_sends_nothing(session: ContextSession, upstream: Upstream) -> None:
    session.capacity(asked(upstream, goal="g"))
    assert upstream.requests == []
    assert session.journal.invocations.newest("capacity") is None


@pytest.mark.parametrize("request_", [{}, {"messages": []}, {"messages": "x", "model": "gpt-4o"}, {"model": "gpt-4o"}])
def test_what_is_no_call_is_refused(session: ContextSession, request_: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        session.capacity(request_)
