"""SIGKILL at every point of a call and of its recovery: nothing is sent twice unasked, nothing paid for is lost, and
whoever recovers ends in the same state (invariant 10)."""

from __future__ import annotations

import itertools
import os
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from mn_contract.invocations import State
from tests.crash.session.points import PATH, RECOVERY, Point, Recovery, is_paid
from tests.crash.session.provider import Provider, Received
from tests.crash.session.worker import Job, Nursery

SEED = int(os.environ.get("MN_TEST_SEED", "0"))
SEEDS = 25
ENGINES = ("embedded", "grpc")
SETTLINGS = ("", "retry", "log")
RECOVERIES_MAX = 4
LABELS = [point.label for point in (*PATH, *RECOVERY)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One worker's death at `point`, a second one's at `recovery` where there is one, and how it goes on."""

    name: str
    point: Point
    recovery: Recovery | None
    job: Job
    settling: str
    elsewhere: Path
    """The root of those who recover."""
    more_roles: tuple[str, ...]


def case_of(label: str, seed: int, address: str, folder: Path) -> Case:
    """The case of a label and a seed: the same whoever asks."""
    chance = random.Random(f"{label} {seed}")
    recovery = next((one for one in RECOVERY if one.label == label), None)
    ways = [
        point
        for point in PATH
        if point.label == label
        or (
            recovery is not None
            and point.state in recovery.found
            and point.sent >= recovery.sent
            and point.kept >= recovery.kept
        )
    ]
    point = chance.choice(ways)
    name = f"{label}-{seed}-{'grpc' if address else 'embedded'}".replace(" ", "_").replace(",", "")
    roles = chance.choice([(), ("auditor",)])
    job = Job(
        root=str(folder / "root"),
        run_id="",
        base="",
        address=address,
        roles=roles,
        request_bytes=chance.choice([0, 300, 20_000]),
        answer_bytes=max(chance.choice([0, 2_000, 40_000]), point.answer_bytes),
        stream=chance.random() < 0.5,
        asynchronous=chance.random() < 0.5,
    )
    return Case(
        name=name,
        point=point,
        recovery=recovery,
        job=job,
        settling=recovery.settling if recovery is not None and recovery.settling else chance.choice(SETTLINGS),
        elsewhere=folder / chance.choice(["root", "another root"] if address and not point.kept else ["root"]),
        more_roles=(*roles, *chance.choice([(), ("lead",)])),
    )


def violations(case: Case, nursery: Nursery, provider: Provider) -> list[str]:
    """What the case's workers did that they must not do.

    A response is paid for and must not be lost from the moment on at which its write has returned.
    """
    wrong: list[str] = []
    job = replace(case.job, base=provider.base, run_id=case.name)
    ended = nursery.run(replace(job, point=case.point.label))
    if ended.status != -signal.SIGKILL:
        return [f"the worker ended with {ended.status}"]
    paid = provider.received(case.name)
    if len(paid) != case.point.sent:
        wrong.append(f"{len(paid)} requests were received {case.point.label}")
    named = int(case.recovery is not None and case.recovery.settling == "retry")
    last: dict[str, Any] = {}
    for told in _recoveries(case, job, nursery, provider):
        if not last and case.recovery is None and told["found"] != _value(case.point.state):
            wrong.append(f"the journal holds {told['found']} {case.point.label}")
        named += case.settling == "retry" and told["settled"]
        received = provider.received(case.name)
        wrong += [*_sent_twice(received, named), *_not_replayed(told, received)]
        if is_paid(case.point) and (told["answer"] != paid[0].answer or len(received) > 1):
            wrong.append("a durable response was lost")
        if told["attempt"] < len(received):
            wrong.append(f"{len(received)} requests were received, and the journal knows {told['attempt']} attempts")
        last = told
    if (last["state"], bool(last["answer"])) != _expected(case):
        wrong.append(f"it ended {last['state']}, not {_expected(case)}")
    if last["recorded"] != bool(last["answer"]):
        wrong.append(f"the response is in the record {last['recorded']} times")
    return wrong


def _recoveries(case: Case, job: Job, nursery: Nursery, provider: Provider) -> Iterator[dict[str, Any]]:
    """What each worker that takes over tells, until nothing changes. The first one dies at the case's recovery."""
    taking_over = replace(job, root=str(case.elsewhere), roles=case.more_roles, settling=case.settling)
    before: tuple[Any, ...] = ()
    deaths = [case.recovery.label] if case.recovery is not None else []
    for number in range(RECOVERIES_MAX):
        logged = provider.received(case.name)
        worker = replace(taking_over, retry=f"r{number}", found=logged[-1].answer if logged else "")
        if deaths:
            ended = nursery.run(replace(worker, point=deaths.pop()))
            assert ended.status == -signal.SIGKILL, f"the worker that recovers ended with {ended.status}"
            continue
        ended = nursery.run(worker)
        assert ended.status == 0, f"the worker that recovers ended with {ended.status}"
        yield ended.told
        after = (ended.told["state"], ended.told["attempt"], ended.told["answer"], provider.received(case.name))
        if after == before:
            return
        before = after
    raise AssertionError("recovery does not converge")


def _value(state: State | None) -> str | None:
    return None if state is None else state.value


def _sent_twice(received: list[Received], named: int) -> list[str]:
    """An invocation is sent once, and once more for each retry identity that is named for it."""
    retries = [one.retry for one in received if one.retry]
    if len(received) <= 1 + named and len(set(retries)) == len(retries):
        return []
    return [f"{len(received)} requests were received, and {named} retries were named"]


def _not_replayed(told: dict[str, Any], received: list[Received]) -> list[str]:
    answers = [one.answer for one in received]
    if not told["answer"] or told["answer"] == answers[-1]:
        return []
    return [f"answered {told['answer'][:60]!r}, received {len(answers)}"]


def _expected(case: Case) -> tuple[str, bool]:
    """The state that recovery ends in, and whether there is an answer: they follow from where the first worker died and
    from what was settled, not from who recovers, nor from a second death."""
    if case.point.state is State.DISPATCHED and not case.settling:
        return State.AMBIGUOUS.value, False
    if case.point.state is State.DISPATCHED and case.settling == "log" and case.point.sent:
        return State.RECONCILED.value, True
    return State.COMPLETED.value, True


def check(label: str, seed: int, engine: str, nursery: Nursery, provider: Provider, address: str, root: Path) -> None:
    """The case of a label and a seed, on an engine. What fails can be run again by its seed."""
    case = case_of(label, seed, address if engine == "grpc" else "", root / f"{engine}-{seed}")
    assert violations(case, nursery, provider) == [], f"{label}, {engine}, seed {seed}; MN_TEST_SEED={seed}"


@pytest.mark.parametrize(("label", "engine"), list(zip(LABELS, itertools.cycle(ENGINES))))
def test_a_death_at_each_point(
    nursery: Nursery, provider: Provider, address: str, tmp_path: Path, label: str, engine: str
) -> None:
    """A sample: each point once, on the engines by turns."""
    check(label, SEED, engine, nursery, provider, address, tmp_path)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_retry_identity_is_spent_once(
    nursery: Nursery, provider: Provider, address: str, tmp_path: Path, engine: str
) -> None:
    """Three workers die once the provider has their request; a fourth says again what the second had said."""
    name = f"spent-{engine}"
    at = address if engine == "grpc" else ""
    job = Job(root=str(tmp_path), run_id=name, base=provider.base, address=at, settling="retry")
    for retry, point in (("", "after the send"), ("r1", "retry, after its send"), ("r2", "retry, after its send")):
        assert nursery.run(replace(job, retry=retry, point=point)).status == -signal.SIGKILL
    told = nursery.run(replace(job, retry="r1")).told
    assert told["error"] == "IDEMPOTENCY_CONFLICT"
    assert [one.retry for one in provider.received(name)] == ["", "r1", "r2"]


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("label", LABELS)
def test_deaths_at_each_point_of_many_calls(
    nursery: Nursery, provider: Provider, address: str, tmp_path: Path, label: str, engine: str
) -> None:
    """25 seeds a point and an engine, the sample's aside: streams or not, sizes, roles, who recovers and how."""
    for seed in range(SEED + 1, SEED + 1 + SEEDS):
        check(label, seed, engine, nursery, provider, address, tmp_path)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_matrix_notices_a_dispatch_that_is_written_after_the_request_has_left(
    nursery: Nursery, provider: Provider, address: str, tmp_path: Path, engine: str
) -> None:
    """The sabotage is in every worker of the case."""
    found: list[str] = []
    for number, label in enumerate(("after the send", "in the middle of the answer", "before the response")):
        case = case_of(label, number, address if engine == "grpc" else "", tmp_path / label)
        job = replace(case.job, sabotage=True)
        found += violations(replace(case, name=f"late-{case.name}", job=job), nursery, provider)
    assert found.count("2 requests were received, and 0 retries were named") >= 3, found
