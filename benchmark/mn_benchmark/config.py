"""A benchmark's configuration: which suite, its settings, its peers, and the gates that its figures must pass."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from mn_benchmark.report import ALL, OURS, Row
from mn_benchmark.suites import SUITES
from mn_benchmark.systems import systems
from mn_contract.errors import InvalidInput

_KEYS: Final = {"suite", "seed", "peers", "settings", "gates"}
_GATE_KEYS: Final = {"metric", "case", "system", "at_least", "at_most", "at_least_peer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A bound that a figure must keep: a number, or the same figure of a peer."""

    metric: str
    case: str = ALL
    system: str = OURS
    at_least: float | None = None
    at_most: float | None = None
    at_least_peer: str | None = None

    def absence(self, rows: Sequence[Row]) -> str:
        """That there is nothing to hold to it; empty where there is, or where nothing was measured at all."""
        told = {(one.system, one.case, one.metric) for one in rows}
        if not rows or self.failure(rows) or (self.system, self.case, self.metric) in told:
            return ""
        return f"no {self.case} {self.metric} of {self.system} was measured, so its gate was held to nothing"

    def failure(self, rows: Sequence[Row]) -> str:
        """How these rows fail it; empty where they pass, or where this case's data is not there."""
        if rows and all(one.metric != self.metric for one in rows):
            return f"{self.metric} is no figure of this suite"
        figures = {one.system: one.value for one in rows if (one.metric, one.case) == (self.metric, self.case)}
        value = figures.get(self.system)
        if value is None:
            return ""
        told = f"{self.system} {self.case} {self.metric} is {value:.4g}"
        if self.at_least is not None and value < self.at_least:
            return f"{told}, below {self.at_least:g}"
        if self.at_most is not None and value > self.at_most:
            return f"{told}, above {self.at_most:g}"
        if self.at_least_peer is not None and value < figures.get(self.at_least_peer, value):
            return f"{told}, below {self.at_least_peer}'s {figures[self.at_least_peer]:.4g}"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One run of one suite."""

    suite: str
    seed: int = 0
    peers: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    gates: tuple[Gate, ...] = ()


def read_config(file: Path) -> Config:
    """The configuration in a YAML file. Raises InvalidInput, naming the file and the key."""
    try:
        return _config(_yaml(file))
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error.message}", field=error.field) from error


def _yaml(file: Path) -> Any:
    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"it cannot be read: {error.strerror}", field="config") from error
    except UnicodeDecodeError as error:
        raise InvalidInput("it is no text in UTF-8", field="config") from error
    except yaml.MarkedYAMLError as error:
        at = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InvalidInput(f"it is no YAML{at}: {' '.join(str(error.problem).split())}", field="config") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # signs, dates and nesting that YAML cannot hold
        raise InvalidInput("it is no YAML of a configuration", field="config") from error


def _config(given: Any) -> Config:
    if given is None:
        raise InvalidInput(f"it is empty; a configuration has {_listed(_KEYS)}", field="config")
    read = _object(given, "a configuration", _KEYS)
    suite = read.get("suite")
    if not isinstance(suite, str) or suite not in SUITES:
        wrong = f"there is no suite {suite!r:.60}" if "suite" in read else "it names no suite"
        raise InvalidInput(f"{wrong}; suites are {_listed(SUITES)}", field="suite")
    seed, peers, settings = read.get("seed", 0), read.get("peers") or [], read.get("settings") or {}
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise InvalidInput("seed is a whole number from 0 up", field="seed")
    if not isinstance(peers, list) or not all(isinstance(peer, str) for peer in peers):
        raise InvalidInput("peers is a list of names", field="peers")
    systems(peers)
    if not isinstance(settings, dict) or not all(isinstance(name, str) for name in settings):
        raise InvalidInput("settings is an object", field="settings")
    SUITES[suite].read_settings(settings)
    gates = read.get("gates") or []
    if not isinstance(gates, list):
        raise InvalidInput("gates is a list", field="gates")
    return Config(
        suite=suite,
        seed=seed,
        peers=tuple(peers),
        settings=settings,
        gates=tuple(_gate(gate, peers) for gate in gates),
    )


def _gate(given: Any, peers: Sequence[str]) -> Gate:
    read = _object(given, "a gate", _GATE_KEYS)
    bounds = [read.get(bound) for bound in ("at_least", "at_most")]
    peer = read.get("at_least_peer")
    if not isinstance(read.get("metric"), str) or [*bounds, peer] == [None, None, None]:
        raise InvalidInput("a gate has a metric, and at_least, at_most or at_least_peer", field="gates")
    if peer is not None and peer not in peers:
        raise InvalidInput("a gate's at_least_peer is one of the configuration's peers", field="gates")
    if not all(bound is None or _is_number(bound) for bound in bounds):
        raise InvalidInput("a gate's bound is a number", field="gates")
    if not all(isinstance(read.get(name, ""), str) for name in ("case", "system")):
        raise InvalidInput("a gate's case and system are names", field="gates")
    return Gate(**read)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _object(given: Any, what: str, keys: set[str]) -> dict[str, Any]:
    if not isinstance(given, dict) or not all(isinstance(key, str) for key in given):
        raise InvalidInput(f"{what} is an object with {_listed(keys)}", field="config")
    unknown = sorted(set(given) - keys)
    if unknown:
        raise InvalidInput(f"{what} has no {unknown[0]!r}; it has {_listed(keys)}", field=unknown[0])
    return given


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
