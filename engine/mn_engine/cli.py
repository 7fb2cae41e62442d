"""`mn-context-engine`: serve a record, over gRPC, HTTP and MCP; compact one, explain a packet, or see the demo.

Heavy parts are imported by the command that needs them, so that --help answers at once. Exit codes: 0 done, 1 refused
by the engine (the error says why and what to do), 2 wrong usage.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn

import click

from mn_contract.errors import ContextError, InvalidInput

if TYPE_CHECKING:
    from mn_engine.domain.bundles import Proved

_GRACE_SECONDS = 30.0
_LOG_LEVEL = click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="mn-context")
def main() -> None:
    """Membrane: a context engine for long-running AI jobs.

    History grows without bound; every request to a model stays bounded, complete and verified.
    """


@main.command()
@click.option("--address", metavar="HOST:PORT", help="Where to listen [MN_CONTEXT_ADDR, 127.0.0.1:50052].")
@click.option("--store", metavar="PATH", help="The record [MN_CONTEXT_STORE, ~/.local/share/membrane/record.duckdb].")
@click.option("--http", metavar="HOST:PORT", help="Where to serve HTTP and MCP beside it [MN_CONTEXT_HTTP, nowhere].")
@click.option("--signing-key", metavar="FILE", help="What signs roots; see keygen [MN_CONTEXT_SIGNING_KEY_FILE, none].")
@click.option("--allow-plaintext", is_flag=True, help="Allow tokens in plain text on an address that is not loopback.")
@_LOG_LEVEL
def serve(
    address: str | None,
    store: str | None,
    http: str | None,
    signing_key: str | None,
    allow_plaintext: bool,
    log_level: str,
) -> None:
    """Serve a record, until SIGINT, SIGTERM or SIGHUP.

    Over gRPC, and with --http over HTTP and MCP beside it. Any of the three signals lets the calls under way finish
    first.
    """
    from mn_engine.config import serve_config
    from mn_engine.serving import log_to_stderr, serve_until_signalled

    log_to_stderr(log_level)
    try:
        serve_until_signalled(
            serve_config(
                address=address, http=http, store=store, signing_key=signing_key, allow_plaintext=allow_plaintext
            ),
            grace_seconds=_GRACE_SECONDS,
        )
    except ContextError as error:
        _refuse(error)


@main.command()
@click.option("--store", metavar="PATH", help="The record, where MN_CONTEXT_ADDR names no engine [MN_CONTEXT_STORE].")
@_LOG_LEVEL
def mcp(store: str | None, log_level: str) -> None:
    """Serve one caller's memories over MCP, on stdin and stdout.

    For whom is in MN_JOB_ID, MN_RUN_ID, MN_PRINCIPAL and MN_ROLES. With MN_CONTEXT_ADDR set that engine is dialled;
    without, the record is opened.
    """
    from mn_engine.config import mcp_config
    from mn_engine.serving import log_to_stderr, serve_mcp

    log_to_stderr(log_level)
    try:
        serve_mcp(mcp_config(store=store))
    except ContextError as error:
        _refuse(error)


@main.command()
def schema() -> None:
    """Print the JSON Schema of an SMP envelope."""
    import json

    from mn_contract.smp import ENVELOPE_SCHEMA

    click.echo(json.dumps(dict(ENVELOPE_SCHEMA), indent=2, ensure_ascii=False))


@main.command("verify-bundle")
@click.argument("file", type=click.File("rb"))
@click.option("--root", metavar="SHA256", default="", help="The run's root, where you have kept it.")
def verify_bundle(file: BinaryIO, root: str) -> None:
    """Check a citation bundle, without a record.

    FILE is what memory_export_bundle answers; - reads stdin. Tells what it proves, and of which root. Without --root
    that is all that it proves: compare the root with one that you have from the run.
    """
    from mn_engine.domain.bundles import read_bundle

    try:
        proved = read_bundle(file.read(), expected_root=root)
    except ContextError as error:
        _refuse(error)
    _tell_cards(proved)
    known = "the root that was given" if root else "compare it with one that you have kept"
    click.echo(
        f"OK: {len(proved.cards)} records, revision {proved.revision}; the bundle calls it job {proved.job_id}, "
        f"run {proved.run_id}"
    )
    click.echo(f"root {proved.root} ({known})")


@main.command()
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
def keygen(name: str, file: Path) -> None:
    """Make a key that signs the roots of runs.

    NAME says whose it is, best as an address without https://, such as example.com/membrane. FILE gets the signing key,
    for its owner's eyes (mode 600), and must not be there yet. Prints the verifier key, which verify-root takes: hand
    it to those who check.
    """
    import secrets

    from mn_engine.domain.signed_notes import KEY_BYTES, SigningKey

    try:
        key = SigningKey(name, secrets.token_bytes(KEY_BYTES))
        _write_secret(file, f"{key.text}\n")
    except ContextError as error:
        _refuse(error)
    click.echo(key.verifier.text)


@main.command("verify-root")
@click.argument("file", type=click.File("rb"))
@click.option("--key", metavar="VKEY", required=True, help="The verifier key that keygen printed: NAME+ID+BASE64.")
@click.option("--bundle", type=click.File("rb"), help="A citation bundle that must be of this root.")
def verify_root(file: BinaryIO, key: str, bundle: BinaryIO | None) -> None:
    """Check a signed root, without a record.

    FILE is the note that memory_export_root answers; - reads stdin. Tells which run's root it is and, with --bundle,
    what the bundle proves.
    """
    from mn_engine.domain.checkpoints import proved_under, verified_checkpoint
    from mn_engine.domain.signed_notes import NOTE_BYTES_MAX, VerifierKey

    try:
        verifier = VerifierKey.of(key)
        checkpoint = verified_checkpoint(file.read(NOTE_BYTES_MAX + 1), verifier)
        proved = None if bundle is None else proved_under(checkpoint, bundle.read())
    except ContextError as error:
        _refuse(error)
    if proved is not None:
        _tell_cards(proved)
        click.echo(f"OK: {len(proved.cards)} records under this root")
    click.echo(
        f"OK: {verifier.name} signed job {checkpoint.job_id}, run {checkpoint.run_id}, revision {checkpoint.revision}, "
        f"{checkpoint.size} leaves"
    )
    click.echo(f"root {checkpoint.root}")


@main.command()
@click.option("--store", metavar="PATH", help="The record [MN_CONTEXT_STORE, ~/.local/share/membrane/record.duckdb].")
def compact(store: str | None) -> None:
    """Remove cleared runs from a record that nobody has open.

    They are removed physically, and disk space is given back.
    """
    from mn_engine.bootstrap import open_engine
    from mn_engine.config import record_path

    try:
        path = record_path(store=store)
        if not path.exists():
            raise InvalidInput(f"there is no record at {path}", field="--store")
        engine = open_engine(path)
        try:
            freed = engine.store.compact()
        finally:
            engine.close()
    except ContextError as error:
        _refuse(error)
    click.echo(f"compacted {path}: {freed} bytes given back")


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def demo(arguments: tuple[str, ...]) -> NoReturn:
    """Run a job larger than any window, killed in the middle."""
    _hand_over("mn_sdk.demo", arguments)


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def explain(arguments: tuple[str, ...]) -> NoReturn:
    """Say why a card is in a turn's packet, or why it is not."""
    _hand_over("mn_sdk.explain", arguments)


