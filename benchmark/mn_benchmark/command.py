"""`mn-context-benchmark`: runs a suite on a data set, beside its peers, and writes a report."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import click

from mn_benchmark.config import Config, read_config
from mn_benchmark.data import Data
from mn_benchmark.report import Row, check_folder, environment, row, write_report
from mn_benchmark.suites import SUITES, Asked
from mn_benchmark.systems import systems
from mn_contract.errors import ContextError, InvalidInput, NotFound

_GATE_FAILED = 1
_WRONG = 2


class _NamedPath(click.Path):
    """A path that is named: an empty one would be the working folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See click.ParamType."""
        if value == "":
            self.fail("it is empty; name a path, or . for the working folder", param, ctx)
        return super().convert(value, param, ctx)


_PATH = _NamedPath(path_type=Path)


@click.command()
@click.option("--config", "configs", required=True, multiple=True, type=_PATH, help="YAML file")
@click.option("--data", required=True, type=_PATH, help="Folder that holds the data sets.")
@click.option("--output", required=True, type=_PATH, help="Folder for report.json.")
def main(configs: tuple[Path, ...], data: Path, output: Path) -> None:
    """Run a benchmark suite and write DIR/report.json.

    With several configurations each has a folder of its own in DIR, named as its file.

    Exit code 0: it ran (absent data is reported, not an error); 1: a gate of the configuration failed; 2: bad usage, or
    damaged data, which the report names beside what the rest of the data gave.
    """
    try:
        if not data.is_dir():
            raise InvalidInput(f"--data: {data} is no folder", field="data")
        runs = [(read_config(file), folder) for file, folder in _folders(configs, output).items()]
        for _, folder in runs:
            check_folder(folder)
    except ContextError as error:
        _tell(f"mn-context-benchmark: {error.message}")
        sys.exit(_WRONG)
    sys.exit(max(run(config, data, folder) for config, folder in runs))


def _folders(configs: tuple[Path, ...], output: Path) -> dict[Path, Path]:
    """Where the report of each configuration goes. Raises InvalidInput where two would go to one place."""
    if len(configs) == 1:
        return {configs[0]: output}
    name, count = Counter(file.stem for file in configs).most_common(1)[0]
    if count > 1:
        raise InvalidInput(f"--config: {count} files are called {name}, and so would be their reports", field="config")
    return {file: output / file.stem for file in configs}


def run(config: Config, root: Path, output: Path) -> int:
    """Runs one suite and writes its report; answers the exit code."""
    data = Data(root)
    rows: list[Row] = []
    absent: list[str] = []
    errors: list[str] = []
    asked = Asked(
        data=data,
        systems=systems(config.peers),
        settings=config.settings,
        seed=config.seed,
        progress=_tell,
        absent=absent.append,
        damaged=errors.append,
    )
    try:
        for sample in SUITES[config.suite].run(asked):
            rows.append(row(sample, seed=config.seed))
    except NotFound as error:
        absent.append(error.message)
    except ContextError as error:
        errors.append(error.message)
    if not rows and not absent and not errors:
        absent.append(f"the data of {config.suite} holds nothing to ask")
    absent += [told for gate in config.gates if (told := gate.absence(rows))]
    for told in absent:
        _tell(f"absent: {told}")
    failed = [told for gate in config.gates if (told := gate.failure(rows))]
    about = environment(suite=config.suite, seed=config.seed, data=data.hashes)
    file = write_report(output, about=about, rows=rows, absent=absent, errors=errors, failed=failed)
    for one in rows:
        click.echo(
            f"{one.case:<14} {one.system:<14} {one.metric:<20} {one.value:.4f}"
            f"  [{one.ci_low:.4f}, {one.ci_high:.4f}]  n={one.n}"
        )
    for told in failed:
        _tell(f"gate failed: {told}")
    for told in errors:
        _tell(f"mn-context-benchmark: {told}")
    click.echo(f"report: {file}")
    return _WRONG if errors else _GATE_FAILED if failed else 0


def _tell(text: str) -> None:
    click.echo(text, err=True)
