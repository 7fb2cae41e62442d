"""A decision is asked for once, saved, and never taken for the answer to another question."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mn_contract.errors import (
    AmbiguousInvocation,
    DependencyUnavailable,
    IdempotencyConflict,
    InvalidInput,
    InvocationInFlight,
    NeedsPartition,
    StorageFull,
    UnusableResponse,
)
from mn_sdk import blueprint_support
from mn_sdk.blueprint_support import durable_json_decision, json_decision_capacity
from mn_sdk.context_session import ContextPolicy, ContextSession
from mn_sdk.context_session.dispatch import Dispatcher
from mn_sdk.context_session.journal import keeping
from mn_sdk.context_session.journal.sqlite import SqliteInvocations
from tests.scenario.session.upstream import Upstream, completion

SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}


def validate(schema: Mapping[str, Any], value: Any) -> None:
    if not isinstance(value, dict) or set(value) != set(schema["properties"]):
        raise ValueError("not of this schema")


@pytest.fixture
def model(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> Upstream:
    monkeypatch.setenv("MN_LLM_MODEL", "openai/gpt-4o")
    monkeypatch.setenv("LITELLM_API_BASE", upstream.base)
    monkeypatch.setenv("MN_LLM_API_KEY", "none")
    upstream.body = completion('{"answer": "yes"}')
    return upstream


def decide(folder: Path, name: str = "one", **more: Any) -> Any:
    arguments = {
        "system": "Answer.",
        "request": {"stage": "review", "goal": "g"},
        "schema": SCHEMA,
        "validator": validate,
        "context_root": folder / "context",
        "context_scope": {"job_id": "job", "run_id": "run"},
        "principal": "specialist",
        "stage": "review",
        "policy": ContextPolicy(),
        "schema_name": "answer",
    }
    return durable_json_decision(folder / f"models/{name}.json", **{**arguments, **more})


def test_a_decision_is_asked_for_once_and_saved(model: Upstream, tmp_path: Path) -> None:
    assert decide(tmp_path) == {"answer": "yes"}
    assert decide(tmp_path) == {"answer": "yes"}
    assert len(model.requests) == 1
    saved = json.loads((tmp_path / "models/one.json").read_bytes())
    assert set(saved) == {"system", "request", "schema", "value", "usage"}
    assert saved["usage"]["prompt_tokens"] == 10
    sent = model.requests[0]
    assert sent["response_format"]["json_schema"] == {"name": "answer", "strict": True, "schema": SCHEMA}
    assert sent["max_tokens"] == 2048
    assert model.said()["current"] == {"stage": "review", "goal": "g"}
    assert [file.name for file in (tmp_path / "models").iterdir()] == ["one.json"]


class Calling:
    """A client that calls litellm, without the schema, after something else has happened."""

    def __init__(self, model: Upstream, first: Callable[[], object] = lambda: None) -> None:
        self._model = model
        self._first = first

    def completion_text(self, system: str, user: str) -> str:
        import litellm

        self._first()
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        return str(litellm.completion(messages=messages, **self._model.arguments).choices[0].message.content)


def crashed() -> None:
    raise KeyboardInterrupt


def refuse(schema: Mapping[str, Any], value: Any) -> None:
    raise ValueError("no")


@pytest.fixture
def beside() -> Iterator[Callable[..., Any]]:
    """Does something in a thread that no turn has begun, and waits for it."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        yield lambda *work: pool.submit(*work).result()


def test_an_answer_is_not_taken_for_another_questions_by_who_asks_between_its_claim_and_its_dispatch(
    model: Upstream, tmp_path: Path, beside: Callable[..., Any]
) -> None:
    def other() -> None:
        with pytest.raises(KeyboardInterrupt):
            decide(tmp_path, system="Else.", client=Calling(model, crashed))

    with pytest.raises(ValueError, match="no"):
        decide(tmp_path, client=Calling(model, lambda: beside(other)), validator=refuse)
    with pytest.raises(IdempotencyConflict):
        decide(tmp_path, system="Else.")
    assert decide(tmp_path) == {"answer": "yes"}
    assert len(model.requests) == 1
    assert json.loads((tmp_path / "models/one.json").read_bytes())["system"] == "Answer."


