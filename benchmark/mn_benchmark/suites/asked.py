"""What a suite is asked, and how it answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mn_benchmark.data import Data
from mn_benchmark.report import OURS, Sample
from mn_benchmark.systems import Open


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The data, the systems to compare, the suite's settings, the seed of what it draws, and whom to tell how far it is
    and what is not there."""

    data: Data
    systems: Mapping[str, Open]
    settings: Mapping[str, Any]
    seed: int
    progress: Callable[[str], None]
    absent: Callable[[str], None]
    """Takes a part of the data that is not there. Where none is, a suite raises NotFound."""

    @property
    def peers(self) -> Mapping[str, Open]:
        """The systems but ours, for suites that ask ours for packets."""
        return {name: opened for name, opened in self.systems.items() if name != OURS}


Suite = Callable[[Asked], Iterator[Sample]]


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
