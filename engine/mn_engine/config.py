"""Configuration: the only reader of the environment. Values are checked here, once, before anything is opened."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from mn_contract.addresses import ADDRESS_DEFAULT, Address, read_address, read_replicas
from mn_contract.errors import InvalidInput
from mn_contract.limits import CARD_LIST_MAX, PROFILES_MAX, ROLES_MAX
from mn_contract.names import check_id, check_sha256, read_names
from mn_engine.domain.scope import Scope
from mn_engine.domain.signed_notes import SigningKey
from mn_engine.faces.gate import BoundToken, Gate
from mn_engine.select.cmp.profiles import GENERIC, ModelProfile, Weights
from mn_engine.service.selector import Consultant

_FILE_BYTES_MAX: Final = 1 << 20
_ANY: Final = "*"
"""In a token's jobs: any job."""
_JOBS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """What `serve` needs. `http` None serves gRPC alone, `signing_key` None signs no roots."""

    address: Address
    http: Address | None
    record: Path
    gate: Gate
    allow_plaintext: bool
    signing_key: SigningKey | None


@dataclass(frozen=True, slots=True, kw_only=True)
class McpConfig:
    """What `mcp` needs: whom it speaks for, and the engine that it dials; without replicas it opens the record."""

    scope: Scope
    replicas: tuple[Address, ...]
    token: str
    record: Path


def serve_config(
    environment: Mapping[str, str] | None = None,
    *,
    address: str | None = None,
    http: str | None = None,
    store: str | None = None,
    signing_key: str | None = None,
    allow_plaintext: bool = False,
) -> ServeConfig:
    """The server's configuration: arguments first, then the environment, then defaults. Raises InvalidInput."""
    env = os.environ if environment is None else environment
    gate = _gate(env)
    named, field = _named(env, address, "--address", "MN_CONTEXT_ADDR")
    listen = _listening(named or ADDRESS_DEFAULT, field, gate, allow_plaintext)
    beside, field = _named(env, http, "--http", "MN_CONTEXT_HTTP")
    return ServeConfig(
        address=listen,
        http=_listening(beside, field, gate, allow_plaintext) if beside else None,
        record=record_path(env, store=store),
        gate=gate,
        allow_plaintext=allow_plaintext,
        signing_key=read_signing_key(env, named=signing_key),
    )


def _listening(named: str, field: str, gate: Gate, allow_plaintext: bool) -> Address:
    """An address to listen at. Raises InvalidInput where others than this machine could reach it unasked."""
    listen = read_address(named, field)
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
    return listen


def mcp_config(environment: Mapping[str, str] | None = None, *, store: str | None = None) -> McpConfig:
    """The configuration of MCP over stdio. Raises InvalidInput naming the variable that is missing or wrong."""
    env = os.environ if environment is None else environment
    ids = {
        variable: check_id(env.get(variable, ""), variable) for variable in ("MN_JOB_ID", "MN_RUN_ID", "MN_PRINCIPAL")
    }
    job_id, run_id, principal = ids.values()
    roles = [role.strip() for role in env.get("MN_ROLES", "").split(",") if role.strip()]
    read_names(roles, "MN_ROLES", check_id, ROLES_MAX)
    dial = env.get("MN_CONTEXT_ADDR", "")
    if dial and store is not None:
        raise InvalidInput("--store names a record to open, and MN_CONTEXT_ADDR an engine to dial", field="--store")
    return McpConfig(
        scope=Scope(job_id=job_id, run_id=run_id, principal=principal, roles=frozenset(roles)),
        replicas=read_replicas(dial, "MN_CONTEXT_ADDR") if dial else (),
        token=env.get("MN_CONTEXT_AUTH_TOKEN", "").strip(),
        record=record_path(env, store=store),
    )


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


def read_signing_key(environment: Mapping[str, str] | None = None, *, named: str | None = None) -> SigningKey | None:
    """The key that signs roots, from the file that the argument or MN_CONTEXT_SIGNING_KEY_FILE names; None where
    neither does. Raises InvalidInput, also where everybody may read the file."""
    env = os.environ if environment is None else environment
    path, field = _named(env, named, "--signing-key", "MN_CONTEXT_SIGNING_KEY_FILE")
    if not path:
        return None
    try:
        if not stat.S_ISREG(os.stat(Path(path).expanduser()).st_mode):
            raise InvalidInput(f"{field}: {path} is no file; mn-context-engine keygen makes one", field=field)
        with Path(path).expanduser().open(encoding="utf-8") as file:
            exposed = os.fstat(file.fileno()).st_mode & stat.S_IROTH
            text = file.read(_FILE_BYTES_MAX)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{field}: {path} cannot be read: {type(error).__name__}", field=field) from error
    if exposed:
        raise InvalidInput(f"{field}: everybody may read {path}; chmod 600 it, or make a new key", field=field)
    try:
        return SigningKey.of(text.removesuffix("\n"))
    except InvalidInput as error:
        raise InvalidInput(
            f"{field}: {path}: {error.message}; mn-context-engine keygen makes one", field=field
        ) from error


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


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that stands twice, where YAML forbids it and PyYAML takes the last: one of the two is not meant."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """See SafeLoader. Raises _KeyTwice, which does not tell the key: it may be a token."""
        seen = set()
        for key, _ in node.value:
            if (key.tag, str(key.value)) in seen:
                raise _KeyTwice(key.start_mark.line + 1)
            seen.add((key.tag, str(key.value)))
        return super().construct_mapping(node, deep=deep)


def _read_map(path: Path, field: str, key: str, told: str) -> dict[Any, Any]:
    """What stands under `key` in a YAML file, `told` in words: a map that is not empty. Raises InvalidInput."""
    try:
        text = path.read_text(encoding="utf-8")
        document = yaml.load(text, _StrictLoader) if len(text) <= _FILE_BYTES_MAX else None
    except _KeyTwice as error:
        raise InvalidInput(
            f"{field}: line {error.line} has a key that stands there already; keep one of the two", field=field
        ) from error
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InvalidInput(f"{field} cannot be read: {type(error).__name__}", field=field) from error
    found = document.get(key) if isinstance(document, dict) else None
    if not isinstance(found, dict) or not found:
        raise InvalidInput(f"{field} must hold `{key}:`, a map from {told}", field=field)
    return found


def _bound_tokens(path: Path) -> tuple[BoundToken, ...]:
    """`tokens:` maps a token's SHA-256 to its principal, roles and jobs ("*" or left out: any job)."""
    field = f"MN_CONTEXT_TOKENS_FILE {path}"
    tokens = _read_map(path, field, "tokens", "token hash to principal, roles, jobs")
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


