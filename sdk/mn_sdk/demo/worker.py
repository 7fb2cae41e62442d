"""The worker: investigates decision by decision, durably, and can be killed at any moment.

It tells its supervisor what it does in JSON lines on standard output. Where it was is in the session's named cursor;
what it has asked is in the journal. It repeats nothing that was done.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mn_contract.errors import AmbiguousInvocation, ContextError
from mn_sdk.context_session import ContextPolicy, ContextSession
from mn_sdk.demo.material import Unit, read
from mn_sdk.demo.script import Decision, plan
from mn_tokens import count

CURSOR: Final = "decisions-done"
SYSTEM: Final = (
    "You decide one step of an investigation. Answer from `recalled` only and cite record ids. "
    "Say what speaks for and what speaks against."
)
_OBLIGATION_EVERY: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a worker is told. `found` maps decisions to responses that the supervisor found in the provider's log."""

    root: Path
    source: Path
    decisions: int
    window: int
    model: str
    api_base: str
    found: Mapping[str, Any]


def work(job: Job) -> None:
    """Makes the decisions that are not made yet."""
    decisions = plan(read(job.source), job.decisions)
    policy = ContextPolicy(window_tokens=job.window)
    with ContextSession(job.root, job_id="demo", run_id="run", principal="investigator", policy=policy) as session:
        done = session.journal.cursor(CURSOR)
        history = sum(_tokens(decision) for decision in decisions[: max(done - 1, 0)])
        # The last finished decision is made once more: its answer must come from the journal.
        for decision in decisions[max(done - 1, 0) :]:
            _observe(session, decision)
            history += _tokens(decision)
            _decide(session, job, decision, history)
            session.journal.cursor(CURSOR, decision.number)


def _observe(session: ContextSession, decision: Decision) -> None:
    """Everything that a decision has read, noticed and owes, under names that make a second time harmless."""
    if decision.number == 1:
        session.observe("Cite only what stands in the packet.", event_id="rule/cite", kind="constraint")
        session.observe(
            "Never call a module safe while a doubt about it stands.",
            event_id="rule/doubt",
            kind="constraint",
            topics=[f"share-{number}" for number in range(2, 400, 16)][:25],
        )
    for unit in decision.units:
        session.observe(unit.text, event_id=f"read/{unit.id}", topics=[unit.topic])
    session.observe(
        f"{decision.word} is used in the material read for decision {decision.number}.",
        event_id=f"noticed/{decision.number:03d}",
        kind="evidence",
        claims={decision.claim: "supports"},
        topics=[decision.word],
    )
    for place, doubt in enumerate(decision.doubts):
        artifact = session.put_artifact(doubt.unit.text)
        session.observe(
            f"A line of {doubt.unit.id} speaks against relying on {decision.word}: {doubt.text}",
            event_id=f"doubt/{decision.number:03d}/{place}",
            kind="evidence",
            claims={decision.claim: "opposes"},
            contradicts=[f"noticed/{decision.number:03d}"],
            sources=[(artifact, doubt.start, doubt.end)],
            topics=[decision.word],
        )
    _tally(session, decision)
    _owe(session, decision)


def _tally(session: ContextSession, decision: Decision) -> None:
    """A running account: each supersedes the one before."""
    before = f"tally/{decision.number - 1:03d}"
    session.observe(
        f"So far {decision.number} words were weighed; the newest is {decision.word}.",
        event_id=f"tally/{decision.number:03d}",
        kind="fact",
        topics=["tally"],
        supersedes=[before] if decision.number > 1 else [],
    )


def _owe(session: ContextSession, decision: Decision) -> None:
    """Every few decisions something is owed; it stands in every packet until it is resolved three decisions later."""
    if decision.number % _OBLIGATION_EVERY == 1:
        session.observe(
            f"Come back to {decision.word} before the report is written.",
            event_id=f"owed/{decision.number:03d}",
            obligation=True,
        )
    if decision.number % _OBLIGATION_EVERY == 4:
        owed = f"owed/{decision.number - 3:03d}"
        session.observe(f"We came back to it: {owed}.", event_id=f"paid/{decision.number:03d}", resolves=[owed])


