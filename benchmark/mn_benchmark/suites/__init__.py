"""The suites by name. A suite reads its data and yields samples; it knows nothing of reports and gates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mn_benchmark.suites import (
    beam,
    counter_evidence,
    cranfield,
    delta,
    faces,
    locomo,
    multihop,
    resume,
    speed,
    supersession,
    temporal,
    tokens,
)
from mn_benchmark.suites.asked import Asked, Suite

__all__ = ["SUITES", "Asked", "Suite"]

SUITES: Final[Mapping[str, Suite]] = {
    "beam": Suite(run=beam.run),
    "counter_evidence": Suite(run=counter_evidence.run, read_settings=counter_evidence.read_settings),
    "cranfield": Suite(run=cranfield.run),
    "delta": Suite(run=delta.run),
    "faces": Suite(run=faces.run, read_settings=faces.read_settings),
    "locomo": Suite(run=locomo.run),
    "multihop": Suite(run=multihop.run),
    "resume": Suite(run=resume.run),
    "speed": Suite(run=speed.run, read_settings=speed.read_settings),
    "supersession": Suite(run=supersession.run),
    "temporal": Suite(run=temporal.run, read_settings=temporal.read_settings),
    "tokens": Suite(run=tokens.run),
}
