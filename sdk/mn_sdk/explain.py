"""`mn-context-engine explain`: why a card is in a turn's packet, or why it is not, for a person."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from mn_contract.errors import ContextError, InvalidInput, NotFound
from mn_sdk.context_session import ContextSession
from mn_sdk.context_session.journal.database import FILE_NAME

_REASONS: Final = {
    "superseded": "another card has superseded it",
    "later": "it was recorded after the packet's revision",
    "invalid": "it does not hold at the time that was asked about",
    "kind": "it is of none of the kinds that were asked for",
    "irrelevant": "nothing in the question leads to it",
    "budget": "what was offered before it took the room",
    "oversize": "it is larger than all the room for optional cards",
    "served": "an earlier page had it",
    "cap": "too many cards rank above it for one page; the cursor reaches it",
}
_ROLES: Final = {
    "named": "the caller required it by name",
    "obligation": "it is an open obligation that applies",
    "constraint": "it is a constraint that applies",
    "opposing_share": "it opposes, and fits the share that opposing cards are offered first",
    "supporting_share": "it supports, and fits the share that supporting cards are offered first",
    "standing": "it is a preference that applies",
    "rotated": "it was its turn",
    "ranked": "it ranks high enough for what it takes",
}


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("packet")
@click.argument("card")
@click.option("--root", metavar="DIR", required=True, help="The session's root, which holds its journal.")
@click.option("--job", metavar="ID", required=True, envvar="MN_JOB_ID", show_envvar=True)
@click.option("--run", metavar="ID", required=True, envvar="MN_RUN_ID", show_envvar=True)
@click.option("--principal", metavar="ID", required=True, envvar="MN_PRINCIPAL", show_envvar=True)
@click.option("--role", "roles", metavar="ID", multiple=True, help="A role that the asker bears; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    packet: str, card: str, root: str, job: str, run: str, principal: str, roles: tuple[str, ...], as_json: bool
) -> None:
    """Say why CARD is in PACKET, or why it is not.

    PACKET is the digest in a turn's report; CARD is a reference, as the packet names it. With MN_CONTEXT_ADDR set the
    record is the server's, else the one under --root.
    """
    try:
        if not (Path(root) / FILE_NAME).is_file():
            raise NotFound(f"there is no session under {root}: it has no {FILE_NAME}")
        with ContextSession(root, job_id=job, run_id=run, principal=principal, roles=roles) as session:
            told = session.explain(packet, card)
    except ContextError as error:
        _refuse(error)
    click.echo(json.dumps(told, ensure_ascii=False) if as_json else _told(told))


def _told(told: dict[str, Any]) -> str:
    held = told["selected"]
    why = _ROLES.get(told["role"], told["role"]) if held else _REASONS.get(told["reason"], told["reason"])
    lines = [
        f"{told['card']} is {'in' if held else 'not in'} the packet: {why}",
        f"  packet       {told['packet_digest'][:16]}… at revision {told['revision']}",
        f"  stance       {told['stance']}",
    ]
    if told["rank"]:
        parts = ", ".join(f"{stage} {score:+,}" for stage, score in told["parts"].items())
        lines += [
            f"  rank         {told['rank']}, by {', '.join(told['retrievers'])}; words: "
            + (", ".join(told["matched_terms"]) or "none"),
            f"  score        {told['score']:,} = {parts}",
            f"  utility      {told['utility']:,}, redundant by {told['redundancy']:.0%}",
            f"  offered      at place {told['offered']}",
        ]
    if told["bytes"]:
        lines.append(f"  takes        {told['bytes']:,} bytes, {told['tokens']:,} tokens by estimate")
    for quota in told["quotas"]:
        tokens = f", {quota['used_tokens']:,} of {quota['tokens']:,} tokens" if "tokens" in quota else ""
        lines.append(f"  {quota['role']:<17}{quota['used_bytes']:,} of {quota['bytes']:,} bytes{tokens}")
    return "\n".join(lines)


def _refuse(error: ContextError) -> NoReturn:
    click.echo(f"mn-context-engine explain: {error.message} [{error.reason}]", err=True)
    sys.exit(2 if isinstance(error, InvalidInput) else 1)


if __name__ == "__main__":
    main(prog_name="mn-context-engine explain")
