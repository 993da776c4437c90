"""Run the study from the checkout: `python -m study list|run|report`."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from stream_app.cli.process import configure_logging, run_command

STORE_OPTION = click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".local/study"),
    show_default=True,
    help="Folder that keeps the finished repetitions.",
)

EXPERIMENTS_OPTION = click.option(
    "--experiments",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Folder with experiment files of your own; by default the project's.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def study() -> None:
    """Run the paper's experiments and ours, and report their results."""
    configure_logging()


@study.command("list")
@STORE_OPTION
@EXPERIMENTS_OPTION
def list_command(store: Path, experiments: Path | None) -> None:
    """List the experiments and how many repetitions of each are finished."""
    from study.cli import list_runs  # noqa: PLC0415  (Torch and Numba take seconds; --help should not)

    sys.exit(list_runs(store, experiments))


@study.command("run")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--reps", type=click.IntRange(1, 10_000), help="Repetitions; by default the experiment's own number.")
@click.option("--jobs", type=click.IntRange(1, 1_000), help="Processes; by default one for each core.")
@STORE_OPTION
@EXPERIMENTS_OPTION
def run_experiments(
    names: Sequence[str], reps: int | None, jobs: int | None, store: Path, experiments: Path | None
) -> None:
    """Run the missing repetitions of the named experiments.

    NAME is an experiment (* and ? are wildcards), a group of experiments, `paper` or `all`. Ctrl-C loses no finished
    repetition: the same command continues from there.
    """
    from study.cli import run  # noqa: PLC0415  (as above)

    sys.exit(run(names, reps, jobs, store, experiments))


@study.command("report")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@STORE_OPTION
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for report.md, final.csv and the figures; by default study/results, unless --experiments is given.",
)
@EXPERIMENTS_OPTION
@click.option(
    "--compare",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Folder with earlier results; exit status 1 when a repetition differs from them.",
)
def report_command(
    names: Sequence[str], store: Path, results: Path | None, experiments: Path | None, compare: Path | None
) -> None:
    """Write tables, figures and statistics of the finished repetitions, of all experiments or of the named ones."""
    from study.cli import report  # noqa: PLC0415  (as above)

    sys.exit(report(names, store, results, experiments, compare))


if __name__ == "__main__":
    run_command(study)
