"""Reported usage beyond the margin is told, and widens it for good; nothing else changes anything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mn_contract.errors import InvalidInput
from mn_tokens import Calibration, Count, Drift, calibration_of


def counted(tokens: int = 100, margin: int = 10) -> Count:
    return Count(tokens=tokens, margin=margin, exact=True, tokenizer="t", ledger=())


def test_usage_within_the_margin_changes_no_count() -> None:
    calibration, drift = Calibration().observed(counted(), model="m", billed=110)
    assert drift is None
    assert calibration.applied(counted(), model="m") == counted()
    assert calibration.models["m"].requests == 1


def test_drift_is_told_and_widens_the_margin_of_its_model_alone() -> None:
    calibration, drift = Calibration().observed(counted(), model="m", billed=130)
    assert isinstance(drift, Drift)
    assert "m billed 130 tokens" in str(drift)
    wider = calibration.applied(counted(), model="m")
    assert wider.upper == counted().upper + drift.widened_by
    assert wider.upper >= 130
    assert not wider.exact
    assert "1 times in 1" in wider.reasons[-1]
    assert calibration.applied(counted(), model="other") == counted()


def test_what_a_small_request_was_billed_more_is_a_constant() -> None:
    calibration, _ = Calibration().observed(counted(8, 1), model="m", billed=308)
    assert 300 <= calibration.applied(counted(100_000, 0), model="m").margin <= 400
    again, drift = calibration.observed(calibration.applied(counted(100_000, 0), model="m"), model="m", billed=100_300)
    assert drift is None
    assert again.models["m"].share == 0


def test_a_large_request_teaches_a_share_of_what_the_constant_leaves() -> None:
    calibration, _ = Calibration().observed(counted(8, 1), model="m", billed=308)
    count = calibration.applied(counted(10_000, 0), model="m")
    calibration, _ = calibration.observed(count, model="m", billed=count.upper + 1000)
    assert 0.1 <= calibration.models["m"].share <= 0.13
    assert 10_000 <= calibration.applied(counted(100_000, 0), model="m").margin <= 13_000
    assert calibration.applied(counted(8, 1), model="m").margin < 400


@pytest.mark.parametrize("billed", [10_000, 2**39, 2**70])
def test_what_no_request_costs_is_told_and_teaches_nothing(billed: int) -> None:
    calibration, drift = Calibration().observed(counted(8, 1), model="m", billed=billed)
    assert calibration == Calibration()
    assert drift is not None
    assert "nothing is learned" in str(drift)


def test_calls_that_were_out_together_teach_once() -> None:
    calibration = Calibration()
    for _ in range(8):
        calibration, drift = calibration.observed(counted(), model="m", billed=300)
        assert drift is not None
        assert drift.widened_by > 0
    assert calibration.applied(counted(), model="m").widened <= 1.25 * 200


def test_a_model_can_be_forgotten() -> None:
    calibration, _ = Calibration().observed(counted(), model="m", billed=300)
    calibration, _ = calibration.observed(counted(), model="other", billed=300)
    forgotten = calibration.forgotten("m").forgotten("never seen")
    assert forgotten.applied(counted(), model="m") == counted()
    assert forgotten.applied(counted(), model="other").widened


requests = st.tuples(st.integers(1, 5000), st.integers(0, 50), st.integers(1, 9000))
BELIEVED = 8, 4096


@given(st.lists(requests, min_size=1, max_size=12))
def test_what_was_billed_once_is_covered_ever_after(seen: list[tuple[int, int, int]]) -> None:
    calibration = Calibration()
    for tokens, margin, billed in seen:
        count = calibration.applied(counted(tokens, margin), model="m")
        calibration, drift = calibration.observed(count, model="m", billed=billed)
        assert (drift is not None) == (billed > count.upper)
    for tokens, margin, billed in seen:
        most = BELIEVED[0] * tokens + BELIEVED[1]
        wider = calibration.applied(counted(tokens, margin), model="m")
        assert wider.upper >= billed or billed > tokens + margin + most
        assert wider.widened <= most
    assert calibration_of(json.loads(json.dumps(calibration.document()))) == calibration


def test_of_too_many_models_those_that_drifted_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mn_tokens.calibration._MODELS_MAX", 3)
    calibration, _ = Calibration().observed(counted(), model="drifts", billed=200)
    for number in range(5):
        calibration, _ = calibration.observed(counted(), model=f"holds-{number}", billed=100)
    assert len(calibration.models) == 3
    assert "drifts" in calibration.models


@pytest.mark.parametrize("billed", [0, -1, True, 1.5, 1e9, float("nan"), "many", None, {}])
def test_usage_that_is_no_number_of_tokens_teaches_nothing(billed: Any) -> None:
    assert Calibration().observed(counted(), model="m", billed=billed) == (Calibration(), None)


HELD = {"requests": 1, "exceeded": 0, "tokens": 0, "share": 0.0}


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"version": 2, "models": {}},
        {"version": 1, "models": []},
        {"version": 1, "models": {"m": {}}},
        {"version": 1, "models": {"m": {**HELD, "more": 1}}},
        {"version": 1, "models": {"m": {**HELD, "tokens": -1}}},
        {"version": 1, "models": {"m": {**HELD, "requests": 1.5}}},
        {"version": 1, "models": {"m": {**HELD, "share": float("nan")}}},
        {"version": 1, "models": {"m": {**HELD, "share": float("inf")}}},
    ],
)
def test_a_document_of_another_form_is_refused(document: Any) -> None:
    with pytest.raises(InvalidInput):
        calibration_of(document)
