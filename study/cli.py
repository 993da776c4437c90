"""The functions of `python -m study`, whose options are in `study.__main__`; and what all command lines share."""

import os
import shlex
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.table import Table

from stream_app.errors import ArebaError, ConfigurationError
from stream_app.terminal import Terminal, say
from study.run.experiment import FOLDER, choose, load_all, runs_of

INTERRUPTED_EXIT_CODE = 130
"""Exit status that shells report after Ctrl-C."""

RESULTS = Path("study/results")
"""The folder of the study's report."""

EXTRA = ("statsmodels", "scipy", "pandas")
"""Modules of the optional extra that the report needs."""


def list_runs(store: Path, experiments: Path | None) -> int:
    """Print every run: its title, what varies between repetitions, and how many of them are finished."""
    from study.run.store import Store, engine_version  # noqa: PLC0415  (Torch and Numba take seconds)

    finished = Store(store, engine_version())
    table = Table(box=None, pad_edge=False)
    for heading in ("experiment", "group", "varies", "finished", "title"):
        table.add_column(heading, no_wrap=heading != "title")
    for run in runs_of(load_all(experiments or FOLDER)):
        share = f"{len(finished.finished(run))}/{run.experiment.repetitions}"
        table.add_row(run.name, run.experiment.group, run.varies, share, run.experiment.title)
    Terminal(width=None if sys.stdout.isatty() else 160).print(table)
    return 0


def run(names: Sequence[str], repetitions: int | None, jobs: int | None, store: Path, experiments: Path | None) -> int:
    """Run the missing repetitions of these experiments; return the exit status."""
    chosen = choose(runs_of(load_all(experiments or FOLDER)), names)
    from study.run.parallel import missing, run_all  # noqa: PLC0415  (as above)
    from study.run.store import Store, engine_version  # noqa: PLC0415

    console = Terminal(stderr=True)
    engine = engine_version()
    todo = missing(chosen, Store(store, engine), repetitions)
    if not todo:
        console.print("every repetition is finished; `python -m study report` reports them")
        return 0
    try:
        run_all(todo, store, engine, jobs or os.cpu_count() or 1, console)
    except KeyboardInterrupt:
        console.print("stopped; finished repetitions are kept, and the same command continues from there")
        return INTERRUPTED_EXIT_CODE
    return 0


def report(
    names: Sequence[str], store: Path, results: Path | None, experiments: Path | None, compare: Path | None
) -> int:
    """Write the report of the finished repetitions, and compare it with earlier results if `compare` is given."""
    if results is None and experiments is not None:
        raise ConfigurationError("--experiments needs --results: study/results has the report of the study")
    results = results or RESULTS
    missing = [name for name in EXTRA if not _there(name)]
    if missing:
        raise ConfigurationError(f"the report needs {', '.join(missing)}: pip install 'areba[study]'")
    from study.report.report import write_report  # noqa: PLC0415  (as above)

    console = Terminal(stderr=True)
    chosen = choose(runs_of(load_all(experiments or FOLDER)), names or ["all"])
    command = shlex.join(["python", "-m", "study", "report", *names])
    console.print(f"wrote {write_report(chosen, store, results, command, console)}")
    if compare is None:
        return 0
    from study.report.compare import compare_repetitions  # noqa: PLC0415  (as above)

    lines, equal = compare_repetitions(results, compare)
    for line in lines:
        console.print(line)
    return 0 if equal else ArebaError.exit_code


def _there(name: str) -> bool:
    from importlib.util import find_spec  # noqa: PLC0415  (needed here alone)

    return find_spec(name) is not None


def run_without_options(doc: str | None, work: Callable[[], int | None], written: str = "") -> int:
    """Run a command that has no options: `--help` says what it does, and its last line what it wrote.

    Args:
        doc: The docstring of its module; the help has its first paragraph.
        work: What the command does; it may return an exit status.
        written: The last line.
    """
    ArgumentParser(description=(doc or "").split("\n\n", 1)[0]).parse_args()
    status = work() or 0
    if written:
        say(written)
    return status


def run_or_report(given: Namespace, run: Callable[[Namespace], str], report: Callable[[Path], str]) -> int:
    """Do the command of a benchmark, `run` or `report`, and print what it returns; return the exit status.

    Args:
        given: Has `command`, and `results`, the file of the figures.
        run: Runs what is missing.
        report: Writes the pages, or returns the table of a reader's own file.
    """
    try:
        said = report(given.results) if given.command == "report" else run(given)
    except ArebaError as error:
        say(str(error), err=True)
        return error.exit_code
    for line in said.splitlines():
        say(line)
    return 0


def count(text: str) -> int:
    """Return a number of things from its text.

    Raises:
        ArgumentTypeError: It is no number, or below 1.
    """
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text} is no number from 1 on")
    return int(text)
