"""The Contextual Memory Protocol, shown on a record of its own and checked as it goes.

Every section prints what the engine answered and asserts what must hold of it: relations between packs and invariants
of deltas, never literal counts. What does not hold ends the demo with exit code 1.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click
from jsonschema import Draft202012Validator

from mn_contract.errors import ContextError, InvalidInput
from mn_contract.smp import ENVELOPE_SCHEMA, LEGEND, item_text
from mn_sdk.cmp_demo.material import CHANGE, QUESTION, memories
from mn_sdk.context_session import ContextSession
from mn_sdk.working_set import WorkingSet

_ROOMY: Final = 11_000
_TIGHT: Final = 1_200
_EXAMPLES: Final = ("example_smp_claude.json", "example_smp_delta_turn2.json")
_SCHEMA: Final = Draft202012Validator(dict(ENVELOPE_SCHEMA))


class DoesNotHoldError(Exception):
    """Something that the protocol promises was not so."""


def check(promise: str, holds: bool) -> None:
    """Prints a promise that was kept; raises DoesNotHoldError where it was not."""
    if not holds:
        raise DoesNotHoldError(promise)
    click.echo(f"  ok: {promise}")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("cmp-examples"),
    show_default=True,
    help="Where the two example envelopes are written.",
)
def main(output: Path) -> None:
    """Show profiles, envelopes, the working-memory delta and queries on about 30 memories of the demo's own, and write
    two example envelopes."""
    try:
        with (
            tempfile.TemporaryDirectory(prefix="membrane-cmp-") as folder,
            ContextSession(folder, job_id="cmp-demo", run_id="run", principal="demo") as session,
        ):
            remembered = [session.observe(**memory) for memory in memories()]
            click.echo(f"remembered {len(remembered)} things about a launch; examples go to {output}/\n")
            examples = [_profiles(session), _delta(session)]
            _queries(session)
        output.mkdir(parents=True, exist_ok=True)
        for name, envelope in zip(_EXAMPLES, examples, strict=True):
            (output / name).write_text(json.dumps(envelope, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        click.echo(f"wrote the example envelopes {', '.join(str(output / name) for name in _EXAMPLES)}")
    except (DoesNotHoldError, ContextError, OSError) as error:
        click.echo(f"CMP DEMO FAILED: {error}", err=True)
        sys.exit(1)
    click.echo("CMP DEMO OK")


def _profiles(session: ContextSession) -> dict[str, Any]:
    click.echo("One question, three readers (section 3)")
    told: dict[str, dict[str, Any]] = {
        model: session.envelope(QUESTION, model=model, token_budget=_ROOMY) for model in ("claude", "gpt", "cursor")
    }
    for model, envelope in told.items():
        budget = envelope["budget"]
        click.echo(
            f"  model={model:<6} budget.tokens={budget['tokens']:<6} used={budget['used']:<5}"
            f" items={len(envelope['items'])}"
        )
    budgets = [envelope["budget"]["tokens"] for envelope in told.values()]
    check("claude's budget >= gpt's >= cursor's", budgets == sorted(budgets, reverse=True))
    check("cursor's pack holds fewer items", len(told["cursor"]["items"]) < len(told["claude"]["items"]))
    check(
        "no pack takes more than its budget", all(e["budget"]["used"] <= e["budget"]["tokens"] for e in told.values())
    )
    envelope = told["claude"]
    click.echo("\nThe envelope explains itself (sections 1 and 2)")
    click.echo(f"  keys: {', '.join(envelope)}")
    first = envelope["items"][0]
    click.echo(f"  first item: {json.dumps({**first, 'content': first['content'][:60] + ' ...'}, ensure_ascii=False)}")
    for one in told.values():
        _SCHEMA.validate(one)
    check("each envelope is valid by the published schema", True)
    check("the legend is the same in each", all(one["legend"] == dict(LEGEND) for one in told.values()))
    refs = [item["ref"] for item in envelope["items"]]
    check("each memory stands in it once", len(set(refs)) == len(refs))
    check("the constraint is in every pack", all("rule-freeze" in _refs(one) for one in told.values()))
    folded = [item for item in envelope["items"] if "folded_refs" in item]
    check("what was said twice stands there once, and says so", any(one["occurrences"] > 1 for one in folded))
    click.echo()
    return envelope


def _delta(session: ContextSession) -> dict[str, Any]:
    click.echo("A conversation is told what changed (section 8)")
    turns: list[dict[str, Any]] = [
        session.envelope(QUESTION, model="claude", token_budget=budget, session_id="chat")
        for budget in (_TIGHT, _ROOMY, _ROOMY)
    ]
    for number, envelope in enumerate(turns, start=1):
        change = envelope["working_memory"]
        click.echo(
            f"  turn {number} (budget {envelope['budget']['tokens']}): cited={len(envelope['items'])}"
            f" new={len(change['new'])} cursor={change['cursor']}"
        )
    first, second, third = (set(_refs(envelope)) for envelope in turns)
    new = [{one["ref"] for one in envelope["working_memory"]["new"]} for envelope in turns]
    check("a fresh session is told that everything is new", new[0] == first)
    check("with more room only what fits newly is new", new[1] == second - first and first <= second)
    check("a repeated turn sends nothing", not new[2] and third == second)
    carried = [item for item in turns[1]["items"] if item["ref"] in first]
    saved = sum(len(item_text(item)) for item in carried) * 10 // 38
    click.echo(f"  about {saved} tokens of {len(carried)} memories not sent again in turn 2")
    session.observe(**CHANGE)
    change = session.envelope(QUESTION, model="claude", session_id="chat")["working_memory"]
    click.echo(f"  the date moves: superseded={json.dumps(change['superseded'])}")
    stale = {one["ref"]: one["replacement"] for one in change["superseded"]}
    check("what no longer holds is named with what replaces it", stale.get("date-again") == "date-moved")
    for _ in range(4):
        change = session.envelope("on-call roster", model="cursor", token_budget=300, session_id="chat")[
            "working_memory"
        ]
    check("what stays away for four turns is evicted", bool(change["evicted"]))
    working_set = WorkingSet(session.envelope, "kept", model="gpt")
    for task in (QUESTION, "billing refunds", QUESTION):
        kept = [item["content"] for item in working_set.update(task)]
        check(
            f"a working set that is sent only what is new holds the whole pack ({len(kept)} memories)",
            kept == [item["content"] for item in session.envelope(task, model="gpt")["items"]],
        )
    click.echo()
    return turns[1]


def _queries(session: ContextSession) -> None:
    click.echo("Queries only narrow (section 6)")
    answers = [
        session.query_memory(find="workstream launch", k=25, min_relevance=least) for least in (None, 0.0909, 0.1667)
    ]
    for answer in answers:
        click.echo(f"  narrowed_from={answer['narrowed_from']} -> narrowed_to={answer['narrowed_to']}")
    found = [set(_refs(answer)) for answer in answers]
    check("higher thresholds answer subsets", found[0] > found[1] > found[2])
    check(
        "a threshold out of range is refused", _refused(lambda: session.query_memory(find="launch", min_relevance=2.5))
    )
    check("ask and find together are refused", _refused(lambda: session.query_memory(ask="a", find="b")))
    around = session.expand("web-owner", "neighbors")
    names = [entity["entity"] for entity in around["entities"]]
    click.echo(f"  neighbours of web-owner: {', '.join(names)}")
    check("an entity's own memories are cited", all(entity["items"] for entity in around["entities"]))
    check("a reference that names nothing answers nothing", not session.expand("nobody")["items"])
    click.echo()


def _refs(told: Mapping[str, Any]) -> list[str]:
    return [item["ref"] for item in told["items"]]


def _refused(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except InvalidInput:
        return True
    return False


if __name__ == "__main__":
    main(prog_name="mn-context-engine cmp-demo")
