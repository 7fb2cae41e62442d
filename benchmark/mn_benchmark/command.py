"""`mn-context-benchmark`: runs a suite on a data set, beside its peers, and writes a report."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mn_benchmark.config import Config, read_config
from mn_benchmark.data import Data
from mn_benchmark.report import Row, check_folder, environment, row, write_report
from mn_benchmark.suites import SUITES, Asked
from mn_benchmark.systems import systems
from mn_contract.errors import ContextError, InvalidInput, NotFound


@click.command()
@click.option("--config", "configs", required=True, multiple=True, type=click.Path(path_type=Path), help="YAML file")
@click.option("--data", required=True, type=click.Path(path_type=Path), help="Folder that holds the data sets.")
@click.option("--output", required=True, type=click.Path(path_type=Path), help="Folder for report.json.")
def main(configs: tuple[Path, ...], data: Path, output: Path) -> None:
    """Run a benchmark suite and write DIR/report.json.

    Exit code 0: it ran (absent data is reported, not an error); 1: a gate of the configuration failed; 2: bad usage.
    """
    try:
        failed = [run(read_config(file), data, output if len(configs) == 1 else output / file.stem) for file in configs]
    except ContextError as error:
        click.echo(f"mn-context-benchmark: {error.message}", err=True)
        sys.exit(2)
    sys.exit(1 if any(failed) else 0)


def run(config: Config, root: Path, output: Path) -> list[str]:
    """Runs one suite and writes its report; answers the gates that failed."""
    suite = SUITES.get(config.suite)
    if suite is None:
        raise InvalidInput(f"there is no suite {config.suite!r}; suites are {', '.join(sorted(SUITES))}", field="suite")
    if not root.is_dir():
        raise InvalidInput(f"{root} is no folder", field="data")
    check_folder(output)
    data = Data(root)
    rows: list[Row] = []
    absent: list[str] = []
    asked = Asked(
        data=data,
        systems=systems(config.peers),
        settings=config.settings,
        seed=config.seed,
        progress=_tell,
        absent=absent.append,
    )
    try:
        rows = [row(sample, seed=config.seed) for sample in suite(asked)]
    except NotFound as error:
        absent.append(error.message)
    if not rows and not absent:
        absent.append(f"the data of {config.suite} holds nothing to ask")
    for told in absent:
        _tell(f"absent: {told}")
    failed = [told for gate in config.gates if (told := gate.failure(rows))]
    about = environment(suite=config.suite, seed=config.seed, files=data.read, data=root)
    file = write_report(output, about=about, rows=rows, absent=absent, failed=failed)
    for one in rows:
        click.echo(
            f"{one.case:<14} {one.system:<14} {one.metric:<20} {one.value:.4f}"
            f"  [{one.ci_low:.4f}, {one.ci_high:.4f}]  n={one.n}"
        )
    for told in failed:
        click.echo(f"gate failed: {told}", err=True)
    click.echo(f"report: {file}")
    return failed


def _tell(text: str) -> None:
    click.echo(text, err=True)