def _decide(session: ContextSession, job: Job, decision: Decision, history: int) -> None:
    try:
        with session.turn(
            decision.name,
            focus=decision.question,
            claims=[decision.claim],
            topics=[decision.word, "tally", f"share-{decision.number}"],
            required_refs=[f"noticed/{decision.number:03d}"],
            required_fields=("decision", "question"),
            final=decision.number == job.decisions,
        ) as turn:
            import litellm  # a turn has it loaded, without a look at the network

            litellm.completion(model=job.model, messages=_messages(decision), **_connection(job))
    except AmbiguousInvocation as unknown:
        _tell({"event": "ambiguous", "decision": decision.number, "name": decision.name, "told": unknown.message})
        _reconcile(session, job, decision)
        _decide(session, job, decision, history)
        return
    assert turn.report is not None
    _tell(_row(session, decision, history, turn.report, replayed=turn.replayed))


def _reconcile(session: ContextSession, job: Job, decision: Decision) -> None:
    found = job.found.get(decision.name)
    if found is not None:
        session.reconcile(decision.name, response=found, evidence="the provider's log holds the answer to this request")
    else:
        session.reconcile(
            decision.name,
            response="(The answer was lost with the worker. It may have been billed, so it was not asked for again.)",
            evidence="operator's decision: go on without the lost answer",
        )
    _tell({"event": "reconciled", "decision": decision.number, "name": decision.name, "found": found is not None})


def _row(session: ContextSession, decision: Decision, history: int, report: Any, *, replayed: bool) -> dict[str, Any]:
    required = [item for item in report.items if item["role"] in ("named", "obligation", "constraint")]
    owed = (decision.number - 1) % _OBLIGATION_EVERY < 3
    expected = {f"noticed/{decision.number:03d}", "rule/cite"}
    if owed:
        expected.add(f"owed/{decision.number - (decision.number - 1) % _OBLIGATION_EVERY:03d}")
    present = {item["id"] for item in report.items}
    doubts = {f"doubt/{decision.number:03d}/{place}" for place in range(len(decision.doubts))}
    return {
        "event": "decided",
        "decision": decision.number,
        "word": decision.word,
        "history_tokens": history,
        "tokens": report.tokens,
        "margin": report.margin,
        "tokenizer": report.tokenizer,
        "input_budget": report.input_budget,
        "packet_items": len(report.items),
        "required": len(required),
        "required_missing": sorted(expected - present),
        "opposing": len(doubts & present),
        "opposing_known": len(doubts),
        "ranges_verified": report.ranges_verified,
        "replayed": replayed,
        "written_back": report.written_back,
    }


def _messages(decision: Decision) -> list[dict[str, str]]:
    asked = {"decision": decision.name, "question": decision.question, "background": f"word {decision.number}"}
    return [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": json.dumps(asked)},
    ]


def _connection(job: Job) -> dict[str, str]:
    return {"api_base": job.api_base, "api_key": "stand-in"} if job.api_base else {}


def _tokens(decision: Decision) -> int:
    return sum(_unit_tokens(unit) for unit in decision.units)


def _unit_tokens(unit: Unit) -> int:
    message = {"messages": [{"role": "user", "content": unit.text}]}
    return count(message, model="gpt-4o").tokens


def _tell(what: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Reads a Job from standard input and works on it."""
    from openai import OpenAIError  # what litellm raises for a provider; it takes longer to load than the rest

    told = json.load(sys.stdin)
    job = Job(**{**told, "root": Path(told["root"]), "source": Path(told["source"])})
    try:
        work(job)
    except ContextError as error:
        _tell({"event": "failed", "reason": error.reason, "told": error.message})
        return 1
    except OpenAIError as error:
        _tell({"event": "failed", "reason": type(error).__name__, "told": str(error).partition("\n")[0]})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
