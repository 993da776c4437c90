"""The command line: `python -m study.selective run|report`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from stream_app.terminal import Terminal
from study.cli import count, run_or_report
from study.selective.policies import POLICIES
from study.selective.results import RESULTS
from study.selective.streams import ALL_STREAMS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m study.selective", description="Labels that come late, or that depend on predictions."
    )
    parser.add_argument(
        "command",
        choices=("run", "report"),
        help="run what is missing, or write the page; the table of your own file is printed",
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="the CSV file of the figures")
    parser.add_argument(
        "--seeds", metavar="COUNT", type=count, help="how many seeds, 0 to COUNT - 1; by default those of the page"
    )
    parser.add_argument("--stream", nargs="+", choices=ALL_STREAMS, default=tuple(ALL_STREAMS), help="by default all")
    parser.add_argument("--policy", nargs="+", choices=POLICIES, default=tuple(POLICIES), help="by default all")
    parser.add_argument("--method", nargs="+", help="names, or NAME=package.module:Class for your own; by default all")
    parser.add_argument("--again", action="store_true", help="run what is asked for even if it is in the file")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    return run_or_report(_parser().parse_args(arguments), _run, _report)


def _report(results: Path) -> str:
    from study.selective.report import of_file, write_pages  # noqa: PLC0415  (SciPy is an optional extra)

    if results != RESULTS:
        return of_file(results)
    write_pages()
    return "study/selective.md, its picture and docs/models.md have the tables of these figures"


def _run(given: argparse.Namespace) -> str:
    from study.own_methods import choose_methods  # noqa: PLC0415  (Numba takes seconds)
    from study.selective.methods import METHODS, own_method  # noqa: PLC0415
    from study.selective.run import Asked, run_missing  # noqa: PLC0415

    methods = choose_methods(given.method or (), METHODS, own_method, is_own_file=given.results != RESULTS)
    asked = Asked(given.stream, given.policy, methods, given.seeds)
    new = run_missing(asked, given.results, Terminal(stderr=True), again=given.again)
    return f"{new} repetitions were run; {given.results} has the figures of all"


if __name__ == "__main__":
    sys.exit(main())