@main.command(
    "cmp-demo", context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def cmp_demo(arguments: tuple[str, ...]) -> NoReturn:
    """Show packs, deltas and queries on a record of the demo's own."""
    _hand_over("mn_sdk.cmp_demo", arguments)


def _tell_cards(proved: Proved) -> None:
    for card in proved.cards:
        said = "".join(one if one.isprintable() else "?" for one in " ".join(card.text.split())[:80])
        click.echo(f"{card.owner}:{card.id}  {said}")


def _write_secret(path: Path, text: str) -> None:
    """A new file for its owner's eyes. Raises InvalidInput where one is there already or none can be written."""
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise InvalidInput(
            f"{path} is there already; name a file that is not, or move it away", field="FILE"
        ) from error
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}", field="FILE") from error


def _hand_over(module: str, arguments: tuple[str, ...]) -> NoReturn:
    """Runs a command of the SDK, which the engine never imports, as a process of its own."""
    import subprocess

    sys.exit(subprocess.call([sys.executable, "-m", module, *arguments]))


def _refuse(error: ContextError) -> NoReturn:
    click.echo(f"mn-context-engine: {error.message} [{error.reason}]", err=True)
    sys.exit(2 if isinstance(error, InvalidInput) else 1)


if __name__ == "__main__":
    main()
