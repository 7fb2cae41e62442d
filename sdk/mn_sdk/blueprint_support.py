"""Decisions as files: a model is asked once for a JSON value, and the same question finds its answer in the file.

A file holds {system, request, schema, value, usage}. The call is a ContextSession's turn: it is counted, sent at most
once, and a crash between the answer and the file costs no second call. A decision is its path and {system, request,
schema}: what else a later run says (stage, policy, model, the schema's name) finds the answer that was paid for. Which
question that answers is kept with the claim that its call was dispatched by (see `journal.bindings`).
"""

from __future__ import annotations

import copy
import errno
import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol

from mn_contract.canonical import digest, encoded
from mn_contract.errors import (
    DependencyUnavailable,
    IdempotencyConflict,
    InvalidInput,
    InvocationInFlight,
    RecordInUse,
    StorageFull,
    UnusableResponse,
)
from mn_contract.invocations import MAY_BE_BILLED, REPLAYABLE, Attempt, State, ambiguous
from mn_contract.limits import FOCUS_BYTES_MAX
from mn_contract.names import check_label, check_text
from mn_sdk.arguments import read_folder, read_path
from mn_sdk.context_session import ContextPolicy, ContextSession, available_text_bytes
from mn_sdk.environment import model_settings
from mn_sdk.scope import SessionScope

_ASKED: Final = ("system", "request", "schema")
_UNNAMED: Final = "unnamed"
"""What a request is counted for where no model is named: no tokenizer is assumed, so its margin is the widest."""


class TextClient(Protocol):
    """A model client of the caller's. What it calls through litellm is managed; what it calls otherwise is not."""

    def completion_text(self, system: str, user: str) -> str:
        """The text that a model answers."""


def durable_json_decision(
    path: str | Path,
    *,
    system: str,
    request: Mapping[str, Any],
    schema: Mapping[str, Any],
    validator: Callable[[Mapping[str, Any], Any], object],
    context_root: str | Path,
    context_scope: Mapping[str, str],
    principal: str,
    stage: str,
    policy: ContextPolicy,
    client: TextClient | None = None,
    schema_name: str,
) -> Any:
    """The value that a model decided on, saved at `path`; asked for once.

    `validator(schema, value)` raises where the value is not to be used; it is asked again when a saved value is read.
    `context_root` is the session's root, `context_scope` has its job_id and run_id; `stage` is what the turn focuses
    on, and every key of `request` stays exact. Without a `client` the model is the one that MN_LLM_MODEL names.

    Raises IdempotencyConflict where `path` holds the answer to another question; UnusableResponse where the model
    answered no JSON: the answer is stored, so ask under another path; InvocationInFlight while somebody else asks it;
    StorageFull or DependencyUnavailable where the file cannot be written; and what a session's turn raises.
    """
    file, root = _file(path), _resolved(read_folder(context_root, "context_root"), "context_root")
    asked = _asked(system, request, schema, schema_name)
    job_id, run_id = _scope(context_scope)
    check_text(stage, "stage", FOCUS_BYTES_MAX)
    if not callable(validator):
        raise InvalidInput("validator must be a function of schema and value", field="validator")
    if not isinstance(policy, ContextPolicy):
        raise InvalidInput("policy must be a ContextPolicy: write ContextPolicy(**policy)", field="policy")
    if client is not None and not callable(getattr(client, "completion_text", None)):
        raise InvalidInput("client must have completion_text(system, user)", field="client")
    saved = _saved(file, asked)
    if saved is not None:
        return _validated(validator, asked, saved["value"], f"the value saved in {file} was refused")
    settings = {} if client is not None else _settings()
    _make_folder(file)
    name = f"json-decision/{digest(os.fsencode(os.path.relpath(file, root)))[:32]}"
    question = digest(asked).encode()
    with (
        _told_of(file),
        ContextSession(root, job_id=job_id, run_id=run_id, principal=principal, policy=policy) as session,
    ):
        earlier = _billed(session, name)
        _check_question(session, earlier, question, file)
        if earlier is not None and earlier.state is State.AMBIGUOUS:
            raise ambiguous(earlier)
        session.journal.bindings.bind(name, question)
        try:
            with session.turn(name, focus=stage, required_fields=tuple(asked["request"])) as turn:
                text = _answer(client, asked, schema_name, policy, settings)
            usage = {} if turn.report is None else dict(turn.report.usage)
        except IdempotencyConflict as conflict:  # somebody has had it called, and perhaps with another stage or model
            text, usage = _answered(session, name, question, file, conflict)
        else:
            if turn.replayed:  # a client's call need not say what the schema is
                _check_question(session, _billed(session, name), question, file)
        value = _value(name, text)
        refused = (
            f"the answer for {file} was paid for and is stored; it is offered again, at no cost, to a validator that "
        )
        _validated(validator, asked, value, f"{refused}takes it. Another answer needs another path")
        _save(file, {**asked, "value": value, "usage": usage})
    return value


