"""The command of the simulation; see the package's docstring."""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import click
import yaml
from rich.console import Console

from tests.simulation.many import MAX_FAILURES, default_processes, run_many, run_seed, show
from tests.simulation.mutants import MUTANTS
from tests.simulation.mutants.hunt import MAX_SEEDS, hunt
from tests.simulation.mutants.mutant import mutated


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seed", type=click.IntRange(0), help="One seed, with a trace of what was done.")
@click.option("--seeds", help="A:B runs the seeds from A on, below B.")
@click.option("--until-failure", is_flag=True, help="With --seeds: end at the first that fails.")
@click.option(
    "--mutants",
    type=click.Choice(["all", "quick"]),
    help="Break the code in known ways, each of which must be found; `quick`: those that take seconds.",
)
@click.option(
    "--mutant",
    type=click.Choice(["", *MUTANTS]),
    default="",
    metavar="NAME",
    help="Break the code in this one way; with --mutants: hunt this one alone.",
)
@click.option("--max-seeds", type=click.IntRange(1), default=MAX_SEEDS, show_default=True, help="For each mutant.")
@click.option("--processes", type=click.IntRange(1, 256), default=default_processes, help="By default one a core.")
@click.option(
    "--settings",
    default="",
    metavar="YAML",
    help="Settings of all workers in place of the seed's own, by section: 'worker: {commit_interval_ms: 0}'.",
)
def main(
    seed: int | None,
    seeds: str | None,
    until_failure: bool,
    mutants: str | None,
    mutant: str,
    max_seeds: int,
    processes: int,
    settings: str,
) -> None:
    """Run workers over an in-process log with faults at every call of a port, and check what was committed."""
    console = Console()
    sections = _sections(settings)
    if sum((seed is not None, seeds is not None, mutants is not None)) != 1:
        raise click.UsageError("one of --seed, --seeds and --mutants is needed")
    if mutants:
        chosen = [name for name, one in MUTANTS.items() if mutants == "all" or one.is_quick]
        names = [mutant] if mutant else chosen
        sys.exit(0 if hunt(names, max_seeds, settings, processes, console) else 1)
    if mutant:
        sys.exit(_mutated(mutant))
    if seed is not None:
        sys.exit(_one(seed, sections))
    total = run_many(_range(seeds or ""), sections, processes, console, 1 if until_failure else MAX_FAILURES)
    show(total, console)
    sys.exit(1 if total.failed or total.never else 0)


def _mutated(mutant: str) -> int:
    """Run this command again with the code broken; return the exit status."""
    with mutated(MUTANTS[mutant]) as environment:
        again = [argument for argument in sys.argv[1:] if argument not in {"--mutant", mutant, f"--mutant={mutant}"}]
        return subprocess.run(
            [sys.executable, "-m", "tests.simulation", *again], env=environment, check=False
        ).returncode


def _one(seed: int, sections: Mapping[str, Any]) -> int:
    """Run one seed with its trace; return the exit status."""
    result = run_seed(seed, sections, say=click.echo)
    for name, count in (*result.hits.items(), *result.events.items()):
        click.echo(f"{count:6}  {name}")
    click.echo(f"seed {seed}: {result.wrong or 'all holds'}")
    return 1 if result.wrong else 0


def _range(text: str) -> range:
    first, _, end = text.partition(":")
    if not (first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise click.UsageError(f"--seeds {text}: A:B is needed, with A smaller than B")
    return range(int(first), int(end))


def _sections(text: str) -> Mapping[str, Any]:
    sections = yaml.safe_load(text) if text else {}
    if not isinstance(sections, dict):
        raise click.UsageError("--settings: sections of settings are needed, as in a configuration file")
    return sections


if __name__ == "__main__":
    main()
