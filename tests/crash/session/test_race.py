"""Eight processes from a barrier make one call at the same time: it is sent once (invariant 10)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.session.provider import Provider
from tests.crash.session.worker import Job, Nursery

PROCESSES = 8
ROUNDS = [pytest.param(4, id="4 rounds"), pytest.param(50, id="50 rounds", marks=pytest.mark.full)]
TOLD_TO_WAIT = {"IN_FLIGHT", "STALE_REVISION", "AMBIGUOUS_INVOCATION"}
"""What a process is told while another one has the call. Ambiguous is one that outlived its claim, until it answers."""


def sent(nursery: Nursery, provider: Provider, job: Job) -> list[int]:
    """How often each round's call was sent, once all have made it and made it again."""
    ended = nursery.race([job] * PROCESSES)
    assert [one.status for one in ended] == [0] * PROCESSES
    counts = []
    for number in range(job.rounds):
        received = provider.received(f"{job.run_id}-{number}")
        counts.append(len(received))
        answers = {one.answer for one in received}
        for one in [] if job.sabotage else ended:
            first, again = one.told[number]
            assert first in answers | TOLD_TO_WAIT, f"round {number}"
            assert again in answers, f"round {number}: it gave {again[:60]} once it was answered"
    return counts


def racing(journal: str, address: str, folder: Path, provider: Provider, **more: object) -> Job:
    """The journal is SQLite's, in a root that all share (the record is an engine's), or the engine's own."""
    own = {"shared": address} if journal == "sqlite" else {"address": address}
    return Job(root=str(folder / "root"), run_id=f"race-{folder.name}", base=provider.base, **own, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("lease_ms", [pytest.param(0, id="claims stand"), pytest.param(1, id="claims run out at once")])
@pytest.mark.parametrize("journal", ["sqlite", "grpc"])
def test_of_eight_processes_one_sends(
    nursery: Nursery, provider: Provider, address: str, tmp_path: Path, journal: str, lease_ms: int, rounds: int
) -> None:
    """Where claims run out before they are used, they are taken over and over: then it is the epoch that fences."""
    job = racing(journal, address, tmp_path, provider, rounds=rounds, lease_ms=lease_ms)
    assert sent(nursery, provider, job) == [1] * rounds


@pytest.mark.parametrize("journal", ["sqlite", "grpc"])
def test_the_race_notices_a_dispatch_that_is_written_after_the_request_has_left(
    nursery: Nursery, provider: Provider, address: str, tmp_path: Path, journal: str
) -> None:
    job = racing(journal, address, tmp_path, provider, rounds=3, lease_ms=1, sabotage=True)
    assert max(sent(nursery, provider, job)) > 1
