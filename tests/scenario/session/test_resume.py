"""The six properties of resuming (arXiv:2608.03836), after a worker's death at steps of its call (invariant 10)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mn_benchmark.resuming import STEPS, Step
from mn_benchmark.suites import resume
from mn_contract import invocations
from mn_contract.invocations import Attempt, Begun, State
from mn_sdk.context_session.journal import sqlite
from tests.unit.benchmark.running import figures

SAMPLED = ("respond", "before")
"""The provider has answered and the journal does not know: there is the most to do for those who resume."""


@pytest.fixture(
    params=[pytest.param(step, id=" ".join(step), marks=() if step == SAMPLED else pytest.mark.full) for step in STEPS]
)
def death(request: pytest.FixtureRequest) -> Iterator[resume.Death]:
    step: Step = request.param
    with resume.died(step, "1") as death:
        yield death


def test_prefix_continuation(death: resume.Death) -> None:
    """The recorded prefix is kept and continued; no part of it runs again."""
    assert resume.prefix_continuation(death)


def test_effect_exactly_once(death: resume.Death) -> None:
    """Each call reaches the provider once, and its response the record once."""
    assert resume.effect_exactly_once(death)


def test_fork_determinism(death: resume.Death) -> None:
    """Two resumes from one point build identical requests."""
    assert resume.fork_determinism(death)


def test_checkpoint_validity(death: resume.Death) -> None:
    """A partial or corrupt record is refused with a typed error, and nothing is asked for again."""
    assert resume.checkpoint_validity(death)


def test_consume_once(death: resume.Death) -> None:
    """An invocation, its settlement and its late response are each consumed by one resumer."""
    assert resume.consume_once(death)


def test_recovery_determinism(death: resume.Death) -> None:
    """Recovering twice, or being killed while recovering, ends in the same state."""
    assert resume.recovery_determinism(death)


def test_the_properties_notice_a_journal_that_lets_an_unknown_call_be_made_again(
    death: resume.Death, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(newest: Attempt | None, *known: Any) -> Begun:
        if newest is not None and newest.state in (State.DISPATCHED, State.AMBIGUOUS):
            newest = replace(newest, state=State.FAILED_DEFINITE)
        return invocations.begin(newest, *known)

    monkeypatch.setattr(sqlite, "begin", forgetful)
    if death.image.step in (("dispatch", "after"), ("respond", "before")):
        assert not resume.consume_once(death)  # at other steps only a race of resumers would tell
    assert resume.effect_exactly_once(death) is (death.image.step != SAMPLED)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_the_suite_holds_for_every_death(tmp_path: Path) -> None:
    found = figures(tmp_path, "suite: resume", tmp_path)
    assert {case for case, _, _ in found} == {"all", *resume.PROPERTIES}
    assert set(found.values()) == {(1.0, len(STEPS)), (1.0, len(STEPS) * len(resume.PROPERTIES))}
