"""A counter of the provider's or the user's own: its number holds, and where it fails ours does and says so."""

from __future__ import annotations

from typing import Any

import pytest

from mn_contract.errors import InvalidInput
from mn_tokens import ExactCounter, count
from mn_tokens.exact import loaded

REQUEST = {"messages": [{"role": "user", "content": "hello"}]}
SCOPE = {"job_id": "j", "run_id": "r"}


class Fake:
    """Answers what it is told to, and keeps what it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    def __call__(self, **asked: Any) -> Any:
        self.asked.append(asked)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def exact(answer: Any) -> tuple[ExactCounter, Fake]:
    fake = Fake(answer)
    return ExactCounter(counter=fake, scope=SCOPE, principal="p", name="theirs"), fake


def test_its_number_holds_without_a_margin_and_the_ledger_adds_up() -> None:
    counter, fake = exact(50)
    counted = counter.count(REQUEST, model="claude-sonnet-4")
    assert (counted.tokens, counted.margin, counted.exact, counted.tokenizer) == (50, 0, True, "theirs")
    assert sum(part.tokens for part in counted.ledger) == 50
    assert fake.asked == [{"request": {**REQUEST, "model": "claude-sonnet-4"}, "scope": SCOPE, "principal": "p"}]


def test_the_same_request_is_asked_for_once() -> None:
    counter, fake = exact(50)
    assert counter.count(REQUEST, model="m") == counter.count(REQUEST, model="m")
    assert len(fake.asked) == 1
    counter.count(REQUEST, model="other")
    assert len(fake.asked) == 2


@pytest.mark.parametrize("answer", [OSError("down"), None, "many", 0, -3, True, 5.5])
def test_where_it_fails_our_count_holds_and_says_so(answer: Any) -> None:
    counter, fake = exact(answer)
    counted = counter.count(REQUEST, model="gpt-4o")
    ours = count(REQUEST, model="gpt-4o")
    assert (counted.tokens, counted.margin, counted.tokenizer) == (ours.tokens, ours.margin, ours.tokenizer)
    assert not counted.exact
    assert counted.reasons[-1].startswith("theirs ")
    counter.count(REQUEST, model="gpt-4o")
    assert len(fake.asked) == 2


def test_a_counter_that_changes_what_it_is_asked_changes_no_request() -> None:
    request = {"messages": [{"role": "user", "content": "hello"}]}

    def change(*, request: Any, scope: Any, principal: str) -> int:
        request["messages"][0]["content"] = "other"
        scope.clear()
        return 7

    counter = ExactCounter(counter=change, scope=SCOPE, principal="p", name="theirs")
    assert counter.count(request, model="m").tokens == 7
    assert request == REQUEST
    assert SCOPE == {"job_id": "j", "run_id": "r"}


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_process_is_not_taken_for_a_failure(error: type[BaseException]) -> None:
    def end(**asked: Any) -> int:
        raise error

    with pytest.raises(error):
        ExactCounter(counter=end, scope=SCOPE, principal="p", name="theirs").count(REQUEST, model="m")


def test_what_cannot_be_counted_is_refused_before_it_is_asked() -> None:
    counter, fake = exact(50)
    with pytest.raises(InvalidInput):
        counter.count({"messages": []}, model="m")
    assert fake.asked == []


def made() -> Fake:
    return Fake(7)


def test_a_factory_is_loaded_by_its_name() -> None:
    assert loaded(f"{__name__}:made", "F")(request=REQUEST, scope=SCOPE, principal="p") == 7


@pytest.mark.parametrize("spec", ["", "json", "json:", ":dumps", "json:nothing", "no.such:module", "builtins:object"])
def test_a_factory_that_is_none_is_refused(spec: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        loaded(spec, "MN_CONTEXT_TOKEN_COUNTER_FACTORY")
    assert refused.value.field == "MN_CONTEXT_TOKEN_COUNTER_FACTORY"