def json_decision_capacity(
    system: str,
    request: Mapping[str, Any],
    schema: Mapping[str, Any],
    *,
    policy: ContextPolicy,
    schema_name: str,
    model: str | None = None,
    context_root: str | Path | None = None,
    context_scope: Mapping[str, str] | None = None,
    principal: str | None = None,
) -> int:
    """How many UTF-8 bytes of further text `request` may carry in a durable_json_decision, whatever the text says, but
    for control characters that JSON writes as `\\u00..`.

    What the record requires (constraints, open obligations) shares the room and is not subtracted: nothing is read
    here. `model` is the one that MN_LLM_MODEL names. It is counted as a session does; with `context_root`,
    `context_scope` and `principal` also by what was learned there. Raises InvalidInput.
    """
    from mn_sdk.context_session.assemble import Recalled, read_form
    from mn_sdk.context_session.documents import COVERAGE_WIDEST

    named = model or model_settings().get("model")
    if named is not None:
        _check_format(named)
    asked = _asked(system, request, schema, schema_name)
    form = read_form(_messages(system, asked["request"]), None)
    counted = {
        "messages": form.messages(Recalled(coverage=COVERAGE_WIDEST)),
        "response_format": _format(schema, schema_name),
    }
    if context_root is None:
        return available_text_bytes(policy, model=named or _UNNAMED, request=counted)
    job_id, run_id = _scope(context_scope)
    scope = SessionScope(job_id=job_id, run_id=run_id, principal=principal or "")
    return available_text_bytes(policy, model=named or _UNNAMED, request=counted, root=context_root, scope=scope)


def _asked(system: str, request: Mapping[str, Any], schema: Mapping[str, Any], schema_name: str) -> dict[str, Any]:
    """What is asked, as JSON of its own: nobody changes it while it is asked. Raises InvalidInput."""
    if not isinstance(system, str) or system.isspace():
        raise InvalidInput("system must be text, and not white space only", field="system")
    check_label(schema_name, "schema_name")
    for name, given in (("request", request), ("schema", schema)):
        if not isinstance(given, Mapping):
            raise InvalidInput(f"{name} must be an object", field=name)
    asked: dict[str, Any] = {"system": system, "request": dict(request), "schema": dict(schema)}
    for name, value in asked.items():
        encoded(value, name)
    return copy.deepcopy(asked)


def _validated(
    validator: Callable[[Mapping[str, Any], Any], object], asked: Mapping[str, Any], value: Any, refused: str
) -> Any:
    """The value, where the validator passes it; what that does to its arguments changes nothing. Its error gets the
    note `refused`."""
    try:
        validator(copy.deepcopy(asked["schema"]), copy.deepcopy(value))
    except Exception as error:  # the caller's, whatever it is
        error.add_note(refused)
        raise
    return value


def _file(path: str | Path) -> Path:
    """The file that a path leads to. Raises InvalidInput where none can be there."""
    file = _resolved(read_path(path, "path", "a file"), "path")
    try:
        if file.is_dir():
            raise InvalidInput(f"{file} is a folder; name a file in it", field="path")
    except OSError as error:  # a name that is too long, a folder that may not be read
        raise InvalidInput(f"{file} cannot be a file: {error.strerror}", field="path") from error
    return file


def _resolved(path: Path, field: str) -> Path:
    try:
        return path.resolve()
    except (RuntimeError, OSError) as error:  # until Python 3.13 a loop is a RuntimeError
        raise InvalidInput(f"{field} {path} leads nowhere: its links go round in a circle", field=field) from error