_PROFILE_KEYS: Final = frozenset({"context_window", "pack_token_budget", "chars_per_token", "weights"})
_OPTIONAL_KEYS: Final = frozenset({"packer", "aliases"})
_WEIGHT_KEYS: Final = frozenset({"relevance", "recency", "trust"})
_PACKERS: Final = {"knapsack": True, "layers": False}
_TOKENS_MAX: Final = 1 << 40
"""Of a context window: what nobody means is a slip."""


def profiles(environment: Mapping[str, str] | None = None) -> tuple[ModelProfile, ...]:
    """The model profiles that MN_CONTEXT_PROFILES_FILE adds to the built-in ones; none where it is not set.

    Raises InvalidInput naming the profile and what of it is wrong.
    """
    env = os.environ if environment is None else environment
    named = env.get("MN_CONTEXT_PROFILES_FILE")
    if not named:
        return ()
    field = f"MN_CONTEXT_PROFILES_FILE {named}"
    entries = _read_map(Path(named), field, "profiles", "name to what a model is given")
    if len(entries) > PROFILES_MAX:
        raise InvalidInput(f"{field}: at most {PROFILES_MAX} profiles", field=field)
    added = tuple(_profile(name, entry, f"{field}: {name!r}") for name, entry in entries.items())
    words = [word for profile in added for word in (profile.name, *profile.aliases)]
    twice = next((word for word in words if words.count(word) > 1 or word == GENERIC.name), None)
    if twice is not None:
        told = "is what no other profile knows" if twice == GENERIC.name else "names two profiles, or one twice"
        raise InvalidInput(f"{field}: {twice!r} {told}", field=field)
    return added


def _profile(name: Any, entry: Any, field: str) -> ModelProfile:
    """One entry. Raises InvalidInput."""
    if not isinstance(entry, dict) or not _PROFILE_KEYS <= set(entry) <= _PROFILE_KEYS | _OPTIONAL_KEYS:
        raise InvalidInput(
            f"{field} must have {', '.join(sorted(_PROFILE_KEYS))}, may have {' and '.join(sorted(_OPTIONAL_KEYS))}, "
            "and has nothing else",
            field=field,
        )
    weights, packer = entry["weights"], entry.get("packer", "knapsack")
    if not isinstance(weights, dict) or set(weights) != _WEIGHT_KEYS:
        raise InvalidInput(f"{field}: weights must have {', '.join(sorted(_WEIGHT_KEYS))}", field=field)
    if not isinstance(packer, str) or packer not in _PACKERS:
        raise InvalidInput(f"{field}: packer must be {' or '.join(_PACKERS)}", field=field)
    chars_per_token = _number(entry["chars_per_token"], f"{field}: chars_per_token")
    try:
        return ModelProfile(
            name=_word(name, field),
            context_window=_count(entry["context_window"], f"{field}: context_window"),
            pack_token_budget=_count(entry["pack_token_budget"], f"{field}: pack_token_budget"),
            chars_per_token=chars_per_token,
            weights=Weights(**{key: _thousandths(share, f"{field}: {key}") for key, share in weights.items()}),
            knapsack=_PACKERS[packer],
            aliases=read_names(entry.get("aliases", ()), f"{field}: aliases", _word, CARD_LIST_MAX),
        )
    except InvalidInput as error:
        told = error.message if error.message.startswith(field) else f"{field}: {error.message}"
        raise InvalidInput(told, field=field) from error


def _word(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{field}: a name must be text; write it in quotes", field=field)
    return value


def _count(value: Any, field: str) -> int:
    if type(value) is not int or not 0 < value <= _TOKENS_MAX:
        raise InvalidInput(f"{field} must be a whole number of tokens", field=field)
    return int(value)


def _number(value: Any, field: str) -> float:
    if type(value) not in (int, float):
        raise InvalidInput(f"{field} must be a number", field=field)
    return float(value)


def _thousandths(share: Any, field: str) -> int:
    thousandths = round(_number(share, field) * 1000, 6)
    if not 0 <= thousandths <= 1000 or not thousandths.is_integer():
        raise InvalidInput(f"{field} must be a share from 0 to 1, in whole thousandths", field=field)
    return int(thousandths)
