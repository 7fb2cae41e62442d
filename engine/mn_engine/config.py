"""Configuration: the only reader of the environment. Values are checked here, once, before anything is opened."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from mn_contract.errors import InvalidInput
from mn_contract.names import check_id, check_sha256
from mn_engine.faces.gate import BoundToken, Gate

ADDRESS_DEFAULT: Final = "127.0.0.1:50052"
_TOKENS_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


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
    listen = parse_address(address or env.get("MN_CONTEXT_ADDR") or ADDRESS_DEFAULT, "MN_CONTEXT_ADDR")
    gate = _gate(env)
    if not listen.loopback and gate.open:
        raise InvalidInput(
            f"{listen} is not loopback: set MN_CONTEXT_AUTH_TOKEN or MN_CONTEXT_TOKENS_FILE first",
            field="MN_CONTEXT_ADDR",
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
    named = store or env.get("MN_CONTEXT_STORE")
    if not named:
        home = Path(env.get("XDG_DATA_HOME") or Path(env.get("HOME") or "~").expanduser() / ".local" / "share")
        return home / "membrane" / "record.duckdb"
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", named):
        raise InvalidInput(
            "MN_CONTEXT_STORE must be a path; this engine keeps its record in DuckDB", field="MN_CONTEXT_STORE"
        )
    path = Path(named).expanduser()
    if path.is_dir():
        raise InvalidInput(f"{named} is a folder; name a file in it", field="MN_CONTEXT_STORE")
    return path


def parse_address(text: str, field: str) -> Address:
    """HOST:PORT, the host in brackets where it is IPv6. Raises InvalidInput naming `field`."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or len(port) > 5 or int(port) > 65535:
        raise InvalidInput(f"{field} must be HOST:PORT such as {ADDRESS_DEFAULT}, not {text!r}", field=field)
    return Address(host=host, port=int(port))


def _gate(env: Mapping[str, str]) -> Gate:
    trusted = env.get("MN_CONTEXT_AUTH_TOKEN", "").strip()
    sha256 = hashlib.sha256(trusted.encode()).hexdigest() if trusted else ""
    named = env.get("MN_CONTEXT_TOKENS_FILE")
    return Gate(trusted_sha256=sha256, bound=_bound_tokens(Path(named)) if named else ())


def _bound_tokens(path: Path) -> tuple[BoundToken, ...]:
    """`tokens:` maps a token's SHA-256 to its principal, roles and jobs ("*" or left out: any job)."""
    field = "MN_CONTEXT_TOKENS_FILE"
    try:
        text = path.read_text(encoding="utf-8")
        document = yaml.safe_load(text) if len(text) <= _TOKENS_BYTES_MAX else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidInput(f"{field} cannot be read: {type(error).__name__}", field=field) from error
    tokens = document.get("tokens") if isinstance(document, dict) else None
    if not isinstance(tokens, dict) or not tokens:
        raise InvalidInput(f"{field} must hold `tokens:`, a map from token hash to principal, roles, jobs", field=field)
    return tuple(_bound_token(str(sha256), entry, field) for sha256, entry in tokens.items())


def _bound_token(sha256: str, entry: Any, field: str) -> BoundToken:
    check_sha256(sha256, field)
    if not isinstance(entry, dict) or not set(entry) <= {"principal", "roles", "jobs"}:
        raise InvalidInput(f"{field}: a token has a principal, and perhaps roles and jobs", field=field)
    jobs = entry.get("jobs", "*")
    roles = entry.get("roles", [])
    if not isinstance(roles, list) or not (jobs == "*" or isinstance(jobs, list)):
        raise InvalidInput(f"{field}: roles and jobs are lists (jobs may be '*')", field=field)
    return BoundToken(
        sha256=sha256,
        principal=check_id(entry.get("principal", ""), field),
        roles=frozenset(check_id(role, field) for role in roles),
        jobs=None if jobs == "*" else frozenset(check_id(job, field) for job in jobs),
    )
