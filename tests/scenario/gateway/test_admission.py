"""Admission for any client of the proxy: counted whole, refused with its ledger before anything is sent."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from mn_tokens import count
from tests.scenario.gateway.conftest import NARROW, Asker, Proxy, told
from tests.scenario.session.upstream import Upstream

TOOL = {
    "type": "function",
    "function": {
        "name": "search",
        "parameters": {"type": "object", "properties": {"q": {"type": "string", "description": "word " * 1000}}},
    },
}


@pytest.mark.parametrize("stream", [False, True])
def test_what_does_not_fit_is_refused_with_its_ledger(upstream: Upstream, ask: Asker, stream: bool) -> None:
    with pytest.raises(openai.APIStatusError) as refused:
        ask("word " * 3000, model="narrow", key="sk-nothing", stream=stream)
    assert refused.value.status_code == 413
    assert told(refused)["reason"] == "NEEDS_PARTITION"
    detail = told(refused)["detail"]
    assert detail["window"] == NARROW["window_tokens"]
    assert detail["input_budget"] == NARROW["window_tokens"] - NARROW["output_tokens"] - NARROW["safety_tokens"]
    parts = {part["part"]: part["tokens"] for part in detail["parts"]}
    assert parts["messages[1]"] > 3000
    assert "carry_forward" in detail["plan"]
    assert upstream.requests == []


def test_what_fits_is_sent_as_it_is(upstream: Upstream, ask: Asker) -> None:
    answer = ask("word " * 3000, key="sk-nothing", temperature=0.5)
    assert answer.parse().choices[0].message.content == "yes"
    assert upstream.requests[0]["messages"][1]["content"] == "word " * 3000
    assert upstream.requests[0]["temperature"] == 0.5


def test_a_request_may_fill_its_budget_to_the_token(upstream: Upstream, ask: Asker) -> None:
    """Nothing that the proxy adds for itself is counted, before or at the send."""
    budget = NARROW["window_tokens"] - NARROW["output_tokens"] - NARROW["safety_tokens"]

    def tokens(words: int) -> int:
        messages = [{"role": "system", "content": "decide"}, {"role": "user", "content": "word " * words}]
        return count({"messages": messages}, model="gpt-4o").upper

    most = max(words for words in range(budget) if tokens(words) <= budget)
    assert ask("word " * most, model="narrow").parse().choices
    with pytest.raises(openai.APIStatusError):
        ask("word " * (most + 1), model="narrow")
    assert len(upstream.requests) == 1


def test_tools_and_the_output_that_is_asked_for_count(upstream: Upstream, ask: Asker) -> None:
    """Invariants 1 and 11."""
    for more in ({"tools": [TOOL] * 2}, {"max_tokens": 1800}):
        with pytest.raises(openai.APIStatusError) as refused:
            ask("word " * 100, model="narrow", **more)
        assert refused.value.status_code == 413
    assert upstream.requests == []


def test_a_name_takes_what_the_narrowest_of_its_deployments_takes(upstream: Upstream, ask: Asker) -> None:
    for _ in range(4):  # whichever the proxy would pick
        with pytest.raises(openai.APIStatusError) as refused:
            ask("word " * 3000, model="mixed")
        assert refused.value.status_code == 413
    assert ask("word", model="mixed").parse().choices
    assert len(upstream.requests) == 1


def test_an_unknown_model_has_the_default_window(upstream: Upstream, ask: Asker) -> None:
    assert ask("word " * 1000, model="unknown").parse().choices
    with pytest.raises(openai.APIStatusError) as refused:
        ask("word " * 20_000, model="unknown")
    assert told(refused)["detail"]["window"] == 16384


def test_a_fallback_is_counted_for_the_model_that_it_goes_to(upstream: Upstream, ask: Asker) -> None:
    """A request without a run falls back as the proxy is set, but never into a window that it does not fit."""
    for content, models in (("word " * 3000, {"gpt-4o"}), ("word", {"gpt-4o", "gpt-4o-2024-08-06"})):
        upstream.fresh()
        upstream.status = 403
        with pytest.raises(openai.APIStatusError):
            ask(content, retries=0, extra_headers={"x-litellm-num-retries": "0"})
        assert {request["model"] for request in upstream.requests} == models


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
        [{"type": "strange"}],
        [7],
    ],
)
def test_what_cannot_be_counted_is_refused(upstream: Upstream, ask: Asker, content: Any) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        ask(content)
    assert told(refused)["reason"] == "INVALID_ARGUMENT"
    assert upstream.requests == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"messages": "hello"},
        {"messages": [7]},
        {"messages": [{"role": 7}]},
        {"messages": None},
        {"max_tokens": "many"},
        {"max_completion_tokens": -1},
        {"tools": 7},
    ],
)
def test_a_request_without_form_is_refused(proxy: Proxy, upstream: Upstream, wrong: dict[str, Any]) -> None:
    body = {"model": "wide", "messages": [{"role": "user", "content": "hello"}], **wrong}
    answer = httpx.post(
        f"{proxy.base}/v1/chat/completions", json=body, headers={"authorization": "Bearer sk-alice"}, timeout=60
    )
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["provider_specific_fields"]["membrane"]["reason"] == "INVALID_ARGUMENT"
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"model": "wide", "input": "hello"}),
        ("/v1/messages", {"model": "wide", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}),
    ],
)
def test_text_that_nobody_counts_is_refused(proxy: Proxy, upstream: Upstream, path: str, body: dict[str, Any]) -> None:
    answer = httpx.post(f"{proxy.base}{path}", json=body, headers={"authorization": "Bearer sk-alice"}, timeout=60)
    assert answer.status_code == 409
    assert "not counted" in answer.text
    if path != "/v1/messages":  # Anthropic's errors have a form of their own
        assert answer.json()["error"]["provider_specific_fields"]["membrane"]["reason"] == "UNMANAGED_CALL"
    assert upstream.requests == []


def test_what_writes_no_text_and_what_the_operator_names_pass(proxy: Proxy, upstream: Upstream) -> None:
    for path, body in (
        ("/v1/embeddings", {"model": "wide", "input": "hello"}),
        ("/v1/completions", {"model": "wide", "prompt": "hello"}),
    ):
        httpx.post(f"{proxy.base}{path}", json=body, headers={"authorization": "Bearer sk-alice"}, timeout=60)
    assert len(upstream.requests) == 2


@pytest.mark.parametrize(("path", "asked"), [("/v1/embeddings", "input"), ("/v1/completions", "prompt")])
def test_a_run_is_for_chat_completions_only(proxy: Proxy, upstream: Upstream, path: str, asked: str) -> None:
    answer = httpx.post(
        f"{proxy.base}{path}",
        json={"model": "wide", asked: "hello", "metadata": {"membrane": {"job_id": "pricing", "run_id": "r"}}},
        headers={"authorization": "Bearer sk-alice"},
        timeout=60,
    )
    assert answer.status_code == 422
    assert answer.json()["error"]["provider_specific_fields"]["membrane"]["reason"] == "INVALID_ARGUMENT"
    assert upstream.requests == []
