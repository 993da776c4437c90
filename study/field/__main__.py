"""The command line: `python -m study.field run|report`."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from stream_app.terminal import Terminal
from study.cli import count, run_or_report
from study.field.results import RESULTS
from study.field.streams import all_streams, has_data


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m study.field", description="Methods of the field on the survey's generators."
    )
    parser.add_argument(
        "command",
        choices=("run", "report"),
        help="run what is missing, or write the page; the table of your own file is printed",
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="the CSV file of the measures")
    parser.add_argument(
        "--stream",
        nargs="+",
        metavar="STREAM",
        choices=all_streams(),
        help="such as sudden-sine-5; by default all; without AREBA_DATA_DIR all but those of real data sets",
    )
    parser.add_argument(
        "--seeds",
        metavar="COUNT",
        type=count,
        help="how many seeds, 0 to COUNT - 1, for the fast methods; by default those of the page",
    )
    parser.add_argument(
        "--method", nargs="+", help="fast methods, or NAME=package.module:Class for your own; by default all fast ones"
    )
    parser.add_argument("--slow", action="store_true", help="run the slow methods on the named subset instead")
    parser.add_argument("--again", action="store_true", help="run what is asked for even if it is in the file")
    parser.add_argument("--moa", metavar="CLASSPATH", default="", help="jars and classes of CSARF, ROSE and CALMID")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes; by default all cores")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    return run_or_report(_parser().parse_args(arguments), _run, _report)


def _report(results: Path) -> str:
    from study.field.report import of_file, write_page  # noqa: PLC0415  (pictures take a second)

    if results != RESULTS:
        return of_file(results)
    write_page()
    return "study/results/field.md, its pictures and docs/models.md have the tables of these measures"


def _run(given: argparse.Namespace) -> str:
    from study.field.methods import FAST, own_method, slow_methods  # noqa: PLC0415  (Numba takes seconds)
    from study.field.run import SEEDS, fast_work, run_missing, slow_work  # noqa: PLC0415
    from study.own_methods import choose_methods  # noqa: PLC0415

    names = given.stream or [name for name in all_streams() if has_data(name)]
    known = slow_methods(given.moa) if given.slow else FAST
    methods = choose_methods(given.method or (), known, own_method, is_own_file=given.results != RESULTS)
    work = slow_work(names, methods) if given.slow else fast_work(names, given.seeds or SEEDS, methods)
    new = run_missing(work, given.results, given.jobs, methods, Terminal(stderr=True), again=given.again)
    return f"{new} repetitions were run; {given.results} has the measures of all"


if __name__ == "__main__":
    sys.exit(main())