def _make_folder(file: Path) -> None:
    """What cannot be saved is not paid for: the folder, made. Raises InvalidInput."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        (file.parent / file.name).lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise InvalidInput(
            f"nothing was asked, because {file} cannot be written: {error.strerror}, {error.filename}", field="path"
        ) from error


@contextmanager
def _told_of(file: Path) -> Iterator[None]:
    """Errors of the call, in terms of the decision."""
    try:
        yield
    except InvocationInFlight as error:
        raise InvocationInFlight(
            f"somebody else is asking for {file} right now; call again when that has ended, and find the value there, "
            "where it was on the same question",
            **error.detail,
        ) from error
    except RecordInUse as error:
        raise RecordInUse(
            f"{file} was not asked for: {error.message}. With a server several processes decide at a time",
            **error.detail,
        ) from error
    except UnusableResponse as error:
        raise UnusableResponse(
            f"{file} was answered with no JSON that can be used; the answer is stored, and is not paid for again. Ask "
            "under another path",
            **error.detail,
        ) from error


def _other_question(file: Path) -> IdempotencyConflict:
    return IdempotencyConflict(
        f"{file} is the decision on another question; give this one a path of its own", key=file.name
    )


def _billed(session: ContextSession, name: str) -> Attempt | None:
    """The newest call of a name, where it may have been paid for."""
    newest = session.journal.invocations.newest(name)
    return newest if newest is not None and newest.state in MAY_BE_BILLED else None


def _check_question(session: ContextSession, attempt: Attempt | None, question: bytes, file: Path) -> None:
    """Raises IdempotencyConflict where a call is known to be on another question."""
    if attempt is not None and session.journal.bindings.of(attempt) not in (None, question):
        raise _other_question(file)


def _answered(
    session: ContextSession, name: str, question: bytes, file: Path, conflict: IdempotencyConflict
) -> tuple[str, dict[str, int]]:
    """The stored answer to this question of a call that was made otherwise, and its usage. Raises `conflict` where no
    call was paid for, IdempotencyConflict where one on another question may have been, AmbiguousInvocation where nobody
    knows, UnusableResponse."""
    from mn_sdk.context_session.provider import restore, usage_of

    newest = _billed(session, name)
    if newest is None:
        raise conflict
    if session.journal.bindings.of(newest) != question:
        raise _other_question(file) from conflict
    if newest.state not in REPLAYABLE or newest.response is None:
        raise ambiguous(newest)
    if not newest.usable:
        raise UnusableResponse(f"the stored answer of call {name!r} cannot be used", name=name, attempt=newest.attempt)
    return str(restore(newest.response).choices[0].message.content), usage_of(newest.response)


def _messages(system: str, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "system", "content": system}, {"role": "user", "content": encoded(dict(request)).decode()}]


def _format(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": dict(schema)}}


def _settings() -> dict[str, str]:
    """The model that the environment names. Raises InvalidInput where it names none that answers by a schema."""
    settings = model_settings()
    if "model" not in settings:
        raise InvalidInput(
            "name a model in MN_LLM_MODEL (such as openai/gpt-4o-mini), or hand in a client", field="client"
        )
    _check_format(settings["model"])
    return settings


def _check_format(model: str) -> None:
    from mn_sdk.context_session.provider import check_taken

    check_taken(model, ["response_format"])


def _answer(
    client: TextClient | None,
    asked: Mapping[str, Any],
    schema_name: str,
    policy: ContextPolicy,
    settings: Mapping[str, str],
) -> str:
    messages = _messages(asked["system"], asked["request"])
    if client is not None:
        text: Any = client.completion_text(*(message["content"] for message in messages))
        if not isinstance(text, str):
            raise InvalidInput(
                f"client.completion_text must answer text, not a {type(text).__name__}: the JSON as it was written",
                field="client",
            )
        return text
    from mn_sdk.context_session.provider import load

    wanted = _format(asked["schema"], schema_name)
    response = load().completion(messages=messages, response_format=wanted, max_tokens=policy.output_tokens, **settings)
    return str(response.choices[0].message.content)


def _value(name: str, text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_no_json)
        encoded(value)
        return value
    except (ValueError, RecursionError, InvalidInput) as error:
        raise UnusableResponse(f"call {name!r} was answered with something else than JSON", name=name) from error


def _no_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _scope(scope: Any) -> tuple[str, str]:
    if not isinstance(scope, Mapping) or scope.keys() != {"job_id", "run_id"}:
        raise InvalidInput("context_scope must have job_id and run_id, and nothing else", field="context_scope")
    return scope["job_id"], scope["run_id"]


def _saved(file: Path, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """What `file` holds; None where there is none. Raises IdempotencyConflict where it answers something else."""
    try:
        document = json.loads(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{file} cannot be read as a saved decision; move it away", field="path") from error
    if not isinstance(document, dict) or not document.keys() >= {*_ASKED, "value", "usage"}:
        raise InvalidInput(f"{file} holds no saved decision; move it away", field="path")
    if any(encoded(document[name]) != encoded(asked[name]) for name in _ASKED):
        raise _other_question(file)
    return document


def _save(file: Path, document: Mapping[str, Any]) -> None:
    """Writes the file so that it is there whole or not at all; what was paid for is in the journal either way. Raises
    StorageFull, DependencyUnavailable."""
    data = encoded(dict(document), "value")
    draft = file.parent / f".{uuid.uuid4().hex}.draft"
    try:
        try:
            with draft.open("xb") as written:
                written.write(data)
                written.flush()
                os.fsync(written.fileno())
            draft.replace(file)
        except BaseException:
            with suppress(OSError):  # it was never made, or the folder is gone; the first error says why
                draft.unlink()
            raise
    except OSError as error:
        told = (
            f"{file} was answered and cannot be written: {error.strerror}. Call again when it can be; a managed call "
            "is not made again"
        )
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise StorageFull(told) from error
        raise DependencyUnavailable(told, dependency="path") from error