@pytest.mark.parametrize("other", [{"system": "Else."}, {"schema": {**SCHEMA, "title": "t"}}], ids=["system", "schema"])
def test_an_answer_that_came_between_the_look_and_the_call_is_not_taken_for_another_questions(
    model: Upstream, tmp_path: Path, beside: Callable[..., Any], other: dict[str, Any]
) -> None:
    """With another schema the client's call is the same: only the question tells them apart."""

    def first() -> None:
        with pytest.raises(ValueError, match="no"):
            decide(tmp_path, client=Calling(model), validator=refuse)

    for ask in (lambda: beside(first), lambda: None):
        with pytest.raises(IdempotencyConflict):
            decide(tmp_path, client=Calling(model, ask), **other)
    assert not (tmp_path / "models/one.json").exists()
    assert decide(tmp_path, client=Calling(model)) == {"answer": "yes"}
    assert len(model.requests) == 1


@pytest.mark.parametrize("stage", ["review", "later"])
def test_a_worker_that_died_in_its_call_leaves_an_unknown_outcome(
    model: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(Dispatcher, "settle", lambda *_: crashed())
        with pytest.raises(KeyboardInterrupt):
            decide(tmp_path)
    with pytest.raises(AmbiguousInvocation):
        decide(tmp_path, stage=stage)
    assert len(model.requests) == 1


def test_a_kept_answer_that_the_journal_refuses_is_handed_out(
    model: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise DependencyUnavailable("away", dependency="journal")

    with monkeypatch.context() as broken:
        broken.setattr(keeping, "PATIENCE_SECONDS", 0)
        broken.setattr(SqliteInvocations, "respond", away)
        with pytest.raises(DependencyUnavailable) as lost:
            decide(tmp_path)
        with ContextSession(tmp_path / "context", job_id="job", run_id="run", principal="specialist") as session:
            SqliteInvocations(session.journal.rows, now_ms=lambda: 0).reconcile(
                lost.value.detail["name"], response=None, evidence="nothing in the provider's log"
            )
    with pytest.raises(IdempotencyConflict) as kept:
        decide(tmp_path)
    assert kept.value.detail["response"] == lost.value.detail["response"]


def test_a_file_is_synced_before_it_has_its_name(
    model: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync, file = os.fsync, tmp_path / "models/one.json"
    synced: list[bool] = []

    def syncing(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(file.parent)):
            synced.append(file.exists())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", syncing)
    decide(tmp_path)
    assert synced == [False]


@pytest.mark.parametrize(
    ("code", "error"), [(errno.ENOSPC, StorageFull), (errno.EFBIG, StorageFull), (errno.EIO, DependencyUnavailable)]
)
def test_a_file_that_cannot_be_written_leaves_nothing_and_is_saved_later(
    model: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, error: type[Exception]
) -> None:
    fsync, folder = os.fsync, tmp_path / "models"

    def failing(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(folder)):
            raise OSError(code, os.strerror(code))
        fsync(descriptor)

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", failing)
        with pytest.raises(error):
            decide(tmp_path)
    assert list(folder.iterdir()) == []
    assert decide(tmp_path) == {"answer": "yes"}
    assert len(model.requests) == 1


def test_what_its_caller_changes_while_it_is_asked_is_not_what_was_asked(tmp_path: Path) -> None:
    request, schema = {"goal": {"of": ["g"]}}, {"properties": {"answer": {}}}

    class Meddling:
        def completion_text(self, system: str, user: str) -> str:
            request["goal"]["of"].append("h")
            schema["properties"]["more"] = {}
            return '{"answer": "yes"}'

    decide(tmp_path, client=Meddling(), request=request, schema=schema)
    saved = json.loads((tmp_path / "models/one.json").read_bytes())
    assert (saved["request"], saved["schema"]) == ({"goal": {"of": ["g"]}}, {"properties": {"answer": {}}})


def test_a_name_that_is_no_text_is_a_name(model: Upstream, tmp_path: Path) -> None:
    odd = os.fsdecode(b"\xff")
    for _ in range(2):
        assert decide(tmp_path, odd) == {"answer": "yes"}
        (tmp_path / f"models/{odd}.json").unlink()
    assert len(model.requests) == 1


def test_a_crash_before_the_file_costs_no_second_call(
    model: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(blueprint_support, "_save", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            decide(tmp_path)
    assert decide(tmp_path) == {"answer": "yes"}
    assert len(model.requests) == 1
    assert json.loads((tmp_path / "models/one.json").read_bytes())["usage"]["prompt_tokens"] == 10


def test_another_question_under_the_same_path_is_an_error(model: Upstream, tmp_path: Path) -> None:
    decide(tmp_path)
    for other in ({"system": "Else."}, {"request": {"goal": "h"}}, {"schema": {**SCHEMA, "title": "t"}}):
        with pytest.raises(IdempotencyConflict):
            decide(tmp_path, **other)
    (tmp_path / "models/one.json").unlink()
    with pytest.raises(IdempotencyConflict):  # the journal knows, too
        decide(tmp_path, system="Else.")
    assert decide(tmp_path, "two", system="Else.") == {"answer": "yes"}
    assert len(model.requests) == 2


def test_a_saved_value_is_validated_again(model: Upstream, tmp_path: Path) -> None:
    decide(tmp_path)

    def refuse(schema: Mapping[str, Any], value: Any) -> None:
        raise ValueError("no longer")

    with pytest.raises(ValueError, match="no longer"):
        decide(tmp_path, validator=refuse)


@pytest.mark.parametrize(
    ("body", "error"), [("no json", UnusableResponse), ("NaN", UnusableResponse), ('{"other": 1}', ValueError)]
)
def test_an_answer_that_is_not_to_be_used_is_not_saved(
    model: Upstream, tmp_path: Path, body: str, error: type[Exception]
) -> None:
    model.body = completion(body)
    for _ in range(2):
        with pytest.raises(error):
            decide(tmp_path)
    assert not (tmp_path / "models/one.json").exists()
    assert len(model.requests) == 1  # it was paid for, and is replayed


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"system": 1}', b"\xff"])
def test_a_file_that_holds_no_decision_is_refused_and_kept(model: Upstream, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "models/one.json"
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(InvalidInput):
        decide(tmp_path)
    assert file.read_bytes() == content
    assert model.requests == []


def test_a_client_of_the_callers_is_asked_instead(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    class Scripted:
        def completion_text(self, system: str, user: str) -> str:
            asked.append((system, user))
            return '{"answer": "scripted"}'

    assert decide(tmp_path, client=Scripted()) == {"answer": "scripted"}
    assert decide(tmp_path, client=Scripted()) == {"answer": "scripted"}
    assert [(system, json.loads(user)) for system, user in asked] == [("Answer.", {"stage": "review", "goal": "g"})]
    assert json.loads((tmp_path / "models/one.json").read_bytes())["usage"] == {}


def test_a_client_that_calls_litellm_is_managed(model: Upstream, tmp_path: Path) -> None:
    assert decide(tmp_path, client=Calling(model)) == {"answer": "yes"}
    assert "recalled" in model.said()
    assert json.loads((tmp_path / "models/one.json").read_bytes())["usage"]["prompt_tokens"] == 10


def test_without_a_model_the_caller_is_told_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MN_LLM_MODEL", "LITELLM_MODEL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidInput, match="MN_LLM_MODEL"):
        decide(tmp_path)


@pytest.mark.parametrize("scope", [{}, {"job_id": "j"}, {"job_id": "j", "run_id": None}, {"job_id": "j", "run_id": ""}])
def test_a_scope_that_is_none_is_refused(tmp_path: Path, scope: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        decide(tmp_path, context_scope=scope)


def test_text_of_the_capacity_fits_whatever_it_says(model: Upstream, tmp_path: Path) -> None:
    request = {"stage": "review", "evidence": ""}
    room = json_decision_capacity("Answer.", request, SCHEMA, policy=ContextPolicy(), schema_name="answer")
    assert 4000 < room < ContextPolicy().input_budget
    texts = {
        "line": "a\n" * (room // 2),
        "wide": "𝕏" * (room // 4),
        "quoted": '"' * room,
        "odd": "\t\x7f" * (room // 2),
    }
    for name, text in texts.items():
        decide(tmp_path, name, request={**request, "evidence": text})
    with pytest.raises(NeedsPartition):
        decide(tmp_path, "beyond", request={**request, "evidence": "word " * ContextPolicy().input_budget})


def test_a_request_that_is_too_large_leaves_no_room() -> None:
    request = {"evidence": "word " * 20_000}
    assert json_decision_capacity("s", request, SCHEMA, policy=ContextPolicy(), schema_name="answer") == 0


def test_a_file_is_the_same_by_whatever_path(model: Upstream, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "models")
    decide(tmp_path)
    (tmp_path / "models/one.json").unlink()  # as if a crash had come before it
    assert decide(tmp_path, "../linked/one") == {"answer": "yes"}
    assert len(model.requests) == 1
    assert (tmp_path / "models/one.json").is_file()


def test_a_validator_changes_nothing(model: Upstream, tmp_path: Path) -> None:
    def meddle(schema: Any, value: Any) -> None:
        schema["properties"]["more"] = {}
        value["answer"] = "no"

    for _ in range(2):
        assert decide(tmp_path, validator=meddle) == {"answer": "yes"}
    assert SCHEMA["properties"] == {"answer": {"type": "string"}}
    assert json.loads((tmp_path / "models/one.json").read_bytes())["schema"] == SCHEMA


@pytest.mark.parametrize("body", ['{"answer": 1e999}', '{"answer": "\\ud800"}'])
def test_an_answer_that_cannot_be_saved_is_unusable(model: Upstream, tmp_path: Path, body: str) -> None:
    model.body = completion(body)
    with pytest.raises(UnusableResponse):
        decide(tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [("system", 5), ("request", 5), ("request", None), ("schema", "x"), ("policy", None), ("validator", None),
     ("client", object()), ("schema_name", ""), ("context_root", ""), ("request", {"a": object()})],
)  # fmt: skip
def test_what_is_no_question_is_refused_before_it_is_paid_for(
    model: Upstream, tmp_path: Path, field: str, value: object
) -> None:
    with pytest.raises(InvalidInput) as refused:
        decide(tmp_path, **{field: value})
    assert (refused.value.field or "").startswith(field)
    assert model.requests == []


def test_a_long_name_and_the_users_own_mode(model: Upstream, tmp_path: Path) -> None:
    name = "n" * 250
    decide(tmp_path, name)
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    assert (tmp_path / f"models/{name}.json").stat().st_mode == plain.stat().st_mode


@pytest.mark.parametrize(
    "other",
    [
        {"stage": "later"},
        {"schema_name": "verdict"},
        {"policy": ContextPolicy(output_tokens=1024)},
        {"model": "gpt-4o-mini"},
    ],
    ids=str,
)
def test_what_is_no_part_of_the_question_finds_the_paid_answer(
    model: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(blueprint_support, "_save", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            decide(tmp_path)
    if "model" in other:
        monkeypatch.setenv("MN_LLM_MODEL", f"openai/{other.pop('model')}")
    assert decide(tmp_path, **other) == {"answer": "yes"}
    assert len(model.requests) == 1
    assert json.loads((tmp_path / "models/one.json").read_bytes())["usage"]["prompt_tokens"] == 10


def test_a_question_that_was_declined_may_be_put_otherwise(model: Upstream, tmp_path: Path) -> None:
    model.status, model.body = 400, b'{"error": {"message": "no"}}'
    with pytest.raises(Exception, match="no"):
        decide(tmp_path)
    model.fresh()
    model.body = completion('{"answer": "yes"}')
    assert decide(tmp_path, system="Else.") == {"answer": "yes"}


def test_an_unknown_outcome_is_told_whatever_else_is_said(model: Upstream, tmp_path: Path) -> None:
    model.reset = True
    for stage in ("review", "later"):
        with pytest.raises(AmbiguousInvocation):
            decide(tmp_path, stage=stage)
    assert len(model.requests) == 1


def test_a_path_that_cannot_be_a_file_is_refused_before_anything_is_paid_for(model: Upstream, tmp_path: Path) -> None:
    (tmp_path / "models/folder.json").mkdir(parents=True)
    (tmp_path / "models/file").write_bytes(b"")
    (tmp_path / "models/loop.json").symlink_to(tmp_path / "models/loop.json")
    for name, told in (("folder", "folder"), ("file/one", "File exists"), ("n" * 300, "too long"), ("loop", "circle")):
        with pytest.raises(InvalidInput, match=told) as refused:
            decide(tmp_path, name)
        assert refused.value.field == "path"
    assert model.requests == []


def test_a_validator_that_refuses_a_paid_answer_may_be_changed(model: Upstream, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no") as refused:
        decide(tmp_path, validator=refuse)
    assert "paid for" in refused.value.__notes__[0]
    assert decide(tmp_path) == {"answer": "yes"}
    assert len(model.requests) == 1


def test_concurrent_callers_are_told_to_wait(model: Upstream, tmp_path: Path) -> None:
    model.hold = lambda: time.sleep(0.5)

    def one(_: int) -> Any:
        try:
            return decide(tmp_path)
        except InvocationInFlight as error:
            return error

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(one, range(3)))
    assert {"answer": "yes"} in found
    assert all("one.json" in found_.message for found_ in found if isinstance(found_, InvocationInFlight))
    assert len(model.requests) == 1


def test_a_client_that_answers_no_text_is_refused(tmp_path: Path) -> None:
    class Odd:
        def completion_text(self, system: str, user: str) -> Any:
            return {"answer": "yes"}

    with pytest.raises(InvalidInput) as refused:
        decide(tmp_path, client=Odd())
    assert refused.value.field == "client"


def test_a_model_that_takes_no_schema_is_refused(
    model: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MN_LLM_MODEL", "openai/gpt-4")
    with pytest.raises(InvalidInput, match="response_format"):
        decide(tmp_path)
    with pytest.raises(InvalidInput, match="response_format"):
        json_decision_capacity("s", {}, SCHEMA, policy=ContextPolicy(), schema_name="answer")
    assert model.requests == []
