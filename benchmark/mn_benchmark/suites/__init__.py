"""The suites by name. A suite reads its data and yields samples; it knows nothing of reports and gates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mn_benchmark.suites import cranfield, locomo, multihop, speed
from mn_benchmark.suites.asked import Asked, Suite

__all__ = ["SUITES", "Asked", "Suite"]

SUITES: Final[Mapping[str, Suite]] = {
    "cranfield": cranfield.run,
    "locomo": locomo.run,
    "multihop": multihop.run,
    "speed": speed.run,
}
