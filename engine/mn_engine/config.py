"""Configuration: the only reader of the environment. Values are checked here, once, before anything is opened."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from mn_contract.addresses import ADDRESS_DEFAULT, Address, read_address
from mn_contract.errors import InvalidInput
from mn_contract.limits import ROLES_MAX
from mn_contract.names import check_id, check_sha256, read_names
from mn_engine.faces.gate import BoundToken, Gate
from mn_engine.service.selector import Consultant

_TOKENS_BYTES_MAX: Final = 1 << 20
_ANY: Final = "*"
"""In a token's jobs: any job."""
_JOBS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """What `serve` needs."""

    address: Address
    record: Path
    gate: Gate
    allow_plaintext: bool


def serve_config(
    environment: Mapping[str, str] | None = None,
    *,
    address: str | None = None,
    store: str | None = None,
    allow_plaintext: bool = False,
) -> ServeConfig:
    """The server's configuration: arguments first, then the environment, then defaults. Raises InvalidInput."""
    env = os.environ if environment is None else environment
    named, field = _named(env, address, "--address", "MN_CONTEXT_ADDR")
    listen = read_address(named or ADDRESS_DEFAULT, field)
    gate = _gate(env)
    if not listen.loopback and gate.open:
        raise InvalidInput(
            f"{listen} is not loopback: set MN_CONTEXT_AUTH_TOKEN or MN_CONTEXT_TOKENS_FILE first",
            field=field,
        )
    if not listen.loopback and not allow_plaintext:
        raise InvalidInput(
            f"{listen} is not loopback and tokens would cross the network in plain text: put TLS in front, or say "
            "--allow-plaintext",
            field="--allow-plaintext",
        )
    return ServeConfig(address=listen, record=record_path(env, store=store), gate=gate, allow_plaintext=allow_plaintext)


def record_path(environment: Mapping[str, str] | None = None, *, store: str | None = None) -> Path:
    """Where the record lies: the argument, MN_CONTEXT_STORE, or a default under XDG_DATA_HOME. Raises InvalidInput."""
    env = os.environ if environment is None else environment
    named, field = _named(env, store, "--store", "MN_CONTEXT_STORE")
    if not named:
        home = Path(env.get("XDG_DATA_HOME") or Path(env.get("HOME") or "~").expanduser() / ".local" / "share")
        return home / "membrane" / "record.duckdb"
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", named):
        raise InvalidInput(f"{field} must be a path; this engine keeps its record in DuckDB", field=field)
    path = Path(named).expanduser()
    if path.is_dir():
        raise InvalidInput(f"{field}: {named} is a folder; name a file in it", field=field)
    return path


def selector(environment: Mapping[str, str] | None = None) -> Consultant | None:
    """The model selector that MN_CONTEXT_SELECTOR_FACTORY (`module:function`) makes; None where it is not set.

    Raises InvalidInput where the function is not there or what it makes has no `order`.
    """
    env = os.environ if environment is None else environment
    field = "MN_CONTEXT_SELECTOR_FACTORY"
    named = env.get(field, "").strip()
    if not named:
        return None
    module, _, function = named.partition(":")
    try:
        made = getattr(importlib.import_module(module), function)()
    except Exception as error:  # a module and a function of the user's own: they may raise anything
        raise InvalidInput(
            f"{field} must be module:function, a function without arguments that makes a selector; {named!r}: "
            f"{type(error).__name__}: {error}",
            field=field,
        ) from error
    if not callable(getattr(made, "order", None)):
        raise InvalidInput(f"{field}: what {named!r} makes has no order(question, offers)", field=field)
    return Consultant(made)


def _named(env: Mapping[str, str], option: str | None, flag: str, variable: str) -> tuple[str, str]:
    """(value, where it comes from): the option, or else the variable; empty where neither is given.

    Raises InvalidInput for an option that is empty: a shell variable was not set, and the default was not meant.
    """
    if option is None:
        return env.get(variable, ""), variable
    if not option.strip():
        raise InvalidInput(f"{flag} is empty: give it a value, or leave it out", field=flag)
    return option, flag


def _gate(env: Mapping[str, str]) -> Gate:
    trusted = env.get("MN_CONTEXT_AUTH_TOKEN", "").strip()
    sha256 = hashlib.sha256(trusted.encode()).hexdigest() if trusted else ""
    named = env.get("MN_CONTEXT_TOKENS_FILE")
    return Gate(trusted_sha256=sha256, bound=_bound_tokens(Path(named)) if named else ())


class _KeyTwice(yaml.YAMLError):
    """`line` is that of the second one."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class _TokensLoader(yaml.SafeLoader):
    """Refuses a key that stands twice, where YAML forbids it and PyYAML takes the last: one of the two is not meant."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """See SafeLoader. Raises _KeyTwice, which does not tell the key: it may be a token."""
        seen = set()
        for key, _ in node.value:
            if (key.tag, str(key.value)) in seen:
                raise _KeyTwice(key.start_mark.line + 1)
            seen.add((key.tag, str(key.value)))
        return super().construct_mapping(node, deep=deep)


def _bound_tokens(path: Path) -> tuple[BoundToken, ...]:
    """`tokens:` maps a token's SHA-256 to its principal, roles and jobs ("*" or left out: any job)."""
    field = f"MN_CONTEXT_TOKENS_FILE {path}"
    try:
        text = path.read_text(encoding="utf-8")
        document = yaml.load(text, _TokensLoader) if len(text) <= _TOKENS_BYTES_MAX else None
    except _KeyTwice as error:
        raise InvalidInput(
            f"{field}: line {error.line} has a key that stands there already; keep one of the two", field=field
        ) from error
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InvalidInput(f"{field} cannot be read: {type(error).__name__}", field=field) from error
    tokens = document.get("tokens") if isinstance(document, dict) else None
    if not isinstance(tokens, dict) or not tokens:
        raise InvalidInput(f"{field} must hold `tokens:`, a map from token hash to principal, roles, jobs", field=field)
    return tuple(
        _bound_token(sha256, entry, f"{field}: tokens[{number}]")
        for number, (sha256, entry) in enumerate(tokens.items(), start=1)
    )


def _bound_token(sha256: Any, entry: Any, field: str) -> BoundToken:
    """One entry. Errors number it: its key may be a token that somebody forgot to hash."""
    check_sha256(sha256, f"{field}, its key,")
    if not isinstance(entry, dict) or not set(entry) <= {"principal", "roles", "jobs"}:
        raise InvalidInput(f"{field} has a principal, and perhaps roles and jobs, and nothing else", field=field)
    jobs = read_names(entry.get("jobs", _ANY), f"{field}.jobs", _check_job, _JOBS_MAX)
    return BoundToken(
        sha256=sha256,
        principal=check_id(entry.get("principal", ""), f"{field}.principal"),
        roles=frozenset(read_names(entry.get("roles", ()), f"{field}.roles", check_id, ROLES_MAX)),
        jobs=None if _ANY in jobs else frozenset(jobs),
    )


def _check_job(job: str, field: str) -> str:
    return job if job == _ANY else check_id(job, field)
