"""What a benchmark run found: rows with their intervals, and the environment that they were measured in."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from mn_contract.errors import InvalidInput

OURS: Final = "membrane"
ALL: Final = "all"
"""The case that every suite has."""
_NAME: Final = "report.json"
_RESAMPLES: Final = 1000
_PACKAGES: Final = (
    "mn-context",
    "numpy",
    "duckdb",
    "pyarrow",
    "tiktoken",
    "litellm",
    "bm25s",
    "tantivy",
    "snowballstemmer",
)


Statistic = Literal["mean", "p50", "p95", "max"]
_STATISTICS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "mean": lambda values: values.mean(axis=-1),
    "p50": lambda values: np.percentile(values, 50, axis=-1),
    "p95": lambda values: np.percentile(values, 95, axis=-1),
    "max": lambda values: values.max(axis=-1),
}
"""Over the last axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one system did on the items of one case: a value an item (a question, a claim, a list), and which statistic
    of them is its figure."""

    case: str
    system: str
    metric: str
    values: Sequence[float]
    unit: str = "fraction"
    statistic: Statistic = "mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A statistic over `n` items with its 95 % interval (percentile bootstrap)."""

    case: str
    system: str
    metric: str
    value: float
    unit: str
    n: int
    ci_low: float
    ci_high: float


def row(sample: Sample, *, seed: int) -> Row:
    """The row of a sample. The same seed gives the same interval."""
    values = np.asarray(sample.values, np.float64)
    drawn = np.random.default_rng(seed).integers(0, len(values), (_RESAMPLES, len(values)))
    statistic = _STATISTICS[sample.statistic]
    low, high = np.percentile(statistic(values[drawn]), (2.5, 97.5))
    return Row(
        case=sample.case,
        system=sample.system,
        metric=sample.metric,
        value=round(float(statistic(values)), 6),
        unit=sample.unit,
        n=len(values),
        ci_low=round(float(low), 6),
        ci_high=round(float(high), 6),
    )


def environment(*, suite: str, seed: int, data: Mapping[str, str]) -> dict[str, Any]:
    """What a reader needs to run it again: versions, machine, seed, and the hash of each data file that was read."""
    return {
        "suite": suite,
        "seed": seed,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "data": dict(sorted(data.items())),
    }


def check_folder(folder: Path) -> None:
    """Makes the folder that a report goes to. Raises InvalidInput where it cannot hold one."""
    file = folder / _NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        wrong = "it is a file" if folder.is_file() else f"{error.strerror}".lower()
        raise InvalidInput(f"--output: the folder {folder} cannot be made: {wrong}", field="output") from error
    try:
        with tempfile.TemporaryFile(dir=folder):  # permissions alone do not tell: root has them on read-only disks
            pass
    except OSError as error:
        raise InvalidInput(f"--output: {folder} cannot be written: {error.strerror}", field="output") from error
    if file.is_dir():
        raise InvalidInput(f"--output: {file} is a folder, and is where the report goes", field="output")


def write_report(
    folder: Path,
    *,
    about: Mapping[str, Any],
    rows: Sequence[Row],
    absent: Sequence[str],
    errors: Sequence[str],
    failed: Sequence[str],
) -> Path:
    """Writes `report.json` and answers its path. `absent` says which data was not there, `errors` what was damaged or
    ended the suite, `failed` which gates failed."""
    file, written = folder / _NAME, folder / f"{_NAME}.new"
    told = {
        "environment": about,
        "rows": [asdict(one) for one in rows],
        "absent": absent,
        "errors": errors,
        "failed_gates": failed,
    }
    written.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    written.replace(file)
    return file


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
