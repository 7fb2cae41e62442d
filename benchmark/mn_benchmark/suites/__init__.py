"""The suites by name. A suite reads its data and yields samples; it knows nothing of reports and gates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mn_benchmark.suites import beam, counter_evidence, cranfield, locomo, multihop, resume, speed, supersession
from mn_benchmark.suites.asked import Asked, Suite

__all__ = ["SUITES", "Asked", "Suite"]

SUITES: Final[Mapping[str, Suite]] = {
    "beam": beam.run,
    "counter_evidence": counter_evidence.run,
    "cranfield": cranfield.run,
    "locomo": locomo.run,
    "multihop": multihop.run,
    "resume": resume.run,
    "speed": speed.run,
    "supersession": supersession.run,
}
