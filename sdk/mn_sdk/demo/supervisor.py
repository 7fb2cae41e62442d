"""The supervisor: runs the worker, kills it once right after a dispatch, resumes it, and checks from outside.

What it checks does not rest on what the worker says: the window is checked on the requests that the model received, and
repeated calls are counted in the model's own ledger (with a real model, in the journal).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mn_sdk.context_session.policy import ContextPolicy
from mn_sdk.demo import material, script
from mn_sdk.demo.stand_in import MODEL, StandIn
from mn_tokens import count

_EXIT_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run. `model` empty means the stand-in."""

    root: Path
    source: Path
    decisions: int
    window: int
    model: str = ""

    @property
    def killed_at(self) -> int:
        """The decision whose worker is killed right after its dispatch."""
        return self.decisions // 2


@dataclass(slots=True)
class Findings:
    """What was seen, and what of it must hold."""

    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    ambiguous: int = 0
    reconciled: int = 0
    replayed: int = 0
    killed: bool = False
    over_window: int = 0
    calls: int = 0
    repeated_calls: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def max_history_tokens(self) -> int:
        """The largest history that stood behind a request."""
        return max((row["history_tokens"] for row in self.rows.values()), default=0)


Watch = Callable[[dict[str, Any]], None]
"""Told each line of the worker as it comes, and the supervisor's own `killed` and `resumed`."""


def check_material(plan: Plan) -> None:
    """Raises InvalidInput where the material cannot carry the plan."""
    script.plan(material.read(plan.source), plan.decisions)


def run(plan: Plan, watch: Watch) -> Findings:
    """Runs the demo in `plan.root`, a folder that is there."""
    findings = Findings()
    worker: list[subprocess.Popen[str]] = []
    lock = threading.Lock()

    def kill(name: str) -> None:
        """Called by the stand-in once it has a request and before it answers."""
        with lock:
            if name == f"decision-{plan.killed_at:03d}" and not findings.killed:
                findings.killed = True
                os.kill(worker[0].pid, signal.SIGKILL)
                worker[0].wait(_EXIT_SECONDS)

    ledger = plan.root / "stand-in-ledger.jsonl"
    ledger.touch()
    stand_in = None if plan.model else StandIn(ledger, kill)
    try:
        for attempt in range(2):
            process = _start(plan, stand_in)
            worker[:] = [process]
            killer = _journal_killer(plan, process, findings) if stand_in is None and not attempt else None
            code = _follow(process, findings, watch)
            if killer is not None:
                killer.join(_EXIT_SECONDS)
            if code == 0:
                break
            if code != -signal.SIGKILL:
                findings.failures.append(f"the worker ended with {code}")
                return findings  # the rest follows from it
            watch({"event": "killed", "decision": plan.killed_at})
        _check(plan, findings, stand_in)
    finally:
        if worker and worker[0].poll() is None:
            worker[0].kill()
            worker[0].wait(_EXIT_SECONDS)
        if stand_in is not None:
            stand_in.close()
    return findings


def _start(plan: Plan, stand_in: StandIn | None) -> subprocess.Popen[str]:
    name = f"decision-{plan.killed_at:03d}"
    answer = stand_in.answer_of(name) if stand_in is not None else None
    job = {
        "root": str(plan.root),
        "source": str(plan.source),
        "decisions": plan.decisions,
        "window": plan.window,
        "model": plan.model or f"openai/{MODEL}",
        "api_base": stand_in.url if stand_in is not None else "",
        "found": {name: answer} if answer is not None else {},
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "mn_sdk.demo.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={key: value for key, value in os.environ.items() if key != "MN_CONTEXT_ADDR"},
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(job))
    process.stdin.close()
    return process


def _follow(process: subprocess.Popen[str], findings: Findings, watch: Watch) -> int:
    for told in _lines(process):
        event = told["event"]
        if event == "decided":
            findings.rows[told["decision"]] = told
            findings.replayed += told["replayed"]
        elif event == "ambiguous":
            findings.ambiguous += 1
        elif event == "reconciled":
            findings.reconciled += 1
        elif event == "failed":
            findings.failures.append(f"{told['reason']}: {told['told']}")
        watch(told)
    return process.wait(_EXIT_SECONDS)


def _lines(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            try:
                told = json.loads(line)
            except ValueError:
                continue  # the line that a kill cut short
            if isinstance(told, dict) and "event" in told:
                yield told


def _journal_killer(plan: Plan, process: subprocess.Popen[str], findings: Findings) -> threading.Thread:
    """With a real model: kills the worker as soon as its journal says DISPATCHED."""
    from mn_contract.invocations import State

    def wait_and_kill() -> None:
        while process.poll() is None:
            if _journal_state(plan, f"decision-{plan.killed_at:03d}") is State.DISPATCHED:
                findings.killed = True
                process.kill()
                return
            threading.Event().wait(_POLL_SECONDS)

    thread = threading.Thread(target=wait_and_kill, name="killer", daemon=True)
    thread.start()
    return thread


def _journal_state(plan: Plan, name: str) -> Any:
    from mn_sdk.context_session.journal import open_journal
    from mn_sdk.context_session.journal.rows import Clearing
    from mn_sdk.scope import SessionScope

    scope = SessionScope(job_id="demo", run_id="run", principal="investigator")
    clearing = Clearing(plan.root, scope)
    journal = open_journal(plan.root, scope, None, state=None, clearing=clearing, patience=lambda seconds: seconds)
    try:
        newest = journal.invocations.newest(name)
    finally:
        journal.close()
    return None if newest is None else newest.state


def _check(plan: Plan, findings: Findings, stand_in: StandIn | None) -> None:
    limit = plan.window - ContextPolicy().output_tokens
    if stand_in is not None:
        received = stand_in.received()
        findings.calls = sum(received.values())
        findings.repeated_calls = findings.calls - len(received)
        findings.over_window = sum(_tokens_of(body) > limit for body in stand_in.requests)
    else:
        findings.calls = len(findings.rows)
        findings.over_window = sum(row["tokens"] + row["margin"] > limit for row in findings.rows.values())
    for number in range(1, plan.decisions + 1):
        row = findings.rows.get(number)
        if row is None:
            findings.failures.append(f"decision {number} was not made")
            continue
        if row["required_missing"]:
            findings.failures.append(f"decision {number} lacks what is required: {row['required_missing']}")
        if row["opposing_known"] and not row["opposing"]:
            findings.failures.append(f"decision {number} shows none of {row['opposing_known']} known objections")
        if row["written_back"]:
            findings.failures.append(f"decision {number} was not written back: {row['written_back']}")
    for name, seen, wanted in (
        ("ambiguous", findings.ambiguous, 1),
        ("reconciled", findings.reconciled, 1),
        ("over_window", findings.over_window, 0),
        ("repeated_calls", findings.repeated_calls, 0),
    ):
        if seen != wanted:
            findings.failures.append(f"{name} is {seen}, not {wanted}")
    if not findings.killed:
        findings.failures.append("the worker was never killed")


def _tokens_of(body: dict[str, Any]) -> int:
    return count({"messages": body["messages"]}, model="gpt-4o").tokens
