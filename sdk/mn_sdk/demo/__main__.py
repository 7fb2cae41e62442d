"""The demo's command line: what a person sees."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.box import SIMPLE
from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table

from mn_contract.errors import ContextError, InvalidInput
from mn_sdk.demo.material import standard_library
from mn_sdk.demo.supervisor import Findings, Plan, check_material, run

DECISIONS = 48
_ROWS_SHOWN = 16
_DECISIONS_MIN = 40
_STARTING = "starting the worker"
_COLUMNS = {"#": 3, "about": 14, "history": 11, "request": 9, "kept": 7, "against": 8, "verified": 8, "call": 6}
"""The table's columns, and how many characters each may take."""
_LEFT = frozenset({"about", "call"})


def _filled(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value is not None and not value.strip():
        raise click.BadParameter("it is empty: give it a value, or leave it out")
    return value


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--input", "source", metavar="PATH", callback=_filled, help="A folder of texts, or a .jsonl file.")
@click.option(
    "--model", metavar="NAME", callback=_filled, help="A real model by litellm's name (openai/...); needs its key."
)
@click.option("--decisions", type=click.IntRange(_DECISIONS_MIN, 400), default=DECISIONS, show_default=True)
@click.option("--window", type=click.IntRange(4096, 2_000_000), default=16384, show_default=True, help="Tokens.")
@click.option("--root", metavar="PATH", callback=_filled, help="Keep the record here [a temporary folder, removed].")
def main(source: str | None, model: str | None, decisions: int, window: int, root: str | None) -> None:
    """A job larger than any window, end to end: read, observe, decide, be killed, resume, reconcile.

    Reads the Python standard library of this machine unless --input says otherwise, and asks a stand-in model on
    loopback, which answers extractively and says so, unless --model names a real one.
    """
    console = Console()
    folder = Path(tempfile.mkdtemp(prefix="membrane-demo-") if root is None else root)
    plan = Plan(
        root=folder,
        source=(standard_library() if source is None else Path(source)).resolve(),
        decisions=decisions,
        window=window,
        model=model or "",
    )
    started = time.monotonic()
    try:
        _check(plan)
        findings = _watched(console, plan)
    except ContextError as error:
        click.echo(f"mn-context-engine demo: {error.message} [{error.reason}]", err=True)
        sys.exit(2 if isinstance(error, InvalidInput) else 1)
    finally:
        if root is None:
            shutil.rmtree(folder, ignore_errors=True)
    _summary(console, plan, findings, time.monotonic() - started)
    for failure in findings.failures:
        console.print(f"[red]does not hold:[/red] {failure}", highlight=False)
    if findings.failures:
        sys.exit(1)
    click.echo(
        f"MEMBRANE DEMO OK decisions={len(findings.rows)} over_window={findings.over_window} "
        f"repeated_calls={findings.repeated_calls} ambiguous={findings.ambiguous} reconciled={findings.reconciled} "
        f"max_history_tokens={findings.max_history_tokens}"
    )


def _check(plan: Plan) -> None:
    """Raises InvalidInput where the demo cannot run, as far as that is known at once."""
    try:
        plan.root.mkdir(parents=True, exist_ok=True)
        used = any(plan.root.iterdir())
        tempfile.TemporaryFile(dir=plan.root).close()
    except (OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"--root {plan.root} cannot be used: {told}", field="--root") from error
    if used:
        raise InvalidInput(f"--root {plan.root} is not empty; the demo wants a folder of its own", field="--root")
    if plan.model:
        from mn_sdk.context_session.provider import check_model

        check_model(plan.model, "--model")


def _watched(console: Console, plan: Plan) -> Findings:
    with console.status("reading the material"):
        check_material(plan)
    who = plan.model or "a stand-in on loopback: extractive, no model"
    console.print(Panel.fit(f"input  {plan.source}\nmodel  {who}\nwindow {plan.window:,} tokens", title="Membrane"))
    console.print(
        "history, request: tokens, margin included; kept: required records; against: known objections shown; "
        "verified: source ranges read back and hashed"
    )
    return _live(console, plan) if console.is_terminal else _listed(plan)


def _live(console: Console, plan: Plan) -> Findings:
    """On a terminal: a table of the last rows that changes in its place, and the last notes below it."""
    rows: list[dict[str, Any]] = []
    notes: list[str] = [_STARTING]
    with Live(_table(rows, notes), console=console, refresh_per_second=8) as live:

        def watch(told: dict[str, Any]) -> None:
            if told["event"] == "decided":
                rows.append(told)
            note = _note(told)
            if note:
                notes.append(note)
            live.update(_table(rows, notes))

        return run(plan, watch)


def _listed(plan: Plan) -> Findings:
    """Elsewhere: every row and every note, a line each, as they come."""

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if name in _LEFT else cell.rjust(width)
            for (name, width), cell in zip(_COLUMNS.items(), cells, strict=True)
        )
        return " ".join(padded).rstrip()

    def watch(told: dict[str, Any]) -> None:
        if told["event"] == "decided":
            click.echo(line(_cells(told)))
        note = _note(told)
        if note:
            click.echo(note)

    click.echo(_STARTING)
    click.echo(line(tuple(_COLUMNS)))
    return run(plan, watch)


def _note(told: dict[str, Any]) -> str:
    number = told.get("decision")
    notes = {
        "killed": f"decision {number}: SIGKILL to the worker, right after its request had left. Starting it again",
        "ambiguous": f"decision {number}: AmbiguousInvocation: it may have been billed, so it is not sent again",
        "reconciled": f"decision {number}: reconciled "
        + ("with the answer from the provider's log" if told.get("found") else "by the operator, without the answer"),
    }
    return notes.get(told["event"], "")


def _table(rows: list[dict[str, Any]], notes: list[str]) -> Table:
    table = Table(caption="\n".join(notes[-4:]), caption_justify="left", box=SIMPLE, pad_edge=False)
    for name, width in _COLUMNS.items():
        table.add_column(name, justify="left" if name in _LEFT else "right", no_wrap=True, max_width=width)
    for row in rows[-_ROWS_SHOWN:]:
        table.add_row(*_cells(row), style="red" if row["required_missing"] else None)
    return table


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    """A decision, as a row of the table."""
    return (
        str(row["decision"]),
        row["word"][: _COLUMNS["about"]],
        f"{row['history_tokens']:,}",
        f"{row['tokens'] + row['margin']:,}",
        str(row["required"]) if not row["required_missing"] else "missing",
        f"{row['opposing']} of {row['opposing_known']}",
        str(row["ranges_verified"]),
        "replay" if row["replayed"] else "made",
    )


def _summary(console: Console, plan: Plan, findings: Findings, seconds: float) -> None:
    last = findings.rows[max(findings.rows)] if findings.rows else None
    largest = max((row["tokens"] + row["margin"] for row in findings.rows.values()), default=0)
    console.print(
        f"\n{len(findings.rows)} decisions in {seconds:.0f} s over {findings.max_history_tokens:,} tokens of history; "
        f"the largest request was {largest:,} tokens of a {plan.window:,} window.\n"
        f"{findings.calls} calls reached the model, {findings.repeated_calls} of them twice; "
        f"{findings.over_window} requests over the window; {findings.replayed} decisions were answered from the "
        "journal, without another call.",
        highlight=False,
    )
    if last is not None:
        console.print(
            f"Requests are counted with {last['tokenizer']}, plus a margin for what that can only estimate: "
            f"{last['margin']} tokens in the last one.",
            highlight=False,
        )


if __name__ == "__main__":
    main(prog_name="mn-context-engine demo")
