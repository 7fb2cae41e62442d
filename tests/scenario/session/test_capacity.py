"""What fits is told before anything is submitted, and it is what admission then does (invariants 1, 2, 11)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mn_contract.errors import InvalidInput, NeedsPartition
from mn_sdk.context_session import ContextPolicy, ContextSession, available_text_bytes
from mn_sdk.context_session.capacity import text_bytes
from mn_tokens import Count, count
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
    for text in ("𝕏" * (room // 4), "\u2029" * (room // 3), "z" * room, "\t\x7f" * (room // 2), '"\\' * (room // 2)):
        assert session.capacity({**upstream.arguments, "messages": [{"role": "user", "content": text}]}).fits
        written = json.dumps({"goal": text}, ensure_ascii=False)
        system, user = asked(upstream, goal="")["messages"]
        assert session.capacity({**upstream.arguments, "messages": [system, {**user, "content": written}]}).fits


MODELS = [
    "openai/gpt-4o", "openai/gpt-4", "openai/o3", "anthropic/claude-sonnet-4-5", "anthropic/claude-opus-4-7",
    "gemini/gemini-2.5-flash", "mistral/mistral-large-latest", "deepseek/deepseek-chat", "xai/grok-4", "nobody/knows",
]  # fmt: skip
SIGNS = st.sampled_from([*'"\\/ =+\n\t\r\b\f7190aZx\x7f', "é", "\u0301", "\u07fe", "日", "\uabff", "😀", "\U000e1234"])
PIECES = st.lists(
    st.text(SIGNS | st.characters(min_codepoint=32, codec="utf-8"), min_size=1, max_size=40), min_size=1, max_size=4
)


def filled(pieces: list[str], size: int) -> str:
    """A text of about `size` bytes: the pieces, over and over, one kind after another."""
    share = size // len(pieces)
    return "".join((piece * share).encode()[:share].decode("utf-8", "ignore") for piece in pieces)


@settings(max_examples=150)
@given(model=st.sampled_from(MODELS), window=st.sampled_from([3000, 8192, 40_000]), inside=st.booleans(), pieces=PIECES,
       said=st.sampled_from(["", "a" * 255, "word " * 63, "What is it about?"]))  # fmt: skip
def test_no_text_takes_more_than_it_was_told_to(
    model: str, window: int, inside: bool, pieces: list[str], said: str
) -> None:
    policy = ContextPolicy(window_tokens=window, output_tokens=512, safety_tokens=64, model_limits=False)

    def holding(text: str) -> dict[str, Any]:
        written = json.dumps({"goal": said + text}, ensure_ascii=False) if inside else said + text
        return {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": written}]}

    room = available_text_bytes(policy, model=model, request=holding(""))
    assert count(holding(filled(pieces, room)), model=model).upper <= policy.input_budget


def test_room_for_a_counter_that_says_the_same_of_everything_is_a_byte_a_token() -> None:
    same = Count(tokens=5, margin=0, exact=True, tokenizer="theirs", ledger=())
    assert 900 < text_bytes(1000, {}, lambda request: same, model="gpt-4o") < 1000


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


@pytest.mark.parametrize(
    "request_", [None, "x", [], {}, {"messages": []}, {"messages": "x", "model": "gpt-4o"}, {"model": "gpt-4o"}]
)
def test_what_is_no_call_is_refused(session: ContextSession, request_: Any) -> None:
    with pytest.raises(InvalidInput):
        session.capacity(request_)
