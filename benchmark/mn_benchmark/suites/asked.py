"""What a suite is asked, and how it answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mn_benchmark.data import Data
from mn_benchmark.report import OURS, Sample
from mn_benchmark.systems import Open
from mn_benchmark.values import DamagedData
from mn_contract.errors import InvalidInput, NotFound

_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The data, the systems to compare, the suite's settings, the seed of what it draws, and whom to tell how far it is
    and which parts of the data are not there or damaged. A suite whose data has no parts raises NotFound and
    DamagedData instead."""

    data: Data
    systems: Mapping[str, Open]
    settings: Mapping[str, Any]
    seed: int
    progress: Callable[[str], None]
    absent: Callable[[str], None]
    damaged: Callable[[str], None]

    @property
    def peers(self) -> Mapping[str, Open]:
        """The systems but ours, for suites that ask ours for packets."""
        return {name: opened for name, opened in self.systems.items() if name != OURS}

    def part(self, read: Callable[[Data], _Part]) -> _Part | None:
        """What is read; None where it is absent or damaged, which is told."""
        try:
            return read(self.data)
        except NotFound as error:
            self.absent(error.message)
        except DamagedData as error:
            self.damaged(error.message)
        return None

    def each(self, folder: str, pattern: str, read: Callable[[Data, Path], _Part], *, but: str = "") -> Iterator[_Part]:
        """What is read of each file of a kind (see Data.files), without those that are absent or damaged."""
        for file in self.part(lambda data: data.files(folder, pattern, but=but)) or ():
            part = self.part(lambda data: read(data, file))  # noqa: B023  (called at once)
            if part is not None:
                yield part


def no_settings(given: Mapping[str, Any]) -> None:
    """The settings of a suite that has none. Raises InvalidInput."""
    if given:
        raise InvalidInput(f"the suite has no settings, so no {next(iter(given))!r}", field="settings")


def whole_settings(suite: str, given: Mapping[str, Any], defaults: Mapping[str, int]) -> dict[str, int]:
    """The settings of a suite that has whole numbers, each with a default. Raises InvalidInput."""
    unknown = sorted(set(given) - set(defaults))
    if unknown:
        raise InvalidInput(f"{suite} has no setting {unknown[0]!r}; it has {', '.join(defaults)}", field="settings")
    settings = {**defaults, **given}
    for name, value in settings.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InvalidInput(f"{name} is a whole number from 1 up", field=f"settings.{name}")
    return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """What yields the samples, and what reads the settings, raising InvalidInput before anything is measured."""

    run: Callable[[Asked], Iterator[Sample]]
    read_settings: Callable[[Mapping[str, Any]], object] = no_settings


class Samples:
    """Values by case, system and metric, in the order in which they come."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, str], list[float]] = defaultdict(list)

    def add(self, system: str, metric: str, value: float, *cases: str) -> None:
        """One item's value, in each case that the item belongs to."""
        for case in cases:
            self._values[case, system, metric].append(value)

    def __iter__(self) -> Iterator[Sample]:
        for (case, system, metric), values in self._values.items():
            yield Sample(case=case, system=system, metric=metric, values=values)
