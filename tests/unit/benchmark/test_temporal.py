"""The suite that measures facts, on a few: which rows it gives and what they count, never how long anything takes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mn_benchmark.temporal.histories import YEARS, Step, calendar, checked, drawn
from mn_benchmark.temporal.made import Made, batches
from mn_benchmark.temporal.stages import Stages
from mn_engine.domain import facts as rule
from mn_engine.domain import merkle
from mn_engine.domain.merkle import Frontier
from mn_engine.recall import timelines
from tests.unit.benchmark.running import figures, ran

SETTINGS = "{facts: 300, histories: 30, queries: 2, writes: 10, rounds: 1, leaves: 1000}"
PLACE = ("is", "")
STAGES = ("protobuf", "validation", "view", "analysis", "canonical", "leaf", "commit", "rest")


def test_each_figure_stands_beside_its_floor(tmp_path: Path) -> None:
    found = figures(tmp_path, f"suite: temporal\nsettings: {SETTINGS}", tmp_path)
    ours = {(case, metric) for case, system, metric in found if system == "membrane"}
    questions = ("common-term", "content-term")
    ways = ("upsert", "event", "committed event")
    parts = ("select", "no hops", "compile", "as of")
    assert ours == {
        *((case, "batch_ratio") for case in ("all", "with analysis")),
        *((case, "facts_per_second") for case in ("upsert_many", "analysis aside", "raw insert")),
        ("all", "root_share"),
        *((case, "writers_ratio") for case in ("all", "events", "grown", "grown events")),
        *((f"{run}{way}", "writes_per_second") for run in ("", "grown ") for way in ways),
        *((case, "upsert_ratio") for case in ("all", "batch")),
        *((case, "upsert_us") for case in ("all", "floor", "batch", "batch floor")),
        *((f"{way}{stage}", "upsert_stage_us") for way in ("", "batch ") for stage in STAGES),
        *(
            (case, metric)
            for case in questions
            for metric in ("ratio_to_tantivy", "compile_ratio", "hops_ratio", "hops_of_compile", "as_of_ratio")
        ),
        *((f"{case} {part}", "p50_ms") for case in questions for part in parts),
        *((case, "as_of_ratio") for case in ("a time of its own", "unshared")),
        *((case, "p50_ms") for case in ("a time of its own", "unshared now", "unshared as of")),
        *((case, "time_travel_ms") for case in ("all", "known then", "everything")),
        *((case, "entity_ms") for case in ("all", "2 hops")),
        ("all", "verify_ratio"),
        *((case, "verify_seconds") for case in ("all", "floor")),
        *((case, name) for case in ("100 leaves", "1,000 leaves") for name in ("proof_nodes", "append_nodes")),
        *((case, "verify_proof_us") for case in ("100 leaves", "1,000 leaves")),
        *(("all", metric) for metric in ("proof_to_log2", "append_to_log2")),
        *((case, name) for case in ("all", "contexts") for name in ("stale_suppressed", "past_found")),
    }
    assert {case for case, system, _ in found if system == "tantivy"} == set(questions)
    for metric in ("stale_suppressed", "past_found"):
        assert found["all", "membrane", metric] == (1.0, 30)
        assert found["contexts", "membrane", metric] == (1.0, 3)
    assert found["1,000 leaves", "membrane", "proof_nodes"][0] == 10
    assert 0 < found["all", "membrane", "root_share"][0] < 1


@pytest.mark.parametrize("settings", ["{fact: 3}", "{facts: 0}", "{rounds: true}", "{histories: many}"])
def test_a_bad_setting_is_told(tmp_path: Path, settings: str) -> None:
    result = ran(tmp_path, f"suite: temporal\nsettings: {settings}", tmp_path)
    assert result.exit_code == 2
    assert len(result.output.strip().splitlines()) == 1


def _step(name: str, since: int, until: int | None = None, *, singular: bool = True, place: str = "") -> Step:
    return Step(place=("is", place), object=name, since=since, until=until, singular=singular)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([_step("a", 1), _step("b", 4)], "-aaabbbbbbbb"),
        ([_step("b", 4), _step("a", 1)], "-aaabbbbbbbb"),
        ([_step("a", 1), _step("b", 4, 6)], "-aaabbaaaaaa"),
        ([_step("a", 1), _step("b", 4, 6), _step("c", 2)], "-accbbaaaaaa"),
        ([_step("a", 1), _step("b", 4), _step("a", 1)], "-aaabbbbbbbb"),
        ([_step("a", 1), _step("b", 1), _step("a", 1)], "-aaaaaaaaaaa"),
        ([_step("a", 1), _step("b", 4, place="left")], "-aaa********"),
        ([_step("a", 1, singular=False), _step("b", 4, singular=False)], "-aaa********"),
        ([_step("a", 1, singular=False), _step("b", 4, 6)], "-aaabbaaaaaa"),
    ],
)
def test_a_calendar_says_who_holds_in_each_year(steps: list[Step], expected: str) -> None:
    """`-`: nothing holds; `*`: several do."""
    sheets = [sorted({steps[fact].object for fact in sheet}) for sheet in calendar(steps)]
    assert "".join("-" if not names else names[0] if len(names) == 1 else "*" for names in sheets) == expected


def test_histories_are_long_and_of_several_kinds() -> None:
    rng = random.Random(1)
    steps = [step for _ in range(500) for step in drawn(rng)]
    assert len(steps) > 1500
    assert {step.singular for step in steps} == {step.until is None for step in steps} == {True, False}
    assert all(0 < step.since < (YEARS if step.until is None else step.until) <= YEARS for step in steps)


@pytest.mark.parametrize("wrong", ["forgets to replace", "takes the newest for all times"])
def test_a_rule_that_is_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    def timeline(said: list[rule.Said]) -> list[rule.Span]:
        if wrong == "forgets to replace":
            return sorted(rule.Span(one.since, one.until, number) for number, one in enumerate(said))
        return [rule.Span(said[-1].since, said[-1].until, len(said) - 1)]

    monkeypatch.setattr(timelines, "timeline", timeline)
    found = {(one.case, one.metric): min(one.values) for one in checked(60, 7, lambda _: None)}
    metric = "stale_suppressed" if wrong == "forgets to replace" else "past_found"
    assert found["all", metric] == 0


def test_the_same_seed_makes_the_same_facts() -> None:
    facts = Made(2000, 3).facts
    assert facts == Made(2000, 3).facts != Made(2000, 4).facts
    places: dict[tuple[str, ...], list[str]] = {}
    for fact in facts:
        places.setdefault((fact["subject"], fact["predicate"], fact["qualifier"]), []).append(fact["valid_from"])
    told = list(places.values())
    assert sum(len(one) > 1 for one in told) > len(told) / 3, "places have histories"
    assert any(one != sorted(one) for one in told), "some facts are dated back"
    assert any(len(set(one)) < len(one) for one in told), "some say otherwise of one time"
    assert {fact["singular"] for fact in facts} == {True, False}
    assert any("valid_until" in fact for fact in facts)
    assert [len(batch) for batch in batches(facts, 900)] == [900, 900, 200]


def test_stages_time_a_function_wherever_it_is_called_and_put_it_back() -> None:
    before = merkle.node_hash
    with Stages({"nodes": [merkle.node_hash], "frontier": [(Frontier, "extended")]}) as stages:
        frontier = Frontier().extended([b"a" * 32] * 8)
    assert stages.calls == {"nodes": 7, "frontier": 1}
    assert all(seconds > 0 for seconds in stages.seconds.values())
    frontier.extended([b"b" * 32])
    assert merkle.node_hash is before
    assert stages.calls == {"nodes": 7, "frontier": 1}
