"""Receipts: what became of a call, and what it is known to have cost."""

from __future__ import annotations

import asyncio

import openai
import pytest

from mn_contract.errors import AmbiguousInvocation, NotFound
from mn_contract.invocations import State
from mn_sdk.context_session import AsyncContextSession, ContextSession
from tests.scenario.session.conftest import Opener
from tests.scenario.session.test_outcomes import MESSAGES
from tests.scenario.session.upstream import Upstream


def test_usage_is_reported_by_the_provider_or_estimated(session: ContextSession, upstream: Upstream) -> None:
    session.complete("answered", messages=MESSAGES, **upstream.arguments)
    receipt = session.receipt("answered")
    assert (receipt.state, receipt.attempt) == (State.COMPLETED, 1)
    assert (receipt.usage_source, receipt.usage) == (
        "reported",
        {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
    )
    upstream.status = 500
    with pytest.raises(AmbiguousInvocation):
        session.complete("unknown", messages=MESSAGES, **upstream.arguments)
    receipt = session.receipt("unknown")
    assert (receipt.state, receipt.usage_source) == (State.AMBIGUOUS, "estimated")
    assert receipt.usage == {"prompt_tokens": receipt.report.tokens}
    assert "500" in receipt.evidence
    upstream.status = 400
    with pytest.raises(openai.OpenAIError):
        session.complete("declined", messages=MESSAGES, **upstream.arguments)
    assert session.receipt("declined").usage == {"prompt_tokens": 0}


def test_a_receipt_is_its_own_principals(open_session: Opener, upstream: Upstream) -> None:
    """Invariant 7: another's call and none are one answer."""
    open_session().complete("d", messages=MESSAGES, **upstream.arguments)
    with pytest.raises(NotFound) as hidden:
        open_session("bob").receipt("d")
    with pytest.raises(NotFound) as absent:
        open_session("bob").receipt("never")
    assert hidden.value.message == absent.value.message


def test_an_asynchronous_session_has_the_same(session: ContextSession, upstream: Upstream) -> None:
    session.complete("d", messages=MESSAGES, **upstream.arguments)
    shell = AsyncContextSession.__new__(AsyncContextSession)
    shell.session = session
    assert asyncio.run(shell.receipt("d")) == session.receipt("d")
